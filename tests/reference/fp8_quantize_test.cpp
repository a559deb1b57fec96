// The reference against its steps done in another way: float32 divisions through float64 (a float64 quotient of two
// float32 numbers rounds to float32 as the exact one does), roundings to fp8 by trying every number.
#include "reference/fp8_quantize.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>

#include "ops/fp8_quantize.h"
#include "reference/forward_case.h"

using namespace msj;
using namespace host;

namespace {

enum class Scales { single, per_token };

struct Problem {
  std::int64_t N, L, d;
  Scales kind;
  DType to;
  Tensor x, quantized, scales;

  Problem(std::array<std::int64_t, 3> shape, Scales scales_, DType from = DType::f32, DType to_ = DType::fp8_e4m3,
          Order order = Order::contiguous)
      : N(shape[0]),
        L(shape[1]),
        d(shape[2]),
        kind(scales_),
        to(to_),
        x(from, {N, L, d}, order),
        quantized(to, {N, L, d}, order_of_results(order)),
        scales(DType::f32, kind == Scales::single ? std::vector<std::int64_t>{1} : std::vector<std::int64_t>{N, L},
               order_of_results(order)) {}

  void run(int threads = 1) {
    BoundCall call;
    call.op = &ops::fp8_quantize_spec();
    call.sizes = {N, L, d};
    call.features = kind == Scales::per_token ? 1 : 0;
    call.operands[MSJ_FP8_QUANTIZE_X] = x.view();
    call.operands[MSJ_FP8_QUANTIZE_QUANTIZED] = quantized.view();
    call.operands[MSJ_FP8_QUANTIZE_SCALES] = kind == Scales::single ? scales.single_view() : scales.view();
    reference::fp8_quantize(call, threads);
  }

  double largest() const { return to == DType::fp8_e4m3 ? 448 : 57344; }
  float scale(std::int64_t token) const { return scales.raw<float>(kind == Scales::single ? 0 : token); }
  unsigned bits(std::int64_t element) const { return quantized.raw<std::uint8_t>(element); }
};

float expected_scale(const Problem &p, std::int64_t first, std::int64_t count) {
  double most = 0;
  for (std::int64_t k = first; k < first + count; ++k) {
    const double magnitude = std::min<double>(std::fabs(p.x.at(k)), std::numeric_limits<float>::max());
    if (!std::isnan(p.x.at(k))) most = std::max(most, magnitude);
  }
  if (most == 0) return 1;
  return std::max(static_cast<float>(most / p.largest()), std::ldexp(1.0f, -100));
}

// By distance to every finite number; of two as near, the even pattern.
unsigned expected_bits(const Problem &p, double value) {
  const Format &format = p.to == DType::fp8_e4m3 ? kE4m3 : kE5m2;
  const unsigned sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return 0x7f;
  const double magnitude = std::min(std::fabs(value), p.largest());
  unsigned nearest = 0;
  for (unsigned bits = 1; decode(format, bits - 1) < p.largest(); ++bits) {
    const double better = std::fabs(decode(format, nearest) - magnitude) - std::fabs(decode(format, bits) - magnitude);
    if (better > 0 || (better == 0 && bits % 2 == 0)) nearest = bits;
  }
  return sign | nearest;
}

int mistakes(const Problem &p) {
  int count = 0;
  const std::int64_t tokens = p.N * p.L;
  const float of_all = expected_scale(p, 0, tokens * p.d);
  for (std::int64_t token = 0; token < tokens; ++token) {
    const float scale = p.kind == Scales::single ? of_all : expected_scale(p, token * p.d, p.d);
    if (std::bit_cast<std::uint32_t>(p.scale(token)) != std::bit_cast<std::uint32_t>(scale)) ++count;
    for (std::int64_t k = token * p.d; k < (token + 1) * p.d; ++k) {
      const auto quotient = static_cast<float>(p.x.at(k) / static_cast<double>(scale));
      if (p.bits(k) != expected_bits(p, std::copysign(quotient, p.x.at(k)))) ++count;
    }
  }
  return count;
}

constexpr std::array kFrom = {DType::f32, DType::f16, DType::bf16};
constexpr std::array kTo = {DType::fp8_e4m3, DType::fp8_e5m2};
constexpr std::array kScales = {Scales::single, Scales::per_token};

// Of magnitudes far apart: every number of fp8 comes up, its subnormals too.
double spread(Random &random, int exponents) {
  std::normal_distribution<double> normal;
  return std::ldexp(normal(random), static_cast<int>(-pick(random, 0, exponents)));
}

}  // namespace

