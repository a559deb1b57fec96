// fused_head_forward: MaxSim against documents that are projected and normalized on the way. The op's table.
#pragma once

#include "base/op_spec.h"

namespace msj::ops {

[[nodiscard]] const OpSpec &fused_head_forward_spec();

}  // namespace msj::ops
