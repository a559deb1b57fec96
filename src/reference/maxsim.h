// MaxSim of rows that an op supplies: what every forward op on the CPU has in common.
//
//     value(s, t) = <q_s, d_t> / q_s.divisor / d_t.divisor · d_t.multiplier
//     score       = Σ_s  q_s.multiplier · max_t value(s, t)
//
// The semantics are those of every kernel: masks, lengths, empty documents, ties, NaN. The arithmetic is float64, each
// dot product summed over k in ascending order, the sum over query tokens likewise. Results do not depend on the number
// of threads or on the machine's vectors.
#pragma once

#include <functional>
#include <span>

#include "base/call.h"
#include "reference/panels.h"

namespace msj::reference {

// The token rows of queries or documents.
struct TokenRows {
  std::int64_t width;  // values of a row, each of at most 24 significant bits
  bool has_factors;    // else all are 1, and `read` writes none
  // Writes the rows of `tokens` of query or document `item`, at most kTile of a document. Called from any thread.
  std::function<void(std::int64_t item, std::span<const std::int64_t> tokens, const RowBlock &out)> read;
  // Of documents that are no rows of a [Nd, Ld, …] tensor: their tokens. kBroken: such a document scores as one NaN
  // token does. Null: d_lengths within Ld.
  std::function<std::int64_t(std::int64_t item)> length = nullptr;
};

inline constexpr std::int64_t kTile = 8 * kPanel;  // document rows at a time: they stay in the second-level cache

inline constexpr std::int64_t kBroken = -1;

inline constexpr double kNormFloor = 1e-12;
// The divisor of `normalize`: the norm of row n, no less than the floor; a NaN stays.
[[nodiscard]] double floored_norm(const RowBlock &rows, std::int64_t n);

// Rows of a [items, tokens, width] tensor as they are.
void widen(const TensorView &matrix, std::int64_t item, std::span<const std::int64_t> tokens, const RowBlock &out);

// Every document token is read once, each query token once. The op's table names q_mask, d_lengths, scores, argmax
// and empty_doc, Nq, Nd, Lq and Ld; it may name d_mask. Writes every element of scores, and of argmax where it is
// present.
void maxsim(const BoundCall &call, const TokenRows &queries, const TokenRows &documents, int threads);  // 0: all cores

}  // namespace msj::reference
