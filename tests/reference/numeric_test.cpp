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
