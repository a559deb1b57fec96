// The reference against the definition written down as plainly as possible, on float64 values.
#include "reference/dense_forward.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "ops/dense_forward.h"
#include "reference/forward_case.h"

using namespace msj;
using namespace host;

namespace {

constexpr FeatureSet kDMask = 2, kNormalize = 4, kSaveArgmax = 8;

struct Shape {
  std::int64_t Nq, Nd, Lq, Ld, d;
};

struct Problem : ForwardCase {
  std::int64_t width;
  DType dtype;
  Tensor q, d;

  Problem(Shape shape, FeatureSet set, DType matrices = DType::f32, bool lengths = false,
          Order order = Order::contiguous)
      : ForwardCase(ops::dense_forward_spec(), {shape.Nq, shape.Nd, shape.Lq, shape.Ld}, set, lengths, order),
        width(shape.d),
        dtype(matrices),
        q(dtype, {n.Nq, n.Lq, width}, order),
        d(dtype, {n.Nd, n.Ld, width}, order) {}

  void run(int threads = 1) {
    BoundCall bound = call();
    size(bound, "d") = width;
    operand(bound, "q") = q.view();
    operand(bound, "d") = d.view();
    reference::dense_forward(bound, threads);
  }

  std::vector<double> row(const Tensor &matrix, std::int64_t index) const {
    std::vector<double> x;
    for (std::int64_t k = 0; k < width; ++k) x.push_back(matrix.at(index * width + k));
    if (!has("normalize")) return x;
    double squares = 0;
    for (const double value : x) squares += value * value;
    double norm = std::sqrt(squares);
    if (norm < 1e-12) norm = 1e-12;
    for (double &value : x) value /= norm;
    return x;
  }
  // Normalized dot products differ in their last bits from the definition's, so that another token may win a near tie.
  Definition definition() const {
    return {.value =
                [this](std::int64_t i, std::int64_t s, std::int64_t j, std::int64_t t) {
                  const auto a = row(q, i * n.Lq + s);
                  const auto b = row(d, j * n.Ld + t);
                  double sum = 0;
                  for (std::size_t k = 0; k < a.size(); ++k) sum += a[k] * b[k];
                  return sum;
                },
            .near_tie = has("normalize") ? 1e-12 : -1};
  }
};

int mistakes(const Problem &p) { return host::mistakes(p, p.definition()); }

std::string describe(const Problem &p) { return fmt::format("{} d {} dtype {}", p.describe(), p.width, name(p.dtype)); }

void fill(Problem &p, Random &random, Values kind) {
  p.q.fill([&] { return value_of(kind, random); });
  p.d.fill([&] { return value_of(kind, random); });
  p.fill_masks(random);
}

void fill_random(Problem &p, Random &random) {
  std::normal_distribution<double> normal;
  p.fill_masks(random);
  p.q.fill([&] { return normal(random); });
  p.d.fill([&] { return normal(random); });
}

void check_all_calls_of(const Shape &shape, Random &random) {
  for (FeatureSet features = 0; features < 16; ++features) {
    for (const Values kind : kAllValues) {
      for (const int variant : {0, 1, 2, 3}) {
        Problem p(shape, features, DType::f32, (variant & 1) != 0);
        p.empty_doc = (variant & 2) != 0 ? MSJ_EMPTY_DOC_NEG_INF : MSJ_EMPTY_DOC_ZERO;
        fill(p, random, kind);
        p.run();
        INFO(describe(p) << " values " << static_cast<int>(kind));
        REQUIRE(mistakes(p) == 0);
      }
    }
  }
}

}  // namespace

TEST_CASE("small shapes, exhaustively: every feature set, empty_doc, lengths and kind of value") {
  Random random(1);
  for (const std::int64_t Nq : {1, 2}) {
    for (const std::int64_t Nd : {1, 2}) {
      for (const std::int64_t Lq : {0, 1, 3, 5}) {
        for (const std::int64_t Ld : {0, 1, 2, 9}) {
          for (const std::int64_t d : {1, 3}) check_all_calls_of({Nq, Nd, Lq, Ld, d}, random);
        }
      }
    }
  }
}

TEST_CASE("random shapes, dtypes, features and strides") {
  const std::uint64_t chosen = seed();
  MESSAGE("MSJ_TEST_SEED=" << chosen);
  Random random(chosen);
  const std::array dtypes = {DType::f32, DType::f16, DType::bf16, DType::fp8_e4m3, DType::fp8_e5m2};
  const std::array orders = {Order::contiguous, Order::reversed_dimensions, Order::negative, Order::every_other,
                             Order::broadcast_rows};
  for (int round = 0; round < 300; ++round) {
    const Shape shape = {pick(random, 1, 3), pick(random, 1, 4), pick(random, 0, 11), pick(random, 0, 90),
                         pick(random, 1, 40)};
    const auto dtype = dtypes[static_cast<std::size_t>(pick(random, 0, 4))];
    const auto order = orders[static_cast<std::size_t>(round % 5)];
    Problem p(shape, static_cast<FeatureSet>(pick(random, 0, 15)), dtype, pick(random, 0, 1) == 1, order);
    p.empty_doc = pick(random, 0, 1);
    fill_random(p, random);
    p.run(static_cast<int>(pick(random, 1, 3)));
    INFO("round " << round << ": " << describe(p) << " order " << static_cast<int>(order));
    REQUIRE(mistakes(p) == 0);
  }
}

