// The reference against the definition written down as plainly as possible, on float64 values.
#include "reference/fp8_forward.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "ops/fp8_forward.h"
#include "reference/forward_case.h"

using namespace msj;
using namespace host;

namespace {

constexpr FeatureSet kQMask = 1, kDMask = 2, kScaleQPerToken = 4, kScaleDPerToken = 8, kSaveArgmax = 16;
constexpr FeatureSet kFeatureSets = 32;

// A scale that is not per token.
enum class OtherScales { absent, single };

struct Problem : ForwardCase {
  std::int64_t width;
  OtherScales others;
  Tensor q, d, scale_q, scale_d;

  Problem(Tokens tokens, std::int64_t d_, FeatureSet set, OtherScales other = OtherScales::absent, bool lengths = false,
          std::array<DType, 2> dtypes = {DType::fp8_e4m3, DType::fp8_e4m3}, Order order = Order::contiguous)
      : ForwardCase(ops::fp8_forward_spec(), tokens, set, lengths, order),
        width(d_),
        others(other),
        q(dtypes[0], {n.Nq, n.Lq, width}, order),
        d(dtypes[1], {n.Nd, n.Ld, width}, order),
        scale_q(DType::f32, scale_shape("scale_q_per_token", {n.Nq, n.Lq}), order),
        scale_d(DType::f32, scale_shape("scale_d_per_token", {n.Nd, n.Ld}), order) {}

  std::vector<std::int64_t> scale_shape(std::string_view feature, std::vector<std::int64_t> per_token) const {
    return has(feature) ? per_token : std::vector<std::int64_t>{1};
  }

  void run(int threads = 1) {
    BoundCall bound = call();
    size(bound, "d") = width;
    operand(bound, "q") = q.view();
    operand(bound, "d") = d.view();
    bind_scale(operand(bound, "scale_q"), scale_q, has("scale_q_per_token"));
    bind_scale(operand(bound, "scale_d"), scale_d, has("scale_d_per_token"));
    reference::fp8_forward(bound, threads);
  }
  void bind_scale(TensorView &view, Tensor &scale, bool per_token) const {
    if (per_token) view = scale.view();
    if (!per_token && others == OtherScales::single) view = scale.single_view();
  }

  double scale_of(const Tensor &scale, bool per_token, std::int64_t token) const {
    if (per_token) return scale.at(token);
    return others == OtherScales::single ? scale.at(0) : 1.0;
  }
  Definition definition() const {
    return {.value =
                [this](std::int64_t i, std::int64_t s, std::int64_t j, std::int64_t t) {
                  const std::int64_t a = i * n.Lq + s;
                  const std::int64_t b = j * n.Ld + t;
                  double sum = 0;
                  for (std::int64_t k = 0; k < width; ++k) sum += q.at(a * width + k) * d.at(b * width + k);
                  return sum * scale_of(scale_d, has("scale_d_per_token"), b);
                },
            .weight = [this](std::int64_t i,
                             std::int64_t s) { return scale_of(scale_q, has("scale_q_per_token"), i * n.Lq + s); }};
  }
  int wrong() const { return mistakes(*this, definition()); }
};

// Scales of both signs and zero among them; of one in five, what the values are.
double scale_value(Values kind, Random &random) {
  const double value = value_of(kind, random);
  return std::isfinite(value) ? std::ldexp(value + 0.5, static_cast<int>(pick(random, -3, 3))) : value;
}

void fill(Problem &p, Random &random, Values kind) {
  p.fill_masks(random);
  p.q.fill([&] { return value_of(kind, random); });
  p.d.fill([&] { return value_of(kind, random); });
  p.scale_q.fill([&] { return scale_value(kind, random); });
  p.scale_d.fill([&] { return scale_value(kind, random); });
}

constexpr std::array<std::array<DType, 2>, 4> kDtypes = {{{DType::fp8_e4m3, DType::fp8_e4m3},
                                                          {DType::fp8_e5m2, DType::fp8_e5m2},
                                                          {DType::fp8_e4m3, DType::fp8_e5m2},
                                                          {DType::fp8_e5m2, DType::fp8_e4m3}}};

// Any finite number of the dtype, subnormals among them.
double any_number(DType dtype, Random &random) {
  const Format &format = dtype == DType::fp8_e4m3 ? kE4m3 : kE5m2;
  const unsigned largest = dtype == DType::fp8_e4m3 ? 0x7e : 0x7b;
  const auto bits = static_cast<unsigned>(pick(random, 0, largest));
  return decode(format, bits | (pick(random, 0, 1) == 0 ? 0u : 0x80u));
}

void check_all_calls_of(Tokens tokens, std::int64_t d, Random &random) {
  for (FeatureSet features = 0; features < kFeatureSets; ++features) {
    for (const Values kind : kAllValues) {
      for (const int variant : {0, 1, 2, 3}) {
        const auto dtypes = kDtypes[static_cast<std::size_t>(pick(random, 0, 3))];
        Problem p(tokens, d, features, pick(random, 0, 1) == 0 ? OtherScales::absent : OtherScales::single,
                  (variant & 1) != 0, dtypes);
        p.empty_doc = (variant & 2) != 0 ? MSJ_EMPTY_DOC_NEG_INF : MSJ_EMPTY_DOC_ZERO;
        fill(p, random, kind);
        p.run();
        INFO(p.describe() << " d " << d << " values " << static_cast<int>(kind));
        REQUIRE(p.wrong() == 0);
      }
    }
  }
}

}  // namespace

