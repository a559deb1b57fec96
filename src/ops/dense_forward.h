// dense_forward: score[i, j] = Σ_s max_t ⟨Q[i, s], D[j, t]⟩, on bf16, fp16 or fp32 matrices. The op's table.
#pragma once

#include "base/op_spec.h"

namespace msj::ops {

[[nodiscard]] const OpSpec &dense_forward_spec();

}  // namespace msj::ops
