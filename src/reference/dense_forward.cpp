#include "reference/dense_forward.h"

#include "reference/lookup.h"
#include "reference/maxsim.h"

namespace msj::reference {

namespace {

TokenRows rows_of(const TensorView &matrix, const BoundCall &call) {
  const bool normalize = has_feature(call, "normalize");
  const auto read = [&matrix, normalize](std::int64_t item, std::span<const std::int64_t> tokens, const RowBlock &out) {
    widen(matrix, item, tokens, out);
    if (!normalize) return;
    for (std::size_t n = 0; n < tokens.size(); ++n) {
      out.factors[n].divisor = floored_norm(out, static_cast<std::int64_t>(n));
    }
  };
  return {.width = size(call, "d"), .has_factors = normalize, .read = read};
}

}  // namespace

void dense_forward(const BoundCall &call, int threads) {
  maxsim(call, rows_of(operand(call, "q"), call), rows_of(operand(call, "d"), call), threads);
}

void dense_forward(const BoundCall &call) { dense_forward(call, 0); }

}  // namespace msj::reference
