#include "cli/convert.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "cli/failure.h"
#include "cli/made_up_ops.h"

using namespace msj::cli;
using namespace msj::testing;

namespace {

struct Narrow {
  DType dtype;
  std::uint32_t largest;  // pattern of the largest finite value
  std::uint32_t sign;
  double largest_value;
};
constexpr Narrow kNarrow[] = {{DType::f16, 0x7bff, 0x8000, 65504.0},
                              {DType::bf16, 0x7f7f, 0x8000, 3.3895313892515355e38},
                              {DType::fp8_e4m3, 0x7e, 0x80, 448.0},
                              {DType::fp8_e5m2, 0x7b, 0x80, 57344.0}};

template <typename T>
NpyArray array_of(const std::vector<T> &values, NpyType type) {
  return {type,
          {static_cast<std::int64_t>(values.size())},
          {1},
          reinterpret_cast<const std::byte *>(values.data()),
          nullptr};
}

}  // namespace

TEST_CASE("known patterns") {
  CHECK(encode(DType::f16, 1.0) == 0x3c00);
  CHECK(encode(DType::f16, -2.0) == 0xc000);
  CHECK(encode(DType::f16, 5.960464477539063e-08) == 0x0001);  // the least subnormal
  CHECK(encode(DType::bf16, 1.0) == 0x3f80);
  CHECK(encode(DType::bf16, 3.140625) == 0x4049);
  CHECK(encode(DType::fp8_e4m3, 1.0) == 0x38);
  CHECK(encode(DType::fp8_e5m2, 1.0) == 0x3c);
  CHECK(encode(DType::f16, -0.0) == 0x8000);
  for (const Narrow &format : kNarrow) CHECK(decode(format.dtype, format.largest) == format.largest_value);
}

TEST_CASE("every finite pattern survives, and between neighbours the nearest wins, ties to even") {
  for (const Narrow &format : kNarrow) {
    CAPTURE(name(format.dtype));
    for (std::uint32_t pattern = 0; pattern <= format.largest; ++pattern) {
      const double value = decode(format.dtype, pattern);
      REQUIRE(encode(format.dtype, value) == pattern);
      REQUIRE(encode(format.dtype, -value) == (pattern | format.sign));
      REQUIRE(decode(format.dtype, pattern | format.sign) == -value);
      if (pattern == format.largest) break;
      const double next = decode(format.dtype, pattern + 1);
      REQUIRE(next > value);
      const double middle = (value + next) / 2;
      REQUIRE(encode(format.dtype, middle) == pattern + (pattern & 1));
      REQUIRE(encode(format.dtype, std::nextafter(middle, 0.0)) == pattern);
      REQUIRE(encode(format.dtype, std::nextafter(middle, next)) == pattern + 1);
    }
  }
}

TEST_CASE("float32 is rounded as the processor does") {
  std::mt19937_64 random(7);
  for (int i = 0; i < 200000; ++i) {
    const auto value = std::bit_cast<double>(random());
    const auto expected = static_cast<float>(value);
    const auto got = std::bit_cast<float>(encode(DType::f32, value));
    CAPTURE(value);
    if (std::isnan(value)) {
      REQUIRE(std::isnan(got));
    } else {
      REQUIRE(std::bit_cast<std::uint32_t>(got) == std::bit_cast<std::uint32_t>(expected));
    }
  }
  // Most random doubles are out of float32's range: more of those that are not.
  std::uniform_real_distribution<double> exponent(-150, 129);
  for (int i = 0; i < 200000; ++i) {
    const double value = std::exp2(exponent(random));
    REQUIRE(std::bit_cast<float>(encode(DType::f32, value)) == static_cast<float>(value));
  }
}

TEST_CASE("beyond the range: infinite, or NaN where there is no infinity") {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(encode(DType::f16, 65519.9) == 0x7bff);
  CHECK(encode(DType::f16, 65520.0) == 0x7c00);
  CHECK(encode(DType::f16, -1e300) == 0xfc00);
  CHECK(encode(DType::bf16, infinity) == 0x7f80);
  CHECK(encode(DType::fp8_e5m2, 1e9) == 0x7c);
  CHECK(encode(DType::fp8_e4m3, 464.0) == 0x7e);  // half way to the pattern that is NaN: to even
  CHECK(encode(DType::fp8_e4m3, 464.1) == 0x7f);
  CHECK(encode(DType::fp8_e4m3, -infinity) == 0xff);
  for (const Narrow &format : kNarrow) CHECK(std::isnan(decode(format.dtype, encode(format.dtype, nan))));
}

TEST_CASE("whole arrays, with values lost to the range counted") {
  const std::vector<double> values = {1.0, -70000.0, std::numeric_limits<double>::infinity(), 0.1};
  const Converted converted = convert_floats(array_of(values, NpyType::f64), DType::f16);
  CHECK(converted.overflows == 1);  // the infinity was one before
  std::uint16_t patterns[4];
  REQUIRE(converted.data.size() == sizeof patterns);
  std::memcpy(patterns, converted.data.data(), sizeof patterns);
  CHECK(patterns[0] == 0x3c00);
  CHECK(patterns[1] == 0xfc00);
  CHECK(patterns[2] == 0x7c00);
  CHECK(patterns[3] == 0x2e66);
}

TEST_CASE("arrays longer than a chunk are converted to their last element") {
  std::vector<float> values((std::size_t{1} << 20) * 2 + 3);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 251);
  const Converted converted = convert_floats(array_of(values, NpyType::f32), DType::bf16);
  REQUIRE(converted.data.size() == values.size() * 2);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t pattern;
    std::memcpy(&pattern, converted.data.data() + 2 * i, sizeof pattern);
    wrong += pattern == encode(DType::bf16, values[i]) ? 0 : 1;
  }
  CHECK(wrong == 0);
}

TEST_CASE("int64 becomes int32 where it fits") {
  const std::vector<std::int64_t> good = {0, -5, 2147483647};
  const auto narrow = narrow_integers(array_of(good, NpyType::i64), "x.npy");
  std::int32_t values[3];
  REQUIRE(narrow.size() == sizeof values);
  std::memcpy(values, narrow.data(), sizeof values);
  CHECK(values[1] == -5);
  CHECK(values[2] == 2147483647);
  const std::vector<std::int64_t> bad = {2147483648};
  CHECK(sentence_of<Failure>([&] { static_cast<void>(narrow_integers(array_of(bad, NpyType::i64), "x.npy")); }) ==
        "x.npy holds 2147483648; values that fit int32 are accepted");
}
