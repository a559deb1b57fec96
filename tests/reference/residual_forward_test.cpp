// residual_forward on the CPU against its definition: bits, rows, documents anywhere in the index, and what is broken.
#include "reference/residual_forward.h"

#include <doctest/doctest.h>

#include "ops/residual_forward.h"
#include "reference/residual_case.h"

using namespace host;
using msj::DType;

namespace {

const msj::OpSpec &op() { return msj::ops::residual_forward_spec(); }

msj::FeatureSet features(std::initializer_list<std::string_view> names) {
  msj::FeatureSet set = 0;
  for (const std::string_view name : names) set |= 1U << msj::find_named(op().features, name);
  return set;
}

// d_lengths of the case are int32 as they are; starts are int64 beside them. A document without tokens in the index
// keeps its length in the case, for expect() to look at: `broken` says that it is one.
struct Case {
  ForwardCase forward;
  ResidualIndex index;
  Tensor q, norms;
  std::vector<std::int64_t> starts;
  std::vector<std::int32_t> lengths;

  Case(Tokens n, std::int64_t tokens, std::int64_t d, std::int64_t nbits, msj::FeatureSet set, DType q_dtype,
       DType dtype, Order order)
      : forward(op(), n, set, false, order),
        index(tokens, 7, d, nbits, ((set >> msj::find_named(op().features, "lsb_first")) & 1U) != 0, dtype, order),
        q(q_dtype, {n.Nq, n.Lq, d}, order),
        norms(DType::f32, {tokens}, order),
        starts(static_cast<std::size_t>(n.Nd)),
        lengths(static_cast<std::size_t>(n.Nd)) {}

  void fill(Random &random, bool broken) {
    index.fill(random, broken);
    forward.q_mask.fill([&] { return static_cast<double>(pick(random, 0, 1)); });
    q.fill([&] { return static_cast<double>(pick(random, -2, 2)); });
    norms.fill([&] { return std::ldexp(1.0, static_cast<int>(pick(random, -1, 1))); });
    for (std::size_t j = 0; j < starts.size(); ++j) {
      lengths[j] = static_cast<std::int32_t>(pick(random, 0, index.N));
      starts[j] = pick(random, 0, index.N - lengths[j]);
      if (!broken || pick(random, 0, 2) != 0) continue;
      switch (pick(random, 0, 4)) {
        case 0:
          starts[j] = -1;
          break;
        case 1:
          starts[j] = index.N - lengths[j] + 1;
          break;
        case 2:
          lengths[j] = -3;
          break;
        case 3:
          starts[j] = std::numeric_limits<std::int64_t>::max();
          break;
        default:
          lengths[j] = std::numeric_limits<std::int32_t>::max();
      }
    }
  }

  [[nodiscard]] bool is_broken(std::int64_t j) const {
    const auto at = static_cast<std::size_t>(j);
    if (lengths[at] == 0) return false;
    return lengths[at] < 0 || starts[at] < 0 || starts[at] > index.N || lengths[at] > index.N - starts[at];
  }

  void run(int threads = 1) {
    msj::BoundCall call = forward.call();
    index.put_into(call);
    forward.operand(call, "q") = q.view();
    const auto vector_view = [](void *data, DType dtype, std::size_t count) {
      msj::TensorView view;
      view.data = data, view.dtype = dtype, view.rank = 1, view.present = true;
      view.shape[0] = static_cast<std::int64_t>(count), view.strides[0] = 1;
      return view;
    };
    forward.operand(call, "d_starts") = vector_view(starts.data(), DType::i64, starts.size());
    forward.operand(call, "d_lengths") = vector_view(lengths.data(), DType::i32, lengths.size());
    if (forward.has("normalize")) forward.operand(call, "d_inv_norms") = norms.view();
    msj::reference::residual_forward(call, threads);
  }

  [[nodiscard]] double value(std::int64_t i, std::int64_t s, std::int64_t j, std::int64_t t) const {
    double sum = 0;
    const std::int64_t token = starts[static_cast<std::size_t>(j)] + t;
    for (std::int64_t k = 0; k < index.d; ++k) sum += q.at((i * forward.n.Lq + s) * index.d + k) * index.row(token, k);
    return forward.has("normalize") ? sum * norms.at(token) : sum;
  }

  // The number of scores and argmaxes that are not as defined.
  [[nodiscard]] int mistakes() const {
    int count = 0;
    const Tokens &n = forward.n;
    for (std::int64_t i = 0; i < n.Nq; ++i) {
      for (std::int64_t j = 0; j < n.Nd; ++j) count += mistakes(i, j);
    }
    return count;
  }

 private:
  [[nodiscard]] int mistakes(std::int64_t i, std::int64_t j) const {
    int count = 0;
    double score = 0;
    bool any_query = false;
    const std::int64_t length = is_broken(j) ? 1 : lengths[static_cast<std::size_t>(j)];
    for (std::int64_t s = 0; s < forward.n.Lq; ++s) {
      const bool active = forward.query_active(i, s);
      any_query = any_query || active;
      int winner = -1;
      double best = 0;
      for (std::int64_t t = 0; active && t < length; ++t) {
        const double x = is_broken(j) ? std::nan("") : value(i, s, j, t);
        if (winner >= 0 && (std::isnan(best) || (x <= best && !std::isnan(x)))) continue;
        winner = static_cast<int>(t);
        best = x;
      }
      score += best;
      if (forward.has("save_argmax") && forward.best(i, j, s) != winner) ++count;
    }
    if (any_query && length == 0) score = forward.empty_doc == MSJ_EMPTY_DOC_NEG_INF ? -kInf : 0.0;
    return count + (close(forward.score(i, j), score, static_cast<double>(forward.n.Lq)) ? 0 : 1);
  }
};

}  // namespace