TEST_CASE("random tensors: every pair of dtypes, both kinds of scales, any strides") {
  const std::uint64_t chosen = seed();
  MESSAGE("MSJ_TEST_SEED=" << chosen);
  Random random(chosen);
  const std::array orders = {Order::contiguous, Order::reversed_dimensions, Order::negative, Order::every_other,
                             Order::broadcast_rows};
  for (int round = 0; round < 120; ++round) {
    const DType from = kFrom[static_cast<std::size_t>(round % 3)];
    const DType to = kTo[static_cast<std::size_t>(round / 3 % 2)];
    const Scales scales = kScales[static_cast<std::size_t>(round / 6 % 2)];
    const auto order = orders[static_cast<std::size_t>(round % 5)];
    Problem p({pick(random, 1, 3), pick(random, 1, 6), pick(random, 1, 40)}, scales, from, to, order);
    const int exponents = from == DType::f16 ? 12 : 30;  // f16 has no small normal numbers
    p.x.fill([&] { return spread(random, exponents); });
    p.run(static_cast<int>(pick(random, 1, 3)));
    INFO("round " << round << ": N " << p.N << " L " << p.L << " d " << p.d << " from " << name(from) << " to "
                  << name(to) << " order " << static_cast<int>(order));
    REQUIRE(mistakes(p) == 0);
  }
}

TEST_CASE("small tensors of zeros, NaN and infinities of both signs") {
  Random random(2);
  for (const DType from : kFrom) {
    for (const DType to : kTo) {
      for (const Scales scales : kScales) {
        for (const Values kind : kAllValues) {
          for (const std::int64_t d : {1, 2, 5}) {
            Problem p({2, 3, d}, scales, from, to);
            p.x.fill([&] { return pick(random, 0, 1) == 0 ? value_of(kind, random) : -value_of(kind, random); });
            p.run();
            INFO(name(from) << " to " << name(to) << " d " << d << " values " << static_cast<int>(kind));
            REQUIRE(mistakes(p) == 0);
          }
        }
      }
    }
  }
}

TEST_CASE("every number and every midpoint between two come out as they must: subnormals, ties, saturation") {
  for (const DType to : kTo) {
    const Format &format = to == DType::fp8_e4m3 ? kE4m3 : kE5m2;
    std::vector<double> values;
    for (unsigned bits = 0; bits < (to == DType::fp8_e4m3 ? 0x7eu : 0x7bu); ++bits) {
      const double low = decode(format, bits);
      const double middle = (low + decode(format, bits + 1)) / 2;
      for (const auto x :
           {static_cast<float>(low), static_cast<float>(middle), std::nextafter(static_cast<float>(middle), 0.0f),
            std::nextafter(static_cast<float>(middle), 1e9f)}) {
        values.push_back(x), values.push_back(-x);
      }
    }
    Problem p({1, 1, static_cast<std::int64_t>(values.size()) + 1}, Scales::single, DType::f32, to);
    for (std::size_t k = 0; k < values.size(); ++k) p.x.set(static_cast<std::int64_t>(k), values[k]);
    p.x.set(p.d - 1, p.largest());  // the scale is 1
    p.run();
    CHECK(p.scale(0) == 1.0f);
    CHECK(mistakes(p) == 0);
  }
}

TEST_CASE(
    "the quotient is a float32 before it is an fp8: midway there is midway, even where the exact quotient is not") {
  Random random(6);
  std::uniform_real_distribution<float> maximum(1.0f, 1000.0f);
  for (const DType to : kTo) {
    const Format &format = to == DType::fp8_e4m3 ? kE4m3 : kE5m2;
    const std::int64_t midpoints = to == DType::fp8_e4m3 ? 0x7e : 0x7b;
    Problem p({1, 20, midpoints + 1}, Scales::per_token, DType::f32, to);
    int inexact = 0;
    for (std::int64_t token = 0; token < p.L; ++token) {
      const float most = maximum(random);
      const float scale = static_cast<float>(most / p.largest());
      p.x.set(token * p.d + midpoints, most);
      for (std::int64_t k = 0; k < midpoints; ++k) {
        const auto low = static_cast<unsigned>(k);
        const double middle = (decode(format, low) + decode(format, low + 1)) / 2;
        const auto x = static_cast<float>(middle * scale);
        p.x.set(token * p.d + k, x);
        if (x / scale == static_cast<float>(middle) && x != middle * static_cast<double>(scale)) ++inexact;
      }
    }
    p.run();
    CHECK(inexact > 1000);
    CHECK(mistakes(p) == 0);
  }
}

