// residual_forward on the CPU: MaxSim of Q and decoded rows (residual_rows.h), each token's dot product multiplied by
// its d_inv_norms where they are given. A sum of a centroid and a weight that differ by more than 2^28 has more bits
// than MaxSim's engine asks for: its bits may then depend on the machine, in float64's last place.
#pragma once

#include "base/call.h"

namespace msj::reference {

// Host tensors of any strides. Writes every element of scores, and of argmax where it is present. Nothing is read for
// a code that is no centroid's, or of a document that is not inside the index.
void residual_forward(const BoundCall &call);
void residual_forward(const BoundCall &call, int threads);  // 0: all cores

}  // namespace msj::reference