TEST_CASE("small shapes, exhaustively: every feature set, empty_doc, lengths and kind of value") {
  Random random(1);
  for (const std::int64_t Nq : {1, 2}) {
    for (const std::int64_t Nd : {1, 2}) {
      for (const std::int64_t Lq : {0, 1, 5}) {
        for (const std::int64_t Ld : {0, 1, 9}) {
          for (const std::int64_t d : {1, 3}) check_all_calls_of({Nq, Nd, Lq, Ld}, d, random);
        }
      }
    }
  }
}

TEST_CASE("random shapes, dtypes, scales, features and strides, over all finite numbers of the dtypes") {
  const std::uint64_t chosen = seed();
  MESSAGE("MSJ_TEST_SEED=" << chosen);
  Random random(chosen);
  const std::array orders = {Order::contiguous, Order::reversed_dimensions, Order::negative, Order::every_other,
                             Order::broadcast_rows};
  std::uniform_real_distribution<double> scale(-0.1, 1.0);
  for (int round = 0; round < 320; ++round) {
    const Tokens tokens = {pick(random, 1, 3), pick(random, 1, 4), pick(random, 0, 11), pick(random, 0, 90)};
    const auto order = orders[static_cast<std::size_t>(round % 5)];
    const auto dtypes = kDtypes[static_cast<std::size_t>(pick(random, 0, 3))];
    Problem p(tokens, pick(random, 1, 40), static_cast<FeatureSet>(round) % kFeatureSets,
              pick(random, 0, 1) == 0 ? OtherScales::absent : OtherScales::single, pick(random, 0, 1) == 1, dtypes,
              order);
    p.empty_doc = pick(random, 0, 1);
    fill(p, random, Values::ties);
    p.q.fill([&] { return any_number(dtypes[0], random); });
    p.d.fill([&] { return any_number(dtypes[1], random); });
    p.scale_q.fill([&] { return scale(random); });
    p.scale_d.fill([&] { return scale(random); });
    p.run(static_cast<int>(pick(random, 1, 3)));
    INFO("round " << round << ": " << p.describe() << " d " << p.width << " order " << static_cast<int>(order));
    REQUIRE(p.wrong() == 0);
  }
}

TEST_CASE("a document token's scale decides the winner; a query token's comes after") {
  Problem p({1, 1, 2, 3}, 1, kScaleQPerToken | kScaleDPerToken | kSaveArgmax);
  const std::array<double, 3> documents = {3, 2, 1};
  const std::array<double, 3> scales = {0.5, -1, 2};
  for (std::int64_t t = 0; t < 3; ++t) {
    p.d.set(t, documents[static_cast<std::size_t>(t)]);
    p.scale_d.set(t, scales[static_cast<std::size_t>(t)]);
  }
  p.q.set(0, 1), p.q.set(1, -1);
  p.scale_q.set(0, -10), p.scale_q.set(1, 100);
  p.run();
  CHECK(p.best(0, 0, 0) == 2);  // values 1.5, -2, 2
  CHECK(p.best(0, 0, 1) == 1);  // values -1.5, 2, -2
  CHECK(p.score(0, 0) == -10.0f * 2 + 100.0f * 2);
}

