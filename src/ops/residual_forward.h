// residual_forward: score[i, j] = Σ_s max_t ⟨Q[i, s], row⟩, rows decoded from centroids and residual bits. The table.
#pragma once

#include "base/op_spec.h"

namespace msj::ops {

[[nodiscard]] const OpSpec &residual_forward_spec();

}  // namespace msj::ops
