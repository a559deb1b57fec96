// Exact conversions to float64 of every dtype that a matrix may have, one number or one strided row at a time.
#pragma once

#include <bit>
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
