// fused_head_forward on the CPU: MaxSim of Q and E, where the row of a document token is
//
//     e = W h (+ bias)              in float64, each sum over d_model in ascending order
//     e = e / max(|e|, 1e-12)       with `normalize`
//     E = e to the nearest even     in Q's dtype; past its largest number: infinity, as IEEE has it
#pragma once

#include "base/call.h"

namespace msj::reference {

// Host tensors of any strides. Each document token is projected once, whatever Nq is. Writes every element of scores,
// and of argmax where it is present.
void fused_head_forward(const BoundCall &call);
void fused_head_forward(const BoundCall &call, int threads);  // 0: all cores

}  // namespace msj::reference