TEST_CASE("residual_forward: random problems are as defined") {
  const std::uint64_t start = seed();
  Random random(start);
  CAPTURE(start);
  constexpr std::array kNbits = {1, 2, 4, 8};
  constexpr std::array kDtypes = {DType::f32, DType::f16, DType::bf16};
  constexpr std::array kOrders = {Order::contiguous, Order::reversed_dimensions, Order::negative, Order::every_other};
  for (int round = 0; round < 300; ++round) {
    const auto one_of = [&](const auto &list) {
      return list[static_cast<std::size_t>(pick(random, 0, static_cast<std::int64_t>(list.size()) - 1))];
    };
    const Tokens n = {pick(random, 1, 3), pick(random, 1, 4), pick(random, 0, 5), 3};
    const std::int64_t d = pick(random, 0, 5) == 0 ? 100 : pick(random, 1, 37);
    Case c(n, pick(random, 1, 40), d, one_of(kNbits), static_cast<msj::FeatureSet>(pick(random, 0, 15)),
           one_of(kDtypes), one_of(kDtypes), one_of(kOrders));
    c.forward.empty_doc = pick(random, 0, 1);
    c.fill(random, pick(random, 0, 1) == 0);
    c.run(static_cast<int>(pick(random, 1, 3)));
    CAPTURE(c.forward.describe());
    CAPTURE(c.index.nbits);
    CHECK(c.mistakes() == 0);
  }
}

TEST_CASE("residual_forward: the bits of one byte, by hand") {
  // 0b01100011 at 2 bits: stream 0 1 | 1 0 | 0 0 | 1 1, low bit first: indices 2, 1, 0, 3. With lsb_first 1 1 | 0 0 | 0
  // 1 | 1 0: 3, 0, 2, 1.
  for (const bool lsb_first : {false, true}) {
    Case c({1, 1, 1, 1}, 1, 4, 2, lsb_first ? features({"lsb_first"}) : 0, DType::f32, DType::f32, Order::contiguous);
    c.index.codes.set(0, 0);
    c.index.residuals.set(0, 0b01100011);
    c.index.centroids.fill([] { return 0.0; });
    for (int i = 0; i < 4; ++i) c.index.weights.set(i, std::pow(10.0, i));  // 1, 10, 100, 1000
    for (int k = 0; k < 4; ++k) c.q.set(k, k + 1);
    c.lengths = {1}, c.starts = {0};
    c.run();
    CHECK(c.forward.score(0, 0) == (lsb_first ? 1000 + 2 * 1 + 3 * 100 + 4 * 10 : 100 + 2 * 10 + 3 * 1 + 4 * 1000));
  }
}

TEST_CASE("residual_forward: spare bits are ignored, even where what they stand for is no number") {
  Case c({1, 1, 1, 1}, 1, 3, 2, 0, DType::f32, DType::f32, Order::contiguous);
  c.index.codes.set(0, 0);
  c.index.centroids.fill([] { return 1.0; });
  c.index.weights.fill([] { return 0.0; });
  c.index.weights.set(3, std::nan(""));
  c.index.residuals.set(0, 0b00000011);
  c.q.fill([] { return 1.0; });
  c.lengths = {1}, c.starts = {0};
  c.run();
  CHECK(c.forward.score(0, 0) == 3);
}

TEST_CASE("residual_forward: a broken document is NaN where a query token asks, and nothing of it is read") {
  Case c({2, 4, 2, 1}, 3, 8, 4, features({"q_mask", "save_argmax"}), DType::f16, DType::f16, Order::contiguous);
  Random random(1);
  c.fill(random, false);
  c.forward.q_mask.set(0, 1), c.forward.q_mask.set(1, 0);
  c.forward.q_mask.set(2, 0), c.forward.q_mask.set(3, 0);
  c.starts = {std::int64_t{1} << 62, -1, 3, 0};
  c.lengths = {1, 2, 0, -1};
  c.run();
  for (const std::int64_t j : {0, 1, 3}) {
    CHECK(std::isnan(c.forward.score(0, j)));
    CHECK(c.forward.best(0, j, 0) == 0);
    CHECK(c.forward.best(0, j, 1) == -1);
    CHECK(c.forward.score(1, j) == 0);  // no active query token
  }
  CHECK(c.forward.score(0, 2) == 0);
  CHECK(c.forward.best(0, 2, 0) == -1);
}

TEST_CASE("residual_forward: Ld is a hint, and no memory is taken by it") {
  Case c({2, 3, 4, 1}, 9, 8, 2, features({"save_argmax"}), DType::f16, DType::f16, Order::contiguous);
  Random random(3);
  c.fill(random, false);
  c.lengths = {9, 0, 4}, c.starts = {0, 0, 5};
  c.forward.n.Ld = std::int64_t{1} << 50;  // no machine has so many
  c.run();
  CHECK(c.mistakes() == 0);
}

TEST_CASE("residual_forward: a code that is no centroid's makes its row NaN, its token the winner") {
  for (const int code : {-1, 7, -2147483647, 2147483647}) {
    Case c({1, 2, 1, 1}, 4, 8, 2, features({"save_argmax", "normalize"}), DType::bf16, DType::bf16, Order::contiguous);
    Random random(2);
    c.fill(random, false);
    c.index.codes.set(2, code);
    c.starts = {0, 3}, c.lengths = {4, 1};
    c.run();
    CHECK(std::isnan(c.forward.score(0, 0)));
    CHECK(c.forward.best(0, 0, 0) == 2);
    CHECK_FALSE(std::isnan(c.forward.score(0, 1)));
  }
}
