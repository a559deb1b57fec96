// fp8_forward on the CPU: MaxSim of fp8 rows, each row's scale (its token's, its tensor's, or 1) a float64 multiplier:
// that of a document token before the max, that of a query token after it.
#pragma once

#include "base/call.h"

namespace msj::reference {

// Host tensors of any strides. Writes every element of scores, and of argmax where it is present.
void fp8_forward(const BoundCall &call);
void fp8_forward(const BoundCall &call, int threads);  // 0: all cores

}  // namespace msj::reference
