#include "reference/numeric.h"

#include <doctest/doctest.h>

#include <array>
#include <bit>

#include "reference/host_tensor.h"

using namespace msj::reference;

namespace {

// Equal as bits, or both NaN: the sign of zero counts.
bool same(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

template <typename Convert>
int differences(int patterns, const host::Format &format, Convert convert) {
  int count = 0;
  for (int bits = 0; bits < patterns; ++bits) {
    const double expected = host::decode(format, static_cast<unsigned>(bits));
    if (!same(convert(bits), expected)) ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("every bit pattern of the 16-bit dtypes converts exactly") {
  CHECK(differences(65536, host::kF16, [](int bits) { return from_f16(static_cast<std::uint16_t>(bits)); }) == 0);
  CHECK(differences(65536, host::kBf16, [](int bits) { return from_bf16(static_cast<std::uint16_t>(bits)); }) == 0);
}

TEST_CASE("every bit pattern of the 8-bit dtypes converts exactly") {
  CHECK(differences(256, host::kE4m3, [](int bits) { return from_fp8_e4m3(static_cast<std::uint8_t>(bits)); }) == 0);
  CHECK(differences(256, host::kE5m2, [](int bits) { return from_fp8_e5m2(static_cast<std::uint8_t>(bits)); }) == 0);
}

TEST_CASE("landmarks of the formats, from their specifications") {
  CHECK(from_f16(0x3c00) == 1.0);
  CHECK(from_f16(0x7bff) == 65504.0);
  CHECK(from_f16(0x0001) == std::ldexp(1.0, -24));
  CHECK(from_bf16(0x7f7f) == std::ldexp(255.0, 120));
  CHECK(from_fp8_e4m3(0x7e) == 448.0);
  CHECK(from_fp8_e4m3(0xfe) == -448.0);
  CHECK(from_fp8_e4m3(0x01) == std::ldexp(1.0, -9));
  CHECK(std::isnan(from_fp8_e4m3(0xff)));
  CHECK(from_fp8_e5m2(0x7b) == 57344.0);
  CHECK(std::isinf(from_fp8_e5m2(0x7c)));
}

namespace {

// Every pattern up to the largest finite one, both signs, and what lies between it and the next: the identity, the
// midpoint, and the float64 numbers on either side of the midpoint.
template <typename Encode>
int wrong_roundings(const host::Format &format, unsigned largest, Encode encode) {
  const unsigned sign = 1u << (format.exponent_bits + format.mantissa_bits);
  int wrong = 0;
  for (unsigned bits = 0; bits < largest; ++bits) {
    const double low = host::decode(format, bits);
    const double high = host::decode(format, bits + 1);
    const double middle = (low + high) / 2;  // exact
    const unsigned even = bits % 2 == 0 ? bits : bits + 1;
    for (const unsigned s : {0u, sign}) {
      const double factor = s == 0 ? 1.0 : -1.0;
      wrong += encode(factor * low) != (s | bits);
      wrong += encode(factor * high) != (s | (bits + 1));
      wrong += encode(factor * middle) != (s | even);
      wrong += encode(factor * std::nextafter(middle, low)) != (s | bits);
      wrong += encode(factor * std::nextafter(middle, high)) != (s | (bits + 1));
    }
  }
  return wrong;
}

}  // namespace

TEST_CASE("every number of the 16-bit dtypes and every midpoint between two encode to the nearest, ties to even") {
  CHECK(wrong_roundings(host::kF16, 0x7bff, to_f16) == 0);
  CHECK(wrong_roundings(host::kBf16, 0x7f7f, to_bf16) == 0);
}

TEST_CASE("every number of the 8-bit dtypes and every midpoint between two encode to the nearest, ties to even") {
  CHECK(wrong_roundings(host::kE4m3, 0x7e, to_fp8_e4m3) == 0);
  CHECK(wrong_roundings(host::kE5m2, 0x7b, to_fp8_e5m2) == 0);
}

TEST_CASE("past the largest number: 16-bit dtypes have infinity from the midpoint on, 8-bit dtypes saturate") {
  const double inf = std::numeric_limits<double>::infinity();
  CHECK(to_f16(std::nextafter(65520.0, 0.0)) == 0x7bff);
  CHECK(to_f16(65520.0) == 0x7c00);
  CHECK(to_bf16(std::nextafter(std::ldexp(511.0, 119), 0.0)) == 0x7f7f);
  CHECK(to_bf16(std::ldexp(511.0, 119)) == 0x7f80);
  for (const double x : {65536.0, 1e30, 1e300, inf}) {
    CHECK(to_f16(x) == 0x7c00);
    CHECK(to_f16(-x) == 0xfc00);
    CHECK(to_fp8_e4m3(x) == 0x7e);
    CHECK(to_fp8_e4m3(-x) == 0xfe);
    CHECK(to_fp8_e5m2(x) == 0x7b);
    CHECK(to_fp8_e5m2(-x) == 0xfb);
  }
  CHECK(to_bf16(1e300) == 0x7f80);
  CHECK(to_bf16(-inf) == 0xff80);
  CHECK(to_fp8_e4m3(464.0) == 0x7e);  // where a further number would be: 480 is NaN
  CHECK(to_fp8_e4m3(480.0) == 0x7e);
  CHECK(to_fp8_e5m2(61440.0) == 0x7b);
}

TEST_CASE("below the least number: zero up to half of it, with its sign; float64's own subnormals too") {
  for (const double x : {0.0, 5e-324, 1e-310, 1e-60}) {
    CHECK(to_f16(x) == 0);
    CHECK(to_bf16(-x) == 0x8000);
    CHECK(to_fp8_e4m3(-x) == 0x80);
    CHECK(to_fp8_e5m2(x) == 0);
  }
  CHECK(to_fp8_e4m3(std::ldexp(1.0, -10)) == 0);
  CHECK(to_fp8_e4m3(std::ldexp(1.001, -10)) == 1);
}

TEST_CASE("NaN stays NaN, in fp8 with its sign") {
  const double nan = std::nan("");
  CHECK(std::isnan(from_f16(to_f16(nan))));
  CHECK(std::isnan(from_bf16(to_bf16(-nan))));
  for (const double x : {std::copysign(nan, 1.0), std::copysign(nan, -1.0)}) {
    const int expected = std::signbit(x) ? 0xff : 0x7f;
    CHECK(to_fp8_e4m3(x) == expected);
    CHECK(to_fp8_e5m2(x) == expected);
  }
}

TEST_CASE("the nearest number of a dtype that computes; others are named") {
  CHECK(nearest(msj::DType::bf16, 1.005) == 1.0078125);
  CHECK(nearest(msj::DType::f16, 70000.0) == std::numeric_limits<double>::infinity());
  CHECK(nearest(msj::DType::f32, 1.0 + 1e-9) == 1.0);
  CHECK_THROWS_AS(static_cast<void>(nearest(msj::DType::i8, 1.0)), msj::Error);
}

TEST_CASE("rows convert at any stride, from memory that is not aligned") {
  const std::array<float, 5> source = {1.5f, -2.0f, 3.25f, 4.0f, -0.0f};
  std::array<char, sizeof(source) + 1> memory{};
  std::memcpy(memory.data() + 1, source.data(), sizeof(source));
  std::array<double, 6> out{};
  out.fill(-7);
  convert_row(msj::DType::f32, memory.data() + 1, 4, -2, 3, out.data(), 2);
  CHECK(same(out[0], -0.0));
  CHECK(out[1] == -7);
  CHECK(out[2] == 3.25);
  CHECK(out[4] == 1.5);
  CHECK(out[5] == -7);
}

TEST_CASE("a dtype that no matrix has is named") {
  double out = 0;
  const std::int32_t value = 1;
  CHECK_THROWS_AS(convert_row(msj::DType::i32, &value, 0, 1, 1, &out, 1), msj::Error);
}
