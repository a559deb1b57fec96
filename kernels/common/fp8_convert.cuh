#pragma once
// fp8 -> fp16, exact: every e4m3 and every e5m2 number, subnormals, infinities and NaN included, is an fp16 number.

namespace msj {

struct HalfPairs {
  unsigned low, high;  // elements 0, 1 and 2, 3
};

// The upper bytes of fp16 halves: e5m2 is fp16 without its last 8 mantissa bits.
__device__ __forceinline__ HalfPairs bytes_on_top(unsigned four) {
  return {__byte_perm(four, 0, 0x1404), __byte_perm(four, 0, 0x3424)};
}

// Without the instruction (before sm_89): exponent and mantissa move one bit down, which leaves 2^-8 of the number
// because the biases are 7 and 15. 0x7f, e4m3's NaN, would become 480.
__device__ __forceinline__ unsigned e4m3_by_shift(unsigned on_top) {
  constexpr unsigned two_to_8 = 0x5c005c00u;
  unsigned scaled;
  asm("mul.rn.f16x2 %0, %1, %2;"
      : "=r"(scaled)
      : "r"((on_top & 0x80008000u) | (on_top & 0x7f007f00u) >> 1), "r"(two_to_8));
  return scaled;
}

__device__ __forceinline__ unsigned nan_halves(unsigned nan_bytes, int first) {
  return (nan_bytes >> (8 * first + 7) & 1u) * 0x7fffu | (nan_bytes >> (8 * first + 15) & 1u) * 0x7fff0000u;
}

template <DType type>
__device__ __forceinline__ HalfPairs to_half(unsigned four) {
  if constexpr (type == DType::fp8_e5m2) {
    return bytes_on_top(four);
  } else if constexpr (target_arch >= 890) {
    HalfPairs pairs;
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2;\n"
        "cvt.rn.f16x2.e4m3x2 %0, low; cvt.rn.f16x2.e4m3x2 %1, high; }"
        : "=r"(pairs.low), "=r"(pairs.high)
        : "r"(four));
    return pairs;
  } else {
    const HalfPairs top = bytes_on_top(four);
    HalfPairs pairs = {e4m3_by_shift(top.low), e4m3_by_shift(top.high)};
    const unsigned nan_bytes = ((four & 0x7f7f7f7fu) + 0x01010101u) & 0x80808080u;
    if (nan_bytes != 0) {
      pairs.low |= nan_halves(nan_bytes, 0);
      pairs.high |= nan_halves(nan_bytes, 2);
    }
    return pairs;
  }
}

}  // namespace msj
