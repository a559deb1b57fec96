// .npy files of tests: in memory with any header, and in a folder of their own.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cli/npy_read.h"

namespace msj::testing {

namespace fs = std::filesystem;
using namespace msj::cli;
using Sizes = std::vector<std::int64_t>;

// A .npy file in memory: any header text, the right length field for its version.
inline std::string file_of(std::string_view header, std::string_view data, int version = 1) {
  std::string file = "\x93NUMPY";
  file += static_cast<char>(version);
  file += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) file += static_cast<char>(header.size() >> (8 * i) & 0xff);
  file += header;
  return file += data;
}

inline std::string header_of(std::string_view descr, std::string_view shape, bool fortran_order = false) {
  return "{'descr': '" + std::string(descr) + "', 'fortran_order': " + (fortran_order ? "True" : "False") +
         ", 'shape': " + std::string(shape) + ", }\n";
}

inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

inline NpyArray parse(std::string_view file) { return parse_npy(bytes_of(file), "a.npy"); }

template <typename T>
T element(const NpyArray &array, std::int64_t offset) {
  return load_npy<T>(array.data + offset * static_cast<std::int64_t>(sizeof(T)), array.is_swapped);
}

inline std::string message_of(const std::function<void()> &action) {
  try {
    action();
  } catch (const std::runtime_error &error) {
    return error.what();
  }
  return "(no error)";
}

inline std::string refusal(std::string_view file) {
  return message_of([file] { (void)parse(file); });
}

// One sentence about this file that says `part`.
inline void check_refused(std::string_view file, std::string_view part) {
  const std::string message = refusal(file);
  CAPTURE(message);
  CAPTURE(part);
  CHECK(message.starts_with("a.npy: "));
  CHECK(message.find(part) != std::string::npos);
  CHECK(message.find('\n') == std::string::npos);
  CHECK(message.size() < 400);
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "npy_test.XXXXXX").native();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TemporaryFolder() { fs::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;

  [[nodiscard]] fs::path operator/(std::string_view name) const { return path_ / name; }
  [[nodiscard]] std::ptrdiff_t entries() const {
    return std::distance(fs::directory_iterator(path_), fs::directory_iterator());
  }

 private:
  fs::path path_;
};

inline std::string contents(const fs::path &path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline void put(const fs::path &path, std::string_view text) {
  std::ofstream(path, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
}

inline const std::string kSixBytes("\x01\x02\x03\x04\x05\x06", 6);
inline constexpr std::array<float, 3> kThreeFloats{1.5F, -2.0F, 0.25F};

}  // namespace msj::testing
