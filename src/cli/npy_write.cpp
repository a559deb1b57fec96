#include "cli/npy_write.h"

#include <sys/stat.h>

#include <algorithm>
#include <string>
#include <system_error>

namespace msj::cli {
namespace {

std::filesystem::path checked_target(const std::filesystem::path &path) {
  if (!path.has_filename()) npy_failure(path.native(), "the path to write has no file name");
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    npy_failure(path.native(), "this is a directory; accepted: a .npy file");
  }
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    npy_failure(path.native(), "this is a device, pipe or socket; accepted: a regular .npy file");
  }
  return output_target(path);
}

// Version 1.0, padded with spaces so that the data starts at a multiple of 64 bytes.
std::string preamble(NpyType type, std::span<const std::int64_t> shape) {
  constexpr std::size_t kBegin = kNpyVersionEnd + 2;
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr(type), npy_shape_text(shape));
  text.resize((kBegin + text.size() + 1 + 63) / 64 * 64 - kBegin - 1, ' ');
  text += '\n';
  std::string result(kNpyMagic);
  result += {'\x01', '\x00', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return result + text;
}

}  // namespace

NewFile stage_npy(const std::filesystem::path &path, NpyType type, std::span<const std::int64_t> shape,
                  std::span<const std::byte> data) {
  const std::string &file = path.native();
  if (std::ranges::any_of(shape, [](std::int64_t size) { return size < 0; })) {
    npy_failure(file, "the shape {} to write has a negative size", npy_shape_text(shape));
  }
  const auto wanted = static_cast<std::size_t>(npy_elements(shape, type, file) * bytes(type));
  if (data.size() != wanted) {
    npy_failure(file, "the array to write has {} bytes; shape {} of {} needs {}", data.size(), npy_shape_text(shape),
                name(type), wanted);
  }
  NewFile staged(checked_target(path));
  const std::string header = preamble(type, shape);
  staged.write(std::as_bytes(std::span(header)));
  staged.write(data);
  staged.sync();
  return staged;
}

void write_npy(const std::filesystem::path &path, NpyType type, std::span<const std::int64_t> shape,
               std::span<const std::byte> data) {
  stage_npy(path, type, shape, data).publish();
}

}  // namespace msj::cli
