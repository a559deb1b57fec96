// residual_norms on the CPU: 1 / max(|row|, 1e-12) of decoded rows (residual_rows.h), in float64; NaN where a code is
// no centroid's.
#pragma once

#include "base/call.h"

namespace msj::reference {

// Host tensors of any strides. Writes the norms of all tokens, or, where documents are given, those of the documents
// that are inside the index.
void residual_norms(const BoundCall &call);

}  // namespace msj::reference
