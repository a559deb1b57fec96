// NumPy's .npy files, versions 1.0 to 3.0: mapped into memory and described, never copied but to swap bytes.
//
// Debian's readers were judged and left out: cnpy asserts on or overruns bad input, xtensor-io brings xtensor; neither
// maps files nor knows bf16.
//
// Every failure throws std::runtime_error with one sentence that names the file, what it was and what is accepted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace msj::cli {

inline constexpr std::size_t kNpyMaxRank = 6;
inline constexpr std::size_t kNpyMaxHeaderBytes = 65535;  // all that version 1.0 can say; NumPy itself stops at 10,000

enum class NpyType : std::uint8_t {
  boolean,
  i8,
  u8,
  raw8,  // meaning not told: ml_dtypes writes float8_e4m3fn as '<V1', as it does int4 and others
  i32,
  i64,
  f16,
  bf16,
  f32,
  f64,
  fp8_e4m3,
  fp8_e5m2,
};

// "bool", "int8", "raw8", "float16", "bfloat16", "float8_e4m3fn", …
[[nodiscard]] std::string_view name(NpyType type);
[[nodiscard]] std::int64_t bytes(NpyType type);

struct NpyArray {
  NpyType type = NpyType::f32;
  std::vector<std::int64_t> shape;    // empty for a scalar; every size ≥ 0, and their product in bytes fits the file
  std::vector<std::int64_t> strides;  // in elements; C or Fortran order, as in the file
  const std::byte *data = nullptr;    // host byte order, at any alignment: read elements with memcpy
  std::shared_ptr<const void> owner;  // keeps data alive: the mapping or a byte-swapped copy; null: the caller's bytes

  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] std::int64_t bytes() const { return elements() * cli::bytes(type); }
};

// Maps a regular file. Bytes after the array are ignored, as NumPy does. Another program that truncates the file while
// the array lives makes access to it fail with SIGBUS, as with any mapping.
[[nodiscard]] NpyArray read_npy(const std::filesystem::path &path);

// The same for bytes in memory, to which the array points; `file` is for messages.
[[nodiscard]] NpyArray parse_npy(std::span<const std::byte> file_bytes, std::string_view file);

// Writes version 1.0 in C order from elements in host byte order. The file appears whole under its name or not at all:
// it is written to a temporary beside it, which is renamed. A symlink's target is replaced, not the link. bf16 is
// written as ml_dtypes writes it; fp8 as '|V1', because NumPy cannot load ml_dtypes' '<f1'.
void write_npy(const std::filesystem::path &path, NpyType type, std::span<const std::int64_t> shape,
               std::span<const std::byte> data);

}  // namespace msj::cli
