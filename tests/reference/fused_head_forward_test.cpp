// The reference against the definition written down as plainly as possible, on float64 values.
#include "reference/fused_head_forward.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "ops/fused_head_forward.h"
#include "reference/forward_case.h"

using namespace msj;
using namespace host;

namespace {

const OpSpec &spec() { return ops::fused_head_forward_spec(); }

FeatureSet feature(std::string_view name) { return FeatureSet{1} << find_named(spec().features, name); }

struct Widths {
  std::int64_t d_out, d_model;
};

struct Problem : ForwardCase {
  Widths width;
  DType dtype;
  Tensor q, h, w, bias;

  Problem(Tokens tokens, Widths widths, FeatureSet set, DType matrices = DType::f32, DType of_bias = DType::f32,
          bool lengths = false, Order order = Order::contiguous)
      : ForwardCase(spec(), tokens, set, lengths, order),
        width(widths),
        dtype(matrices),
        q(dtype, {n.Nq, n.Lq, width.d_out}, order),
        h(dtype, {n.Nd, n.Ld, width.d_model}, order),
        w(dtype, {width.d_out, width.d_model}, order_of_results(order)),  // else its rows are all the same
        bias(of_bias, {width.d_out}, order_of_results(order)) {}

  void run(int threads = 1) {
    BoundCall bound = call();
    size(bound, "d_out") = width.d_out;
    size(bound, "d_model") = width.d_model;
    operand(bound, "q") = q.view();
    operand(bound, "h") = h.view();
    operand(bound, "w") = w.view();
    if (has("bias")) operand(bound, "bias") = bias.view();
    reference::fused_head_forward(bound, threads);
  }

  double rounded(double x) const {
    if (dtype == DType::f32) return static_cast<float>(x);
    const Format &format = dtype == DType::f16 ? kF16 : kBf16;
    const double largest = dtype == DType::f16 ? 65504.0 : std::ldexp(255.0, 120);
    const double near = nearest(format, x);
    return std::fabs(near) > largest ? std::copysign(kInf, x) : near;
  }

  // E of every document token, [Nd * Ld, d_out].
  std::vector<double> projected() const {
    std::vector<double> all;
    for (std::int64_t token = 0; token < n.Nd * n.Ld; ++token) {
      std::vector<double> row;
      double squares = 0;
      for (std::int64_t o = 0; o < width.d_out; ++o) {
        double sum = 0;
        for (std::int64_t k = 0; k < width.d_model; ++k) {
          sum += h.at(token * width.d_model + k) * w.at(o * width.d_model + k);
        }
        if (has("bias")) sum += bias.at(o);
        squares += sum * sum;
        row.push_back(sum);
      }
      double norm = std::sqrt(squares);
      if (norm < 1e-12) norm = 1e-12;
      for (const double x : row) all.push_back(rounded(has("normalize") ? x / norm : x));
    }
    return all;
  }
  int wrong() const {
    const std::vector<double> e = projected();
    return mistakes(*this, {.value = [&](std::int64_t i, std::int64_t s, std::int64_t j, std::int64_t t) {
      double sum = 0;
      for (std::int64_t o = 0; o < width.d_out; ++o) {
        sum += q.at((i * n.Lq + s) * width.d_out + o) * e[static_cast<std::size_t>((j * n.Ld + t) * width.d_out + o)];
      }
      return sum;
    }});
  }
};

constexpr std::array kDtypes = {DType::f32, DType::f16, DType::bf16};

void fill(Problem &p, Random &random, Values kind) {
  p.fill_masks(random);
  for (Tensor *tensor : {&p.q, &p.h, &p.w, &p.bias}) tensor->fill([&] { return value_of(kind, random); });
}

void fill_random(Problem &p, Random &random) {
  std::normal_distribution<double> normal;
  p.fill_masks(random);
  for (Tensor *tensor : {&p.q, &p.h, &p.w, &p.bias}) tensor->fill([&] { return normal(random); });
}

void check_all_calls_of(Tokens tokens, Widths widths, Random &random) {
  for (FeatureSet features = 0; features <= spec().all_features(); ++features) {
    for (const Values kind : kAllValues) {
      for (const int variant : {0, 1, 2, 3}) {
        const DType dtype = kDtypes[static_cast<std::size_t>(pick(random, 0, 2))];
        Problem p(tokens, widths, features, dtype, pick(random, 0, 1) == 0 ? dtype : DType::f32, (variant & 1) != 0);
        p.empty_doc = (variant & 2) != 0 ? MSJ_EMPTY_DOC_NEG_INF : MSJ_EMPTY_DOC_ZERO;
        fill(p, random, kind);
        p.run();
        INFO(p.describe() << " d_out " << widths.d_out << " d_model " << widths.d_model << " dtype " << name(dtype)
                          << " values " << static_cast<int>(kind));
        REQUIRE(p.wrong() == 0);
      }
    }
  }
}

// A call of one query token, one document token and one hidden value: E is the score.
struct OneToken : Problem {
  explicit OneToken(DType dtype, FeatureSet features = 0, DType of_bias = DType::f32, std::int64_t d_out = 1)
      : Problem({1, 1, 1, 1}, {d_out, 1}, features, dtype, of_bias) {
    q.fill([] { return 1.0; });
    h.fill([] { return 1.0; });
  }
  float of(double hidden, double weight, double b = 0) {
    h.set(0, hidden), w.set(0, weight), bias.set(0, b);
    run();
    return score(0, 0);
  }
};

}  // namespace

