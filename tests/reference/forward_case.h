// A forward call apart from its matrices, and the definition of its results written down as plainly as possible: given
// the value of each pair of tokens, what are scores and argmax?
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "reference/host_tensor.h"

namespace host {

using Random = std::mt19937_64;
inline constexpr double kInf = std::numeric_limits<double>::infinity();

inline std::int64_t pick(Random &random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

// Small integers with many ties; of one in five, something else.
enum class Values { ties, not_a_number, infinite, zeros };
inline constexpr std::array kAllValues = {Values::ties, Values::not_a_number, Values::infinite, Values::zeros};

inline double value_of(Values kind, Random &random) {
  const double integer = static_cast<double>(pick(random, -2, 2));
  const bool special = pick(random, 0, 4) == 0;
  if (kind == Values::not_a_number && special) return std::nan("");
  if (kind == Values::infinite && special) return pick(random, 0, 1) == 0 ? kInf : -kInf;
  if (kind == Values::zeros) return pick(random, 0, 2) == 0 ? integer : (pick(random, 0, 1) == 0 ? 0.0 : -0.0);
  return integer;
}

inline std::uint64_t seed() {
  const char *given = std::getenv("MSJ_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
}

struct Tokens {
  std::int64_t Nq, Nd, Lq, Ld;
};

// Results cannot share memory.
inline Order order_of_results(Order order) { return order == Order::broadcast_rows ? Order::contiguous : order; }

struct ForwardCase {
  const msj::OpSpec &op;
  Tokens n;
  msj::FeatureSet features;
  bool has_lengths;
  std::int64_t empty_doc = MSJ_EMPTY_DOC_ZERO;
  Tensor q_mask, d_mask, d_lengths, scores, argmax;

  ForwardCase(const msj::OpSpec &spec, Tokens tokens, msj::FeatureSet set, bool lengths, Order order)
      : op(spec),
        n(tokens),
        features(set),
        has_lengths(lengths),
        q_mask(msj::DType::boolean, {n.Nq, n.Lq}, order),
        d_mask(msj::DType::i8, {n.Nd, n.Ld}, order),
        d_lengths(msj::DType::i32, {n.Nd}, order),
        scores(msj::DType::f32, {n.Nq, n.Nd}, order_of_results(order)),
        argmax(msj::DType::i32, {n.Nq, n.Nd, n.Lq}, order_of_results(order)) {}

  bool has(std::string_view feature) const {
    const int index = msj::find_named(op.features, feature);
    return index >= 0 && ((features >> index) & 1U) != 0;
  }

  // All but the matrices and the sizes that only they have.
  msj::BoundCall call() {
    msj::BoundCall call;
    call.op = &op;
    call.features = features;
    call.params[0] = empty_doc;
    size(call, "Nq") = n.Nq, size(call, "Nd") = n.Nd, size(call, "Lq") = n.Lq, size(call, "Ld") = n.Ld;
    if (has("q_mask")) operand(call, "q_mask") = q_mask.view();
    if (has("d_mask")) operand(call, "d_mask") = d_mask.view();
    if (has_lengths) operand(call, "d_lengths") = d_lengths.view();
    operand(call, "scores") = scores.view();
    if (has("save_argmax")) operand(call, "argmax") = argmax.view();
    return call;
  }
  std::int64_t &size(msj::BoundCall &call, std::string_view name) const {
    return call.sizes[static_cast<std::size_t>(msj::find_named(op.sizes, name))];
  }
  msj::TensorView &operand(msj::BoundCall &call, std::string_view name) const {
    return call.operands[static_cast<std::size_t>(msj::find_named(op.operands, name))];
  }

  void fill_masks(Random &random) {
    q_mask.fill([&] { return static_cast<double>(pick(random, 0, 1)); });
    d_mask.fill([&] { return static_cast<double>(pick(random, -1, 1)); });
    d_lengths.fill([&] { return static_cast<double>(pick(random, -1, n.Ld + 1)); });
  }

  bool query_active(std::int64_t i, std::int64_t s) const { return !has("q_mask") || q_mask.at(i * n.Lq + s) != 0; }
  bool document_active(std::int64_t j, std::int64_t t) const {
    if (has("d_mask") && d_mask.at(j * n.Ld + t) == 0) return false;
    return !has_lengths || static_cast<double>(t) < d_lengths.at(j);
  }
  float score(std::int64_t i, std::int64_t j) const { return scores.raw<float>(i * n.Nd + j); }
  int best(std::int64_t i, std::int64_t j, std::int64_t s) const {
    return argmax.raw<std::int32_t>((i * n.Nd + j) * n.Lq + s);
  }

  std::string describe() const {
    return fmt::format("Nq {} Nd {} Lq {} Ld {} features {:#x} lengths {} empty_doc {}", n.Nq, n.Nd, n.Lq, n.Ld,
                       features, has_lengths, empty_doc);
  }
};

// What an op says of its tokens.
struct Definition {
  std::function<double(std::int64_t i, std::int64_t s, std::int64_t j, std::int64_t t)> value;
  std::function<double(std::int64_t i, std::int64_t s)> weight = [](std::int64_t, std::int64_t) { return 1.0; };
  double near_tie = -1;  // values that differ by less may win over one another; -1: none
};

struct Expected {
  double score = 0;
  std::vector<int> argmax;
};

inline Expected expect(const ForwardCase &c, const Definition &op, std::int64_t i, std::int64_t j) {
  Expected expected;
  expected.argmax.assign(static_cast<std::size_t>(c.n.Lq), -1);
  bool any_query = false;
  bool any_document = false;
  for (std::int64_t t = 0; t < c.n.Ld; ++t) any_document = any_document || c.document_active(j, t);
  for (std::int64_t s = 0; s < c.n.Lq; ++s) {
    if (!c.query_active(i, s)) continue;
    any_query = true;
    int winner = -1;
    double best = 0;
    for (std::int64_t t = 0; t < c.n.Ld; ++t) {
      if (!c.document_active(j, t)) continue;
      const double value = op.value(i, s, j, t);
      const bool wins = winner < 0 || (!std::isnan(best) && (std::isnan(value) || value > best));
      if (!wins) continue;
      winner = static_cast<int>(t);
      best = value;
    }
    expected.argmax[static_cast<std::size_t>(s)] = winner;
    if (winner >= 0) expected.score += op.weight(i, s) * best;
  }
  if (any_query && !any_document) expected.score = c.empty_doc == MSJ_EMPTY_DOC_NEG_INF ? -kInf : 0.0;
  return expected;
}

inline bool close(float actual, double expected, double scale) {
  if (std::isnan(expected)) return std::isnan(actual);
  if (std::fabs(expected) > std::numeric_limits<float>::max()) return actual == static_cast<float>(expected);
  return std::fabs(actual - expected) <= 1e-7 * std::fabs(expected) + 1e-12 * scale;
}

// The number of results that are not as defined.
inline int mistakes(const ForwardCase &c, const Definition &op) {
  int count = 0;
  for (std::int64_t i = 0; i < c.n.Nq; ++i) {
    for (std::int64_t j = 0; j < c.n.Nd; ++j) {
      const Expected expected = expect(c, op, i, j);
      if (!close(c.score(i, j), expected.score, static_cast<double>(c.n.Lq))) ++count;
      if (!c.has("save_argmax")) continue;
      for (std::int64_t s = 0; s < c.n.Lq; ++s) {
        const int actual = c.best(i, j, s);
        const int wanted = expected.argmax[static_cast<std::size_t>(s)];
        if (actual == wanted) continue;
        const bool near = actual >= 0 && wanted >= 0 &&
                          std::fabs(op.value(i, s, j, actual) - op.value(i, s, j, wanted)) < op.near_tie;
        if (!near) ++count;
      }
    }
  }
  return count;
}

}  // namespace host
