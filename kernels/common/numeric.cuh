#pragma once
// Element types without toolkit headers: how each is stored and how it widens to float.

namespace msj {

constexpr float infinity = __builtin_bit_cast(float, 0x7f800000);
constexpr unsigned all_lanes = 0xffffffffu;

__host__ __device__ constexpr int divide_up(int a, int b) { return (a + b - 1) / b; }
__host__ __device__ constexpr int round_up(int a, int b) { return divide_up(a, b) * b; }

template <DType type>
struct Numeric;

template <>
struct Numeric<DType::bf16> {
  using Storage = unsigned short;
  static constexpr bool squares_overflow = true;  // x * x may pass the largest float
  static __device__ __forceinline__ float widen(Storage x) { return __uint_as_float(unsigned(x) << 16); }
  static __device__ __forceinline__ float low(unsigned pair) { return __uint_as_float(pair << 16); }
  static __device__ __forceinline__ float high(unsigned pair) { return __uint_as_float(pair & 0xffff0000u); }
};

template <>
struct Numeric<DType::f16> {
  using Storage = unsigned short;
  static constexpr bool squares_overflow = false;
  static __device__ __forceinline__ float widen(Storage x) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x));
    return f;
  }
  static __device__ __forceinline__ float low(unsigned pair) { return widen(Storage(pair & 0xffffu)); }
  static __device__ __forceinline__ float high(unsigned pair) { return widen(Storage(pair >> 16)); }
};

template <>
struct Numeric<DType::fp8_e4m3> {
  using Storage = unsigned char;
};

template <>
struct Numeric<DType::fp8_e5m2> {
  using Storage = unsigned char;
};

template <>
struct Numeric<DType::u8> {
  using Storage = unsigned char;
};

template <>
struct Numeric<DType::f32> {
  using Storage = float;
  static constexpr bool squares_overflow = true;
  static __device__ __forceinline__ float widen(Storage x) { return x; }
};

// `sum` plus the squares of one 32-bit word's two elements, in ascending order.
template <DType type>
__device__ __forceinline__ float add_squares(float sum, unsigned word) {
  const float x = Numeric<type>::low(word), y = Numeric<type>::high(word);
  return fmaf(y, y, fmaf(x, x, sum));
}

// `sum` plus the squares of 16 bytes of elements.
template <DType type>
__device__ __forceinline__ float add_squares(float sum, uint4 v) {
  if constexpr (sizeof(typename Numeric<type>::Storage) == 4) {
    const float x = __uint_as_float(v.x), y = __uint_as_float(v.y), z = __uint_as_float(v.z), w = __uint_as_float(v.w);
    return sum + fmaf(w, w, fmaf(z, z, fmaf(y, y, x * x)));  // four at a time: a short chain, for float32's accuracy
  } else {
    sum = add_squares<type>(add_squares<type>(sum, v.x), v.y);
    return add_squares<type>(add_squares<type>(sum, v.z), v.w);
  }
}

// Each sum over the `width` lanes of an aligned group, the same bits in each of them.
template <int width, int count>
__device__ __forceinline__ void lanes_sums(float (&x)[count]) {
#pragma unroll
  for (int mask = 1; mask < width; mask *= 2)
#pragma unroll
    for (int i = 0; i < count; ++i) x[i] += __shfl_xor_sync(all_lanes, x[i], mask);
}
template <int width>
__device__ __forceinline__ float lanes_sum(float x) {
  float sum[1] = {x};
  lanes_sums<width>(sum);
  return sum[0];
}

}  // namespace msj
