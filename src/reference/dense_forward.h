// dense_forward on the CPU: the oracle of every test, and what a call on the CPU device runs.
//
// The semantics are those of every kernel; the arithmetic is float64, each dot product summed over k in ascending
// order, the sum over query tokens likewise. Results do not depend on the number of threads or on the machine's
// vectors.
#pragma once

#include "base/call.h"

namespace msj::reference {

// Host tensors of any strides and matrix dtype. Writes every element of scores, and of argmax where it is present.
void dense_forward(const BoundCall &call);
void dense_forward(const BoundCall &call, int threads);  // 0: all cores

}  // namespace msj::reference
