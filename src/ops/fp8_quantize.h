// fp8_quantize: token vectors as fp8 with float32 scales, for fp8_forward. The op's table.
#pragma once

#include "base/op_spec.h"

namespace msj::ops {

[[nodiscard]] const OpSpec &fp8_quantize_spec();

}  // namespace msj::ops