TEST_CASE("the op has the features that these tests name") {
  CHECK(spec().all_features() == 31);
  for (const char *name : {"bias", "q_mask", "d_mask", "normalize", "save_argmax"}) {
    CHECK(find_named(spec().features, std::string_view(name)) >= 0);
  }
}

TEST_CASE("small shapes, exhaustively: every feature set, empty_doc, lengths and kind of value") {
  Random random(1);
  for (const std::int64_t Nq : {1, 2}) {
    for (const std::int64_t Nd : {1, 2}) {
      for (const std::int64_t Lq : {0, 1, 5}) {
        for (const std::int64_t Ld : {0, 1, 9}) check_all_calls_of({Nq, Nd, Lq, Ld}, {3, 2}, random);
      }
    }
  }
}

TEST_CASE("random shapes, dtypes, features and strides") {
  const std::uint64_t chosen = seed();
  MESSAGE("MSJ_TEST_SEED=" << chosen);
  Random random(chosen);
  const std::array orders = {Order::contiguous, Order::reversed_dimensions, Order::negative, Order::every_other,
                             Order::broadcast_rows};
  for (int round = 0; round < 320; ++round) {
    const Tokens tokens = {pick(random, 1, 3), pick(random, 1, 4), pick(random, 0, 11), pick(random, 0, 90)};
    const auto order = orders[static_cast<std::size_t>(round % 5)];
    const DType dtype = kDtypes[static_cast<std::size_t>(pick(random, 0, 2))];
    Problem p(tokens, {pick(random, 1, 27), pick(random, 1, 20)}, static_cast<FeatureSet>(round) % 32, dtype,
              pick(random, 0, 1) == 0 ? dtype : DType::f32, pick(random, 0, 1) == 1, order);
    p.empty_doc = pick(random, 0, 1);
    fill_random(p, random);
    p.run(static_cast<int>(pick(random, 1, 3)));
    INFO("round " << round << ": " << p.describe() << " d_out " << p.width.d_out << " d_model " << p.width.d_model
                  << " dtype " << name(dtype) << " order " << static_cast<int>(order));
    REQUIRE(p.wrong() == 0);
  }
}

