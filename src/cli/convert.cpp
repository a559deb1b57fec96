#include "cli/convert.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "cli/failure.h"
#include "cli/parallel.h"

namespace msj::cli {
namespace {

// A float format below float64. `has_infinity`: the largest exponent is for infinities and NaN, as in IEEE 754;
// without, only the largest pattern is NaN.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;

  [[nodiscard]] int min_exponent() const { return 2 - (1 << (exponent_bits - 1)); }
  [[nodiscard]] std::uint32_t sign_bit() const { return 1U << (exponent_bits + mantissa_bits); }
  [[nodiscard]] std::uint32_t mantissa_mask() const { return (1U << mantissa_bits) - 1; }
  [[nodiscard]] std::uint32_t infinity() const { return ((1U << exponent_bits) - 1) << mantissa_bits; }
  [[nodiscard]] std::uint32_t nan() const {
    return has_infinity ? infinity() | 1U << (mantissa_bits - 1) : infinity() | mantissa_mask();
  }
  [[nodiscard]] std::uint32_t overflow() const { return has_infinity ? infinity() : nan(); }
  [[nodiscard]] std::uint32_t largest() const { return overflow() - 1; }
};

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return {5, 10, true};
    case DType::bf16:
      return {8, 7, true};
    case DType::fp8_e4m3:
      return {4, 3, false};
    case DType::fp8_e5m2:
      return {5, 2, true};
    default:
      return {8, 23, true};
  }
}

// 2^exponent, for exponents of normal doubles.
double power_of_two(int exponent) { return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52); }

double decode(const Format &format, std::uint32_t bits) {
  const std::uint32_t magnitude = bits & (format.sign_bit() - 1);
  const double sign = (bits & format.sign_bit()) != 0 ? -1.0 : 1.0;
  if (format.has_infinity && magnitude == format.infinity()) return sign * std::numeric_limits<double>::infinity();
  if (magnitude > format.largest()) return std::numeric_limits<double>::quiet_NaN();
  const std::uint32_t exponent = magnitude >> format.mantissa_bits;
  std::uint32_t mantissa = magnitude & format.mantissa_mask();
  if (exponent != 0) mantissa |= 1U << format.mantissa_bits;
  const int power = std::max(static_cast<int>(exponent), 1) - 1 + format.min_exponent() - format.mantissa_bits;
  return sign * mantissa * power_of_two(power);
}

std::uint32_t encode(const Format &format, double value) {
  const std::uint32_t sign = std::signbit(value) ? format.sign_bit() : 0;
  const double magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | format.nan();
  if (std::isinf(value)) return sign | format.overflow();
  const int own_exponent = static_cast<int>(std::bit_cast<std::uint64_t>(magnitude) >> 52) - 1023;
  if (own_exponent > 128) return sign | format.overflow();  // 2^128 is too large for every format
  const int exponent = std::max(own_exponent, format.min_exponent());
  // The significand as an integer, rounded to nearest even (the rounding mode is never changed). One that rounds up to
  // the next power of two carries into the exponent, as it should.
  const double significand = std::nearbyint(magnitude * power_of_two(format.mantissa_bits - exponent));
  const std::uint32_t pattern = static_cast<std::uint32_t>(significand) +
                                (static_cast<std::uint32_t>(exponent - format.min_exponent()) << format.mantissa_bits);
  return sign | (pattern > format.largest() ? format.overflow() : pattern);
}

double load_double(const NpyArray &array, const std::byte *from) {
  switch (array.type) {
    case NpyType::f64:
      return load_npy<double>(from, array.is_swapped);
    case NpyType::f32:
      return static_cast<double>(load_npy<float>(from, array.is_swapped));
    default:
      break;
  }
  const std::uint32_t bits = bytes(array.type) == 1 ? load_npy<std::uint8_t>(from, array.is_swapped)
                                                    : load_npy<std::uint16_t>(from, array.is_swapped);
  return decode(format_of(*dtype_of(array.type)), bits);
}

// The pattern's low bytes; the host is little endian.
void store(std::uint32_t pattern, std::size_t size, std::byte *to) { std::memcpy(to, &pattern, size); }

bool is_finite(const Format &format, std::uint32_t pattern) {
  return (pattern & (format.sign_bit() - 1)) <= format.largest();
}

}  // namespace

bool is_float(NpyType type) {
  const auto dtype = dtype_of(type);
  return type == NpyType::f64 || (dtype && is_float(*dtype));
}

bool is_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::fp8_e4m3 ||
         dtype == DType::fp8_e5m2;
}

std::optional<DType> dtype_of(NpyType type) {
  switch (type) {
    case NpyType::boolean:
      return DType::boolean;
    case NpyType::i8:
      return DType::i8;
    case NpyType::u8:
    case NpyType::raw8:
      return DType::u8;
    case NpyType::i32:
      return DType::i32;
    case NpyType::i64:
      return DType::i64;
    case NpyType::f16:
      return DType::f16;
    case NpyType::bf16:
      return DType::bf16;
    case NpyType::f32:
      return DType::f32;
    case NpyType::fp8_e4m3:
      return DType::fp8_e4m3;
    case NpyType::fp8_e5m2:
      return DType::fp8_e5m2;
    case NpyType::u16:
    case NpyType::f64:
      break;
  }
  return std::nullopt;
}

Converted convert_floats(const NpyArray &array, DType to) {
  constexpr std::int64_t kChunk = std::int64_t{1} << 20;
  const Format format = format_of(to);
  const std::int64_t count = array.elements();
  const std::int64_t from_bytes = bytes(array.type);
  const std::int64_t to_bytes = bytes(to);
  Converted result;
  result.data.resize(static_cast<std::size_t>(count * to_bytes));
  std::atomic<std::int64_t> overflows{0};
  parallel_for((count + kChunk - 1) / kChunk, hardware_threads(), [&](std::int64_t chunk) {
    std::int64_t lost = 0;
    for (std::int64_t i = chunk * kChunk; i < std::min(count, (chunk + 1) * kChunk); ++i) {
      const double value = load_double(array, array.data + i * from_bytes);
      const std::uint32_t pattern = encode(format, value);
      lost += std::isfinite(value) && !is_finite(format, pattern) ? 1 : 0;
      store(pattern, static_cast<std::size_t>(to_bytes), result.data.data() + i * to_bytes);
    }
    overflows += lost;
  });
  result.overflows = overflows;
  return result;
}

std::vector<std::byte> narrow_integers(const NpyArray &array, std::string_view what) {
  const std::int64_t count = array.elements();
  std::vector<std::byte> result(static_cast<std::size_t>(count) * sizeof(std::int32_t));
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value = load_npy<std::int64_t>(array.data + i * bytes(array.type), array.is_swapped);
    const auto narrow = static_cast<std::int32_t>(value);
    if (narrow != value) failure("{} holds {}; values that fit int32 are accepted", what, value);
    std::memcpy(result.data() + static_cast<std::size_t>(i) * sizeof narrow, &narrow, sizeof narrow);
  }
  return result;
}

double decode(DType dtype, std::uint32_t bits) { return decode(format_of(dtype), bits); }

std::uint32_t encode(DType dtype, double value) { return encode(format_of(dtype), value); }

}  // namespace msj::cli
