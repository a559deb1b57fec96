// The words of NumPy's .npy files: element types, and what reader and writer say about them.
//
// Debian's readers were judged and left out: cnpy asserts on or overruns bad input, xtensor-io brings xtensor; neither
// maps files nor knows bf16.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace msj::cli {

inline constexpr std::string_view kNpyMagic = "\x93NUMPY";
inline constexpr std::size_t kNpyVersionEnd = 8;  // magic, major, minor; then the header's length in 2 or 4 bytes
inline constexpr std::size_t kNpyMaxRank = 6;

enum class NpyType : std::uint8_t {
  boolean,
  i8,
  u8,
  raw8,  // meaning not told: ml_dtypes writes float8_e4m3fn as '<V1', as it does int4 and others
  u16,   // the bits of other numbers: NumPy has no bfloat16 of its own
  i32,
  i64,
  f16,
  bf16,
  f32,
  f64,
  fp8_e4m3,
  fp8_e5m2,
};

struct NpyTypeInfo {
  NpyType type;
  std::string_view name;   // "bool", "int8", "raw8", "float16", "bfloat16", "float8_e4m3fn", …
  std::string_view descr;  // what the writer puts into the header
  std::int64_t bytes;
};

// In the enum's order; of several with one descr, a file is read as the first.
inline constexpr std::array<NpyTypeInfo, 13> kNpyTypes{{
    {NpyType::boolean, "bool", "|b1", 1},
    {NpyType::i8, "int8", "|i1", 1},
    {NpyType::u8, "uint8", "|u1", 1},
    {NpyType::raw8, "raw8", "|V1", 1},
    {NpyType::u16, "uint16", "<u2", 2},
    {NpyType::i32, "int32", "<i4", 4},
    {NpyType::i64, "int64", "<i8", 8},
    {NpyType::f16, "float16", "<f2", 2},
    {NpyType::bf16, "bfloat16", "<V2", 2},
    {NpyType::f32, "float32", "<f4", 4},
    {NpyType::f64, "float64", "<f8", 8},
    {NpyType::fp8_e4m3, "float8_e4m3fn", "|V1", 1},
    {NpyType::fp8_e5m2, "float8_e5m2", "|V1", 1},
}};

[[nodiscard]] std::string_view name(NpyType type);
[[nodiscard]] std::string_view descr(NpyType type);
[[nodiscard]] std::int64_t bytes(NpyType type);

// The number of elements. Throws where the rank is too large, or the bytes or strides cannot be counted.
[[nodiscard]] std::int64_t npy_elements(std::span<const std::int64_t> shape, NpyType type, std::string_view file);

// "(2, 3)", "(6,)"
[[nodiscard]] std::string npy_shape_text(std::span<const std::int64_t> shape);

// One sentence that names the file.
template <typename... Args>
[[noreturn]] void npy_failure(std::string_view file, fmt::format_string<Args...> format, Args &&...args) {
  throw std::runtime_error(
      fmt::format("{}: {}", file.empty() ? "''" : file, fmt::format(format, std::forward<Args>(args)...)));
}

}  // namespace msj::cli