TEST_CASE("E is rounded to the matrices' dtype, ties to even; past the largest number it is infinity") {
  OneToken bf16(DType::bf16), f16(DType::f16), f32(DType::f32);
  CHECK(bf16.of(1.0078125, 1.0078125) == 1.015625f);    // 1.01568…
  CHECK(bf16.of(129, 129) == 16640.0f);                 // 16641, spacing 128
  CHECK(bf16.of(3, 43) == 129.0f);                      // a number
  CHECK(bf16.of(3, 171) == 512.0f);                     // 513, between 512 and 516
  CHECK(bf16.of(2, 257) == 512.0f);                     // 257 is 256 as bf16
  CHECK(f16.of(683, 3) == 2049.0f - 1.0f);              // 2049, midway: the even 2048
  CHECK(f16.of(293, 7) == 2051.0f + 1.0f);              // 2051, midway: the even 2052
  CHECK(f16.of(4096, 16) == static_cast<float>(kInf));  // 65536
  CHECK(f16.of(-4096, 16) == static_cast<float>(-kInf));
  CHECK(bf16.of(1e30, 1e30) == static_cast<float>(kInf));
  CHECK(f32.of(1e30, 1e30) == static_cast<float>(kInf));
  CHECK(f16.of(std::ldexp(1.0, -12), std::ldexp(1.0, -12)) == std::ldexp(1.0f, -24));  // its least
  CHECK(f16.of(std::ldexp(1.0, -13), std::ldexp(1.0, -12)) == 0.0f);                   // half of it
}

TEST_CASE("the bias is added before the rounding; in float32 it is not rounded first") {
  const FeatureSet with_bias = feature("bias");
  OneToken own(DType::bf16, with_bias, DType::bf16), wide(DType::bf16, with_bias, DType::f32);
  CHECK(own.of(1, 1, 2) == 3.0f);
  CHECK(wide.of(1, 1, 2) == 3.0f);
  CHECK(wide.of(1, -256, 257) == 1.0f);
  CHECK(own.of(1, -256, 257) == 0.0f);  // 257 was 256 before it came here
  CHECK(wide.of(257, 1, 1) == 256.0f);  // 256 + 1 is midway: the even 256
}

TEST_CASE("normalize: the projected rows, not Q; a zero row stays zero, norms below the floor are the floor") {
  OneToken one(DType::f32, feature("normalize"));
  one.q.set(0, 5.0);
  CHECK(one.of(3, 4) == 5.0f);
  CHECK(one.of(0, 4) == 0.0f);
  CHECK(one.of(1e-13, 1) == doctest::Approx(0.5));
  CHECK(one.of(1e38, -1e38) == -5.0f);  // 1e76 has a norm in float64
  CHECK(std::isnan(one.of(kInf, 1)));
  CHECK(std::isnan(one.of(std::nan(""), 1)));
  OneToken two(DType::f32, feature("normalize"), DType::f32, 2);
  two.q.set(0, 1), two.q.set(1, 0);
  two.w.set(1, 4);
  CHECK(two.of(1, 3) == 0.6f);
  two.w.set(1, kInf);
  CHECK(std::isnan(two.of(0, 3)));  // 0 times infinity beside a 0
}

TEST_CASE("tokens whose E is equal after its rounding tie: the lowest wins") {
  Problem p({1, 1, 1, 3}, {1, 2}, feature("save_argmax"), DType::bf16);
  for (Tensor *tensor : {&p.q, &p.w}) tensor->fill([] { return 1.0; });
  for (const std::int64_t t : {0, 1, 2}) {
    p.h.set(2 * t, 512);
    p.h.set(2 * t + 1, static_cast<double>(t % 2));  // 512, 513, 512 are 512, 512, 512
  }
  p.run();
  CHECK(p.best(0, 0, 0) == 0);
  CHECK(p.score(0, 0) == 512.0f);
}

TEST_CASE("many outputs and a long sum: panels, tiles and threads change no bit") {
  Random random(4);
  for (const DType dtype : kDtypes) {
    Problem p({3, 5, 9, 70}, {33, 130}, spec().all_features(), dtype, DType::f32, true);
    fill_random(p, random);
    p.run(1);
    CHECK(p.wrong() == 0);
    const std::vector<char> scores = p.scores.memory();
    const std::vector<char> argmax = p.argmax.memory();
    for (const int threads : {2, 7, 64, 0}) {
      p.run(threads);
      CHECK(p.scores.memory() == scores);
      CHECK(p.argmax.memory() == argmax);
    }
  }
}

TEST_CASE("no query or no document: nothing is touched, null data allowed") {
  for (const Tokens tokens : {Tokens{0, 3, 2, 2}, Tokens{3, 0, 2, 2}, Tokens{0, 0, 0, 0}}) {
    Problem p(tokens, {4, 5}, spec().all_features(), DType::bf16, DType::bf16, true);
    CHECK_NOTHROW(p.run(0));
  }
}