TEST_CASE("a scale for all multiplies as one for each token does, bit for bit; absent, it is 1") {
  Random random(5);
  const Tokens tokens = {2, 3, 7, 70};
  Problem single(tokens, 20, kSaveArgmax, OtherScales::single);
  Problem each(tokens, 20, kSaveArgmax | kScaleQPerToken | kScaleDPerToken);
  Problem absent(tokens, 20, kSaveArgmax);
  for (const double scale : {0.3, 1.0, -0.7}) {
    fill(single, random, Values::ties);
    for (Problem *p : {&each, &absent}) {
      for (std::int64_t k = 0; k < single.q.size(); ++k) p->q.set(k, single.q.at(k));
      for (std::int64_t k = 0; k < single.d.size(); ++k) p->d.set(k, single.d.at(k));
    }
    for (Tensor *tensor : {&single.scale_q, &single.scale_d, &each.scale_q, &each.scale_d}) {
      tensor->fill([&] { return scale; });
    }
    for (Problem *p : {&single, &each, &absent}) p->run();
    CHECK(single.scores.memory() == each.scores.memory());
    CHECK(single.argmax.memory() == each.argmax.memory());
    CHECK((single.scores.memory() == absent.scores.memory()) == (scale == 1.0));
  }
}

TEST_CASE("NaN in the scale of a token: as in the token; behind a mask or a length it has no effect") {
  Problem p({1, 1, 2, 4}, 1, kQMask | kDMask | kScaleQPerToken | kScaleDPerToken | kSaveArgmax, OtherScales::absent,
            true);
  for (Tensor *tensor : {&p.q, &p.d, &p.q_mask, &p.d_mask, &p.scale_q, &p.scale_d}) tensor->fill([] { return 1.0; });
  p.d_lengths.set(0, 4);
  p.scale_d.set(2, std::nan(""));
  p.scale_d.set(3, std::nan(""));
  p.run();
  CHECK(std::isnan(p.score(0, 0)));
  CHECK(p.best(0, 0, 0) == 2);
  p.d_mask.set(2, 0);
  p.d_lengths.set(0, 3);
  p.run();
  CHECK(p.score(0, 0) == 2.0f);
  CHECK(p.best(0, 0, 0) == 0);
  p.scale_q.set(1, std::nan(""));
  p.run();
  CHECK(std::isnan(p.score(0, 0)));
  CHECK(p.best(0, 0, 1) == 0);
  p.q_mask.set(1, 0);
  p.run();
  CHECK(p.score(0, 0) == 1.0f);
  CHECK(p.best(0, 0, 1) == -1);
}

TEST_CASE("no active document token: empty_doc, whatever the scales") {
  Problem p({1, 1, 1, 2}, 1, kDMask, OtherScales::single);
  for (Tensor *tensor : {&p.q, &p.d}) tensor->fill([] { return 1.0; });
  p.d_mask.fill([] { return 0.0; });
  for (const double scale : {-2.0, 0.0, std::nan("")}) {
    p.scale_q.set(0, scale), p.scale_d.set(0, scale);
    p.empty_doc = MSJ_EMPTY_DOC_ZERO;
    p.run();
    CHECK(p.score(0, 0) == 0.0f);
    p.empty_doc = MSJ_EMPTY_DOC_NEG_INF;
    p.run();
    CHECK(p.score(0, 0) == -kInf);
  }
}

TEST_CASE("the number of threads changes no bit") {
  Random random(4);
  Problem p({3, 37, 9, 70}, 33, kFeatureSets - 1, OtherScales::single, true, {DType::fp8_e5m2, DType::fp8_e4m3});
  fill(p, random, Values::ties);
  p.run(1);
  const std::vector<char> scores = p.scores.memory();
  const std::vector<char> argmax = p.argmax.memory();
  for (const int threads : {2, 7, 64, 0}) {
    p.run(threads);
    CHECK(p.scores.memory() == scores);
    CHECK(p.argmax.memory() == argmax);
  }
}

TEST_CASE("no query or no document: nothing is touched, null data allowed") {
  for (const Tokens tokens : {Tokens{0, 3, 2, 2}, Tokens{3, 0, 2, 2}, Tokens{0, 0, 0, 0}}) {
    Problem p(tokens, 4, kFeatureSets - 1, OtherScales::single, true);
    CHECK_NOTHROW(p.run(0));
  }
}
