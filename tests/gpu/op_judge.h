// What must be true of scores and argmax of an op whose rows a test knows in float64: scores within a bound of the
// reference's, winners that are maxima within it.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "gpu/op_instance.h"

namespace msj::gpu {

// Floats of equal bits, NaNs of any, or zeros of either sign: a negative scale makes -0, a sum from 0 does not keep it.
[[nodiscard]] inline bool are_same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// "" or the first element in which the two differ.
[[nodiscard]] inline std::string difference(const Bits &got, const Bits &want, DType dtype) {
  if (got.size() != want.size()) return fmt::format("{} elements, not {}", got.size(), want.size());
  std::size_t count = 0;
  std::size_t first = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] == want[i]) continue;
    if (dtype == DType::f32 && are_same(std::bit_cast<float>(got[i]), std::bit_cast<float>(want[i]))) continue;
    if (count++ == 0) first = i;
  }
  if (count == 0) return {};
  return fmt::format("{} of {} differ, first {}: {:#x} ({}), not {:#x} ({})", count, got.size(), first, got[first],
                     decode(dtype, got[first]), want[first], decode(dtype, want[first]));
}

// Of every result of two runs; the codes of a quantization are compared bit by bit, NaN too.
[[nodiscard]] inline std::string difference(const OpProblem &problem, const OpResults &got, const OpResults &want) {
  std::string found;
  for (std::size_t i = 0; i < problem.op->operands.size(); ++i) {
    if (!problem.op->operands[i].is_result || !problem.is_present(i)) continue;
    const std::string different = difference(got[i], want[i], problem.dtype(i));
    if (!different.empty()) found += fmt::format("{}: {}; ", problem.op->operands[i].name, different);
  }
  return found;
}

// ---- scores ---------------------------------------------------------------------------------------------------------

struct ScoreCheck {
  std::size_t wrong = 0, first = 0;
  double worst = 0;  // error / bound
  void take(std::size_t at, float got, double want, double bound) {
    bool right = std::isnan(got) && std::isnan(want);
    if (std::isinf(want) || bound == 0) {
      right = got == want;
    } else if (!std::isnan(want)) {
      const double error = std::abs(static_cast<double>(got) - want);
      right = error <= bound;
      worst = std::max(worst, error / bound);
    }
    if (!right && wrong++ == 0) first = at;
  }
  [[nodiscard]] std::string complaint() const {
    if (wrong == 0) return {};
    return fmt::format("{} wrong scores, first {}, worst {:.3g} of the bound", wrong, first, worst);
  }
};

// ---- winners --------------------------------------------------------------------------------------------------------

// Rows that meet in an op: value(s, t) = scale_t · <q_s, row_t>, known to `coefficient` of the sum of magnitudes and to
// <|q_s|, error_t>.
struct Rows {
  std::size_t Nq = 0, Nd = 0, Lq = 0, Ld = 0, width = 0;
  std::vector<double> q;       // [Nq, Lq, width]
  std::vector<double> rows;    // [Nd, Ld, width]
  std::vector<double> errors;  // likewise, or empty: exact
  std::vector<double> scales;  // [Nd, Ld], or one, or empty: 1
  std::vector<bool> active;    // [Nd, Ld]
  double coefficient = 0;

  struct Value {
    double value = 0, slack = 0;
  };
  [[nodiscard]] Value value(std::size_t query, std::size_t token, std::size_t document, std::size_t t) const {
    const double *a = q.data() + (query * Lq + token) * width;
    const std::size_t row = document * Ld + t;
    Value v;
    for (std::size_t k = 0; k < width; ++k) {
      const double product = a[k] * rows[row * width + k];
      v.value += product;
      v.slack += coefficient * std::abs(product);
      if (!errors.empty()) v.slack += std::abs(a[k]) * errors[row * width + k];
    }
    const double scale = scales.empty() ? 1.0 : scales[scales.size() == 1 ? 0 : row];
    return {v.value * scale, v.slack * std::abs(scale)};
  }
};

// "" or what is wrong with `got`, an argmax, where the reference's is `want`.
[[nodiscard]] inline std::string winners_complaint(const Rows &rows, const Bits &got, const Bits &want) {
  if (got.size() != want.size()) return fmt::format("{} winners, not {}", got.size(), want.size());
  for (std::size_t at = 0; at < got.size(); ++at) {
    if (got[at] == want[at]) continue;
    const std::size_t token = at % rows.Lq;
    const std::size_t document = at / rows.Lq % rows.Nd;
    const std::size_t query = at / rows.Lq / rows.Nd;
    const std::string where = fmt::format("argmax[{}, {}, {}] is {}, the reference's {}", query, document, token,
                                          static_cast<std::int32_t>(got[at]), static_cast<std::int32_t>(want[at]));
    if (got[at] >= rows.Ld || want[at] >= rows.Ld) return where;
    if (!rows.active[document * rows.Ld + got[at]]) return where + ": that token is not active";
    const Rows::Value mine = rows.value(query, token, document, got[at]);
    const Rows::Value best = rows.value(query, token, document, want[at]);
    if (mine.value >= best.value - mine.slack - best.slack) continue;
    return fmt::format("{}: {} is below {} by more than {}", where, mine.value, best.value, mine.slack + best.slack);
  }
  return {};
}

// What all forward ops have in common; rows, errors and scales are left to the op.
[[nodiscard]] inline Rows rows_of(const OpInstance &instance) {
  const OpProblem &p = instance.problem();
  Rows rows;
  rows.Nq = static_cast<std::size_t>(p.size("Nq")), rows.Nd = static_cast<std::size_t>(p.size("Nd"));
  rows.Lq = static_cast<std::size_t>(p.size("Lq")), rows.Ld = static_cast<std::size_t>(p.size("Ld"));
  const std::size_t q = operand_of(*p.op, "q");
  rows.q = decode(p.dtype(q), instance.elements(q));
  rows.width = rows.q.size() / (rows.Nq * rows.Lq);
  const Bits &mask = instance.elements(operand_of(*p.op, "d_mask"));
  const Bits &lengths = instance.elements(operand_of(*p.op, "d_lengths"));
  rows.active.resize(rows.Nd * rows.Ld);
  for (std::size_t row = 0; row < rows.active.size(); ++row) {
    const auto t = static_cast<std::int32_t>(row % rows.Ld);
    rows.active[row] =
        (mask.empty() || mask[row] != 0) && (lengths.empty() || t < static_cast<std::int32_t>(lengths[row / rows.Ld]));
  }
  return rows;
}

}  // namespace msj::gpu
