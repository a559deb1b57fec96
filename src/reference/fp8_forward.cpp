#include "reference/fp8_forward.h"

#include "reference/lookup.h"
#include "reference/maxsim.h"
#include "reference/numeric.h"

namespace msj::reference {

namespace {

TokenRows rows_of(const TensorView &matrix, const TensorView &scale, std::int64_t width) {
  const auto read = [&](std::int64_t item, std::span<const std::int64_t> tokens, const RowBlock &out) {
    widen(matrix, item, tokens, out);
    if (!scale.present) return;
    for (std::size_t n = 0; n < tokens.size(); ++n) {
      out.factors[n].multiplier = static_cast<double>(load<float>(scale.data, offset(scale, item, tokens[n])));
    }
  };
  return {.width = width, .has_factors = scale.present, .read = read};
}

}  // namespace

void fp8_forward(const BoundCall &call, int threads) {
  const std::int64_t width = size(call, "d");
  maxsim(call, rows_of(operand(call, "q"), operand(call, "scale_q"), width),
         rows_of(operand(call, "d"), operand(call, "scale_d"), width), threads);
}

void fp8_forward(const BoundCall &call) { fp8_forward(call, 0); }

}  // namespace msj::reference