TEST_CASE("the maximum becomes the largest number, exactly, whatever it is") {
  Random random(3);
  for (const DType to : kTo) {
    Problem p({1, 2000, 2}, Scales::per_token, DType::f32, to);
    p.x.fill([&] { return spread(random, 80); });
    p.run();
    int other = 0;
    for (std::int64_t token = 0; token < p.L; ++token) {
      const std::int64_t k =
          std::fabs(p.x.at(2 * token)) > std::fabs(p.x.at(2 * token + 1)) ? 2 * token : 2 * token + 1;
      if ((p.bits(k) & 0x7f) != (to == DType::fp8_e4m3 ? 0x7eu : 0x7bu)) ++other;
    }
    CHECK(other == 0);
    CHECK(mistakes(p) == 0);
  }
}

TEST_CASE("scales: 1 for zeros and for NaN alone, no less than 2^-100, an infinity is the largest float") {
  Problem p({1, 6, 2}, Scales::per_token);
  const double nan = std::nan("");
  const std::array<double, 12> x = {0, -0.0, nan, -nan, std::ldexp(1.0, -98), 0, 1e-40, 1e-44, kInf, 1, -kInf, nan};
  for (std::int64_t k = 0; k < 12; ++k) p.x.set(k, x[static_cast<std::size_t>(k)]);
  p.run();
  CHECK(mistakes(p) == 0);
  CHECK(p.scale(0) == 1.0f);
  CHECK(p.bits(0) == 0x00);
  CHECK(p.bits(1) == 0x80);
  CHECK(p.scale(1) == 1.0f);
  CHECK((p.bits(2) & 0x7f) == 0x7f);
  CHECK((p.bits(2) ^ p.bits(3)) == 0x80);
  CHECK(p.scale(2) == std::ldexp(1.0f, -100));
  CHECK(p.bits(4) == 0x48);  // 4
  CHECK(p.scale(3) == std::ldexp(1.0f, -100));
  CHECK(p.bits(6) == 0);
  CHECK(p.scale(4) == std::numeric_limits<float>::max() / 448.0f);
  CHECK(p.bits(8) == 0x7e);
  CHECK(p.bits(9) == 0);
  CHECK(p.scale(5) == std::numeric_limits<float>::max() / 448.0f);
  CHECK(p.bits(10) == 0xfe);
  CHECK((p.bits(11) & 0x7f) == 0x7f);
}

TEST_CASE("a scale for all is that of the largest token; a scale per token knows no other token") {
  for (const Scales scales : kScales) {
    Problem p({2, 2, 3}, scales);
    p.x.fill([] { return 1.0; });
    p.x.set(11, -896);
    p.run(3);
    CHECK(mistakes(p) == 0);
    CHECK(p.scale(3) == 2.0f);
    CHECK(p.scale(0) == (scales == Scales::single ? 2.0f : 1.0f / 448.0f));
  }
}

TEST_CASE("the number of threads changes no bit") {
  Random random(4);
  for (const Scales scales : kScales) {
    Problem p({3, 41, 33}, scales, DType::bf16, DType::fp8_e5m2);
    p.x.fill([&] { return spread(random, 20); });
    p.run(1);
    const std::vector<char> quantized = p.quantized.memory();
    const std::vector<char> of_scales = p.scales.memory();
    for (const int threads : {2, 7, 64, 0}) {
      p.run(threads);
      CHECK(p.quantized.memory() == quantized);
      CHECK(p.scales.memory() == of_scales);
    }
  }
}

TEST_CASE("results at strides leave the memory between them alone") {
  Problem p({2, 3, 4}, Scales::per_token, DType::f32, DType::fp8_e4m3, Order::every_other);
  p.x.fill([] { return 1.0; });
  p.run();
  CHECK(mistakes(p) == 0);
  for (std::size_t i = 1; i < p.quantized.memory().size(); i += 2) CHECK(p.quantized.memory()[i] == 0x5a);
  for (std::size_t i = 4; i < p.scales.memory().size(); i += 8) CHECK(p.scales.memory()[i] == 0x5a);
}

TEST_CASE("no element: nothing is read, a scale for all is 1") {
  for (const std::array<std::int64_t, 3> shape : {std::array<std::int64_t, 3>{0, 3, 4}, {3, 0, 4}}) {
    Problem per_token(shape, Scales::per_token);
    CHECK_NOTHROW(per_token.run(0));
    Problem single(shape, Scales::single);
    single.run(0);
    CHECK(single.scale(0) == 1.0f);
  }
}
