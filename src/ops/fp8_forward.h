// fp8_forward: score[i, j] = Σ_s scale_q · max_t (scale_d · ⟨Q[i, s], D[j, t]⟩), on e4m3 or e5m2 matrices. The op's
// table.
#pragma once

#include "base/op_spec.h"

namespace msj::ops {

[[nodiscard]] const OpSpec &fp8_forward_spec();

}  // namespace msj::ops
