#include "reference/residual_forward.h"

#include "reference/lookup.h"
#include "reference/maxsim.h"
#include "reference/numeric.h"
#include "reference/residual_rows.h"

namespace msj::reference {

void residual_forward(const BoundCall &call, int threads) {
  const ResidualRows rows(call);
  const TensorView &q = operand(call, "q");
  const TensorView &starts = operand(call, "d_starts");
  const TensorView &lengths = operand(call, "d_lengths");
  const TensorView &norms = operand(call, "d_inv_norms");
  const auto start_of = [&](std::int64_t item) { return load<std::int64_t>(starts.data, item * starts.strides[0]); };
  const TokenRows queries = {.width = rows.width(),
                             .has_factors = false,
                             .read = [&](std::int64_t item, std::span<const std::int64_t> tokens, const RowBlock &out) {
                               widen(q, item, tokens, out);
                             }};
  const auto read = [&](std::int64_t item, std::span<const std::int64_t> tokens, const RowBlock &out) {
    const std::int64_t start = start_of(item);
    for (std::size_t n = 0; n < tokens.size(); ++n) {
      rows.decode(start + tokens[n], out, static_cast<std::int64_t>(n));
      if (norms.present) {
        out.factors[n].multiplier =
            static_cast<double>(load<float>(norms.data, (start + tokens[n]) * norms.strides[0]));
      }
    }
  };
  const auto length = [&](std::int64_t item) -> std::int64_t {
    const std::int64_t tokens = load<std::int32_t>(lengths.data, item * lengths.strides[0]);
    return tokens == 0 || is_inside(start_of(item), tokens, rows.tokens()) ? tokens : kBroken;
  };
  maxsim(call, queries, {.width = rows.width(), .has_factors = norms.present, .read = read, .length = length}, threads);
}

void residual_forward(const BoundCall &call) { residual_forward(call, 0); }

}  // namespace msj::reference