TEST_CASE("results at strides leave the memory between them alone") {
  Problem p({2, 3, 4, 5, 6}, kSaveArgmax, DType::f32, false, Order::every_other);
  Random random(3);
  fill(p, random, Values::ties);
  p.run();
  REQUIRE(mistakes(p) == 0);
  for (const Tensor *result : {&p.scores, &p.argmax}) {
    const std::vector<char> &memory = result->memory();
    for (std::size_t i = 4; i < memory.size(); i += 8) {
      CHECK(std::all_of(memory.begin() + static_cast<std::ptrdiff_t>(i),
                        memory.begin() + static_cast<std::ptrdiff_t>(i + 4), [](char c) { return c == 0x5a; }));
    }
  }
}

TEST_CASE("the number of threads changes no bit") {
  Random random(4);
  Problem p({3, 37, 9, 70, 33}, 15, DType::bf16, true);
  fill_random(p, random);
  p.run(1);
  const std::vector<char> scores = p.scores.memory();
  const std::vector<char> argmax = p.argmax.memory();
  for (const int threads : {2, 3, 7, 64, 0}) {
    p.run(threads);
    CHECK(p.scores.memory() == scores);
    CHECK(p.argmax.memory() == argmax);
  }
}

TEST_CASE("a tie goes to the lowest token, over panels and tiles") {
  Problem p({1, 1, 1, 200, 1}, kSaveArgmax);
  p.q.fill([] { return 1.0; });
  for (const std::int64_t first : {0, 7, 8, 63, 64, 65, 150}) {
    for (std::int64_t t = 0; t < 200; ++t) p.d.set(t, t >= first ? 2.0 : -3.0);
    p.run();
    CHECK(p.score(0, 0) == 2.0f);
    CHECK(p.best(0, 0, 0) == first);
  }
}

TEST_CASE("the lowest NaN token wins over everything, but not from behind a mask or a length") {
  Problem p({1, 1, 1, 100, 1}, kDMask | kSaveArgmax, DType::f32, true);
  p.q.fill([] { return 1.0; });
  p.d.fill([] { return 5.0; });
  p.d_mask.fill([] { return 1.0; });
  p.d_lengths.set(0, 100);
  p.d.set(70, std::nan(""));
  p.d.set(90, std::nan(""));
  p.run();
  CHECK(std::isnan(p.score(0, 0)));
  CHECK(p.best(0, 0, 0) == 70);
  p.d_mask.set(70, 0);
  p.d_lengths.set(0, 90);
  p.run();
  CHECK(p.score(0, 0) == 5.0f);
  CHECK(p.best(0, 0, 0) == 0);
}

TEST_CASE("a real -inf is a score, not an absent token") {
  Problem p({1, 2, 1, 3, 1}, kSaveArgmax, DType::f32, true);
  p.q.fill([] { return 1.0; });
  p.d.fill([] { return -kInf; });
  p.d_lengths.set(0, 3);
  p.d_lengths.set(1, 0);
  p.run();
  CHECK(p.score(0, 0) == -kInf);
  CHECK(p.best(0, 0, 0) == 0);
  CHECK(p.score(0, 1) == 0.0f);
  CHECK(p.best(0, 1, 0) == -1);
}

TEST_CASE("normalize: zero vectors stay zero, norms below the floor are the floor, norms past float32 are exact") {
  Problem p({1, 1, 1, 1, 2}, kNormalize);
  const auto score_of = [&](double q0, double q1, double d0, double d1) {
    p.q.set(0, q0), p.q.set(1, q1), p.d.set(0, d0), p.d.set(1, d1);
    p.run();
    return p.score(0, 0);
  };
  CHECK(score_of(0, 0, 3, 4) == 0.0f);
  CHECK(score_of(3, 4, 3, 4) == 1.0f);
  CHECK(score_of(1e-13, 0, 1, 0) == doctest::Approx(0.1));
  CHECK(score_of(3e38, 0, -3e38, 0) == -1.0f);
  CHECK(std::isnan(score_of(kInf, 0, 1, 0)));
  CHECK(std::isnan(score_of(std::nan(""), 0, 1, 0)));
}

TEST_CASE("no query or no document: nothing is touched, null data allowed") {
  for (const Shape shape : {Shape{0, 3, 2, 2, 4}, Shape{3, 0, 2, 2, 4}, Shape{0, 0, 0, 0, 1}}) {
    Problem p(shape, 15, DType::f16, true);
    CHECK_NOTHROW(p.run(0));
  }
}
