// Exact conversions to float64 of every dtype that a matrix may have, one number or one strided row at a time; and
// back, to the nearest number, of two the one with an even mantissa.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/dtype.h"
#include "base/error.h"

namespace msj::reference {

// A binary float of `exponent_bits` and `mantissa_bits` with IEEE's infinities and NaNs. Exact: every such number is a
// float64.
template <int exponent_bits, int mantissa_bits>
[[nodiscard]] inline double from_ieee(std::uint32_t bits) {
  constexpr std::uint32_t kExponentMax = (1u << exponent_bits) - 1;
  constexpr int kBias = (1 << (exponent_bits - 1)) - 1;
  constexpr int kDoubleBias = 1023;
  constexpr int kDoubleMantissa = 52;
  const std::uint64_t sign = static_cast<std::uint64_t>(bits >> (exponent_bits + mantissa_bits)) << 63;
  const std::uint32_t exponent = (bits >> mantissa_bits) & kExponentMax;
  const std::uint64_t mantissa = bits & ((1u << mantissa_bits) - 1);
  if (exponent == 0) {  // zero and subnormal: mantissa · 2^(1 - bias - mantissa_bits)
    constexpr std::uint64_t kUnit = static_cast<std::uint64_t>(kDoubleBias + 1 - kBias - mantissa_bits)
                                    << kDoubleMantissa;
    const double magnitude = static_cast<double>(mantissa) * std::bit_cast<double>(kUnit);
    return std::bit_cast<double>(std::bit_cast<std::uint64_t>(magnitude) | sign);
  }
  const std::uint64_t wide_exponent =
      exponent == kExponentMax ? 2047u : static_cast<std::uint64_t>(exponent) + kDoubleBias - kBias;
  return std::bit_cast<double>(sign | (wide_exponent << kDoubleMantissa) |
                               (mantissa << (kDoubleMantissa - mantissa_bits)));
}

[[nodiscard]] inline double from_f16(std::uint16_t bits) { return from_ieee<5, 10>(bits); }
[[nodiscard]] inline double from_bf16(std::uint16_t bits) {
  return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16));
}
[[nodiscard]] inline double from_fp8_e5m2(std::uint8_t bits) { return from_ieee<5, 2>(bits); }
// e4m3 as machine learning uses it ("fn"): no infinities, one NaN a sign, 448 the largest.
[[nodiscard]] inline double from_fp8_e4m3(std::uint8_t bits) {
  constexpr std::uint8_t kMagnitude = 0x7f;
  constexpr std::uint8_t kTopExponent = 0x78;
  if ((bits & kMagnitude) == kMagnitude) return std::numeric_limits<double>::quiet_NaN();
  if ((bits & kTopExponent) != kTopExponent) return from_ieee<4, 3>(bits);
  const double magnitude = 256.0 * (1.0 + (bits & 7) / 8.0);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

// The nearest to |x|, without a sign, as if exponents had no end: what is past the largest finite pattern is past the
// largest finite number. x is no NaN.
template <int exponent_bits, int mantissa_bits>
[[nodiscard]] inline std::uint64_t nearest_magnitude(double x) {
  constexpr int kDoubleBias = 1023;
  constexpr int kDropped = 52 - mantissa_bits;
  constexpr std::uint64_t kRebias = static_cast<std::uint64_t>(kDoubleBias + 1 - (1 << (exponent_bits - 1))) << 52;
  constexpr std::uint64_t kLeastNormal = kRebias + (std::uint64_t{1} << 52);
  const auto magnitude = std::bit_cast<std::uint64_t>(std::fabs(x));
  if (magnitude < kLeastNormal) {  // beside this number float64 has the spacing of the subnormals: the addition rounds
    constexpr std::uint64_t kSpacer = kLeastNormal + (static_cast<std::uint64_t>(kDropped) << 52);
    return std::bit_cast<std::uint64_t>(std::fabs(x) + std::bit_cast<double>(kSpacer)) - kSpacer;
  }
  constexpr std::uint64_t kBelowHalf = (std::uint64_t{1} << (kDropped - 1)) - 1;
  const std::uint64_t odd = (magnitude >> kDropped) & 1;
  return (magnitude - kRebias + kBelowHalf + odd) >> kDropped;  // a carry from the mantissa raises the exponent
}

// As IEEE: past the largest finite number, infinity.
template <int exponent_bits, int mantissa_bits>
[[nodiscard]] inline std::uint32_t to_ieee(double x) {
  constexpr std::uint64_t kInfinity = ((std::uint64_t{1} << exponent_bits) - 1) << mantissa_bits;
  constexpr std::uint64_t kQuietNan = kInfinity | (std::uint64_t{1} << (mantissa_bits - 1));
  const std::uint64_t sign = static_cast<std::uint64_t>(std::signbit(x)) << (exponent_bits + mantissa_bits);
  const std::uint64_t magnitude =
      std::isnan(x) ? kQuietNan : std::min(nearest_magnitude<exponent_bits, mantissa_bits>(x), kInfinity);
  return static_cast<std::uint32_t>(sign | magnitude);
}

[[nodiscard]] inline std::uint16_t to_f16(double x) { return static_cast<std::uint16_t>(to_ieee<5, 10>(x)); }
[[nodiscard]] inline std::uint16_t to_bf16(double x) { return static_cast<std::uint16_t>(to_ieee<8, 7>(x)); }

// fp8 saturates: past the largest finite number, infinities included, it is that number. A NaN is 0x7f with its sign.
template <int exponent_bits, int mantissa_bits>
[[nodiscard]] inline std::uint8_t to_fp8(double x, std::uint64_t largest) {
  const std::uint64_t magnitude =
      std::isnan(x) ? 0x7f : std::min(nearest_magnitude<exponent_bits, mantissa_bits>(x), largest);
  return static_cast<std::uint8_t>((std::signbit(x) ? 0x80u : 0u) | magnitude);
}

[[nodiscard]] inline std::uint8_t to_fp8_e4m3(double x) { return to_fp8<4, 3>(x, 0x7e); }
[[nodiscard]] inline std::uint8_t to_fp8_e5m2(double x) { return to_fp8<5, 2>(x, 0x7b); }

// The nearest number of a dtype that computes.
[[nodiscard]] inline double nearest(DType dtype, double x) {
  switch (dtype) {
    case DType::f32:
      return static_cast<double>(static_cast<float>(x));
    case DType::f16:
      return from_f16(to_f16(x));
    case DType::bf16:
      return from_bf16(to_bf16(x));
    default:
      throw_error(MSJ_ERROR_INTERNAL, "dtype {} does not compute; f32, f16 and bf16 do", static_cast<int>(dtype));
  }
}

// Element `index` of an array of T, which need not be aligned.
template <typename T>
[[nodiscard]] inline T load(const void *data, std::int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char *>(data) + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <typename T>
inline void store(void *data, std::int64_t index, T value) {
  std::memcpy(static_cast<char *>(data) + index * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
}

// out[k · out_stride] = element offset + k · stride, for k < count.
template <typename T, typename Convert>
inline void convert_row(const void *data, std::int64_t offset, std::int64_t stride, std::int64_t count, double *out,
                        std::int64_t out_stride, Convert convert) {
  for (std::int64_t k = 0; k < count; ++k) out[k * out_stride] = convert(load<T>(data, offset + k * stride));
}

inline void convert_row(DType dtype, const void *data, std::int64_t offset, std::int64_t stride, std::int64_t count,
                        double *out, std::int64_t out_stride) {
  const auto convert = [&]<typename T>(T, auto one) {
    convert_row<T>(data, offset, stride, count, out, out_stride, one);
  };
  switch (dtype) {
    case DType::f32:
      return convert(float{}, [](float x) { return static_cast<double>(x); });
    case DType::f16:
      return convert(std::uint16_t{}, from_f16);
    case DType::bf16:
      return convert(std::uint16_t{}, from_bf16);
    case DType::fp8_e4m3:
      return convert(std::uint8_t{}, from_fp8_e4m3);
    case DType::fp8_e5m2:
      return convert(std::uint8_t{}, from_fp8_e5m2);
    default:
      throw_error(MSJ_ERROR_INTERNAL, "dtype {} is no matrix dtype; f32, f16, bf16, fp8_e4m3 and fp8_e5m2 are",
                  static_cast<int>(dtype));
  }
}

}  // namespace msj::reference
