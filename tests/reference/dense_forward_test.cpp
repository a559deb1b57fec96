// The reference against the definition written down as plainly as possible, on float64 values.
#include "ops/dense_forward.h"
#include "reference/dense_forward.h"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include "reference/host_tensor.h"

using namespace msj;
using host::Order;
using host::Tensor;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr FeatureSet kQMask = 1, kDMask = 2, kNormalize = 4, kSaveArgmax = 8;

struct Shape {
  std::int64_t Nq, Nd, Lq, Ld, d;
};

// All operands of one call, and the call.
struct Problem {
  Shape shape;
  FeatureSet features;
  DType dtype;
  Tensor q, d, q_mask, d_mask, d_lengths, scores, argmax;
  bool has_lengths;
  std::int64_t empty_doc = MSJ_EMPTY_DOC_ZERO;

  Problem(Shape s, FeatureSet f, DType matrices = DType::f32, bool lengths = false, Order order = Order::contiguous)
      : shape(s),
        features(f),
        dtype(matrices),
        q(dtype, {s.Nq, s.Lq, s.d}, order),
        d(dtype, {s.Nd, s.Ld, s.d}, order),
        q_mask(DType::boolean, {s.Nq, s.Lq}, order),
        d_mask(DType::i8, {s.Nd, s.Ld}, order),
        d_lengths(DType::i32, {s.Nd}, order),
        scores(DType::f32, {s.Nq, s.Nd}, order == Order::broadcast_rows ? Order::contiguous : order),
        argmax(DType::i32, {s.Nq, s.Nd, s.Lq}, order == Order::broadcast_rows ? Order::contiguous : order),
        has_lengths(lengths) {}

  void run(int threads = 1) {
    BoundCall call;
    call.op = &ops::dense_forward_spec();
    call.sizes = {shape.Nq, shape.Nd, shape.Lq, shape.Ld, shape.d};
    call.features = features;
    call.params[0] = empty_doc;
    call.operands[MSJ_DENSE_FORWARD_Q] = q.view();
    call.operands[MSJ_DENSE_FORWARD_D] = d.view();
    if ((features & kQMask) != 0) call.operands[MSJ_DENSE_FORWARD_Q_MASK] = q_mask.view();
    if ((features & kDMask) != 0) call.operands[MSJ_DENSE_FORWARD_D_MASK] = d_mask.view();
    if (has_lengths) call.operands[MSJ_DENSE_FORWARD_D_LENGTHS] = d_lengths.view();
    call.operands[MSJ_DENSE_FORWARD_SCORES] = scores.view();
    if ((features & kSaveArgmax) != 0) call.operands[MSJ_DENSE_FORWARD_ARGMAX] = argmax.view();
    reference::dense_forward(call, threads);
  }

  float score(std::int64_t i, std::int64_t j) const { return scores.raw<float>(i * shape.Nd + j); }
  int best(std::int64_t i, std::int64_t j, std::int64_t s) const {
    return argmax.raw<std::int32_t>((i * shape.Nd + j) * shape.Lq + s);
  }
};

// The definition.
struct Naive {
  const Problem &p;

  std::vector<double> row(const Tensor &matrix, std::int64_t index) const {
    std::vector<double> x;
    for (std::int64_t k = 0; k < p.shape.d; ++k) x.push_back(matrix.at(index * p.shape.d + k));
    if ((p.features & kNormalize) == 0) return x;
    double squares = 0;
    for (const double value : x) squares += value * value;
    double norm = std::sqrt(squares);
    if (norm < 1e-12) norm = 1e-12;
    for (double &value : x) value /= norm;
    return x;
  }
  double dot(std::int64_t i, std::int64_t s, std::int64_t j, std::int64_t t) const {
    const auto a = row(p.q, i * p.shape.Lq + s);
    const auto b = row(p.d, j * p.shape.Ld + t);
    double sum = 0;
    for (std::size_t k = 0; k < a.size(); ++k) sum += a[k] * b[k];
    return sum;
  }
  bool query_active(std::int64_t i, std::int64_t s) const {
    return (p.features & kQMask) == 0 || p.q_mask.at(i * p.shape.Lq + s) != 0;
  }
  bool document_active(std::int64_t j, std::int64_t t) const {
    if ((p.features & kDMask) != 0 && p.d_mask.at(j * p.shape.Ld + t) == 0) return false;
    return !p.has_lengths || static_cast<double>(t) < p.d_lengths.at(j);
  }
};

struct Expected {
  double score = 0;
  std::vector<int> argmax;
};

