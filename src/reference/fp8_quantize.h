// fp8_quantize on the CPU. The kernel has the same bits, so these are its steps, in float32 (no float64, no fused or
// approximate operation, no flushing of subnormals):
//
//   1. magnitude = max |x| over the elements that share a scale (a token's d, or all), x exact in float32. An element
//      that is NaN has no part in it; an infinity has, as the largest finite float32. No element: 0.
//   2. scale = 1 where magnitude is 0, else max(magnitude / largest, 2^-100): one IEEE division, to nearest even;
//      `largest` is 448 for e4m3, 57,344 for e5m2.
//   3. quotient = x / scale: one IEEE division, to nearest even. It overflows for infinite x alone.
//   4. quantized = the fp8 number nearest to the quotient, of two the one with an even mantissa, subnormals included;
//      past the largest (infinities too): the largest, with its sign. A NaN is 0x7f with the sign of x. A zero keeps
//      its sign.
#pragma once

#include "base/call.h"

namespace msj::reference {

// Host tensors of any strides. Writes every element of quantized and of scales.
void fp8_quantize(const BoundCall &call);
void fp8_quantize(const BoundCall &call, int threads);  // 0: all cores

}  // namespace msj::reference
