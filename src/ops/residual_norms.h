// residual_norms: 1 / max(‖row‖, 1e-12) of rows decoded from centroids and residual bits. The table.
#pragma once

#include "base/op_spec.h"

namespace msj::ops {

[[nodiscard]] const OpSpec &residual_norms_spec();

}  // namespace msj::ops