Expected expect(const Problem &p, std::int64_t i, std::int64_t j) {
  const Naive naive{p};
  Expected expected;
  expected.argmax.assign(static_cast<std::size_t>(p.shape.Lq), -1);
  bool any_query = false;
  bool any_document = false;
  for (std::int64_t t = 0; t < p.shape.Ld; ++t) any_document = any_document || naive.document_active(j, t);
  for (std::int64_t s = 0; s < p.shape.Lq; ++s) {
    if (!naive.query_active(i, s)) continue;
    any_query = true;
    int winner = -1;
    double best = 0;
    for (std::int64_t t = 0; t < p.shape.Ld; ++t) {
      if (!naive.document_active(j, t)) continue;
      const double value = naive.dot(i, s, j, t);
      const bool wins = winner < 0 || (!std::isnan(best) && (std::isnan(value) || value > best));
      if (!wins) continue;
      winner = static_cast<int>(t);
      best = value;
    }
    expected.argmax[static_cast<std::size_t>(s)] = winner;
    expected.score += best;
  }
  if (any_query && !any_document) expected.score = p.empty_doc == MSJ_EMPTY_DOC_NEG_INF ? -kInf : 0.0;
  return expected;
}

bool close(float actual, double expected, double scale) {
  if (std::isnan(expected)) return std::isnan(actual);
  if (std::isinf(expected)) return actual == expected;
  return std::fabs(actual - expected) <= 1e-7 * std::fabs(expected) + 1e-12 * scale;
}

// Normalized dot products differ in their last bits from the definition's, so that another token may win a near tie.
bool nearly_best(const Problem &p, std::int64_t i, std::int64_t j, std::int64_t s, int actual, int expected) {
  if (actual == expected) return true;
  if ((p.features & kNormalize) == 0 || actual < 0 || expected < 0) return false;
  const Naive naive{p};
  return std::fabs(naive.dot(i, s, j, actual) - naive.dot(i, s, j, expected)) < 1e-12;
}

// The number of results that are not as defined.
int mistakes(const Problem &p) {
  int count = 0;
  for (std::int64_t i = 0; i < p.shape.Nq; ++i) {
    for (std::int64_t j = 0; j < p.shape.Nd; ++j) {
      const Expected expected = expect(p, i, j);
      if (!close(p.score(i, j), expected.score, static_cast<double>(p.shape.Lq))) ++count;
      if ((p.features & kSaveArgmax) == 0) continue;
      for (std::int64_t s = 0; s < p.shape.Lq; ++s) {
        if (!nearly_best(p, i, j, s, p.best(i, j, s), expected.argmax[static_cast<std::size_t>(s)])) ++count;
      }
    }
  }
  return count;
}

std::string describe(const Problem &p) {
  return fmt::format("Nq {} Nd {} Lq {} Ld {} d {} features {} dtype {} lengths {} empty_doc {}", p.shape.Nq,
                     p.shape.Nd, p.shape.Lq, p.shape.Ld, p.shape.d, p.features, name(p.dtype), p.has_lengths,
                     p.empty_doc);
}

using Random = std::mt19937_64;

std::int64_t pick(Random &random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

enum class Values { ties, not_a_number, infinite, zeros };

double value_of(Values kind, Random &random) {
  const double integer = static_cast<double>(pick(random, -2, 2));
  const bool special = pick(random, 0, 4) == 0;
  if (kind == Values::not_a_number && special) return std::nan("");
  if (kind == Values::infinite && special) return pick(random, 0, 1) == 0 ? kInf : -kInf;
  if (kind == Values::zeros) return pick(random, 0, 2) == 0 ? integer : (pick(random, 0, 1) == 0 ? 0.0 : -0.0);
  return integer;
}

void fill(Problem &p, Random &random, Values kind) {
  p.q.fill([&] { return value_of(kind, random); });
  p.d.fill([&] { return value_of(kind, random); });
  p.q_mask.fill([&] { return static_cast<double>(pick(random, 0, 1)); });
  p.d_mask.fill([&] { return static_cast<double>(pick(random, -1, 1)); });
  p.d_lengths.fill([&] { return static_cast<double>(pick(random, -1, p.shape.Ld + 1)); });
}

void fill_random(Problem &p, Random &random) {
  std::normal_distribution<double> normal;
  const auto matrix_value = [&] {
    const double x = normal(random);
    return std::fabs(x) < 0.02 ? 0.0 : x;  // fp8 has no small normal numbers
  };
  fill(p, random, Values::ties);
  p.q.fill(matrix_value);
  p.d.fill(matrix_value);
}

std::uint64_t seed() {
  const char *given = std::getenv("MSJ_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
}

}  // namespace

namespace {

void check_all_calls_of(const Shape &shape, Random &random) {
  for (FeatureSet features = 0; features < 16; ++features) {
    for (const Values kind : {Values::ties, Values::not_a_number, Values::infinite, Values::zeros}) {
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
