// fp8_quantize, portable path: quantized = x / scale to the nearest fp8, scale = max |x| / largest fp8. Sm_80 and newer.
//
//   per token:        a warp takes a token: max over d (registers, then lanes) -> scale -> the token again (from L1)
//   one for all:      fp8_quantize_maxima leaves each block's max in the workspace; fp8_quantize reads them all first
//
// Bits: the max is exact, the scale and x / scale are single IEEE divisions, the rounding to fp8 is done on integers: the
// same on every architecture, and on the CPU (src/reference/fp8_quantize).
#include "common/numeric.cuh"

namespace msj {

constexpr DType type = dtype::x;
constexpr bool is_e4m3 = dtype::quantized == DType::fp8_e4m3;
using Element = Numeric<type>::Storage;

constexpr int threads = 32 * config::warps;
constexpr float largest = is_e4m3 ? 448.0f : 57344.0f;
constexpr float largest_float = __builtin_bit_cast(float, 0x7f7fffff);
constexpr float least_scale = 0x1p-100f;

// NaN has no part in a maximum.
__device__ __forceinline__ float max_magnitude(float largest_so_far, float x) { return fmaxf(largest_so_far, fabsf(x)); }

__device__ __forceinline__ float lanes_max(float x) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) x = fmaxf(x, __shfl_xor_sync(all_lanes, x, mask));
  return x;
}

__device__ __forceinline__ float scale_of(float magnitude) {
  if (magnitude == 0.0f) return 1.0f;
  return fmaxf(__fdiv_rn(fminf(magnitude, largest_float), largest), least_scale);
}

// To the nearest, ties to even, saturated; a NaN has no sign, as conversions to float32 drop it.
__device__ __forceinline__ unsigned encode(float x, float scale) {
  constexpr int mantissa_bits = is_e4m3 ? 3 : 2, bias = is_e4m3 ? 7 : 15, dropped = 23 - mantissa_bits;
  if (x != x) return 0x7fu;
  const unsigned sign = __float_as_uint(x) >> 31 << 7;
  const float magnitude = fminf(fabsf(__fdiv_rn(x, scale)), largest);
  if (magnitude < (is_e4m3 ? 0x1p-6f : 0x1p-14f))  // subnormal: a multiple of the smallest, 8 or 4 of them a normal
    return sign | unsigned(__float2int_rn(magnitude * (is_e4m3 ? 0x1p9f : 0x1p16f)));
  const unsigned bits = __float_as_uint(magnitude);
  const unsigned rounded = (bits + (1u << (dropped - 1)) - 1 + (bits >> dropped & 1u)) >> dropped;
  return sign | (rounded - (unsigned(127 - bias) << mantissa_bits));
}

// Token `index` of all: n and l.
struct TokenRow {
  long long n, l;
  __device__ __forceinline__ TokenRow(const Args& args, long long index)
      : n(index / args.size_L), l(index - n * args.size_L) {}
  __device__ __forceinline__ const Element* source(const Args& args) const {
    return static_cast<const Element*>(args.x.data) + n * args.x.stride[0] + l * args.x.stride[1];
  }
  __device__ __forceinline__ unsigned char* target(const Args& args) const {
    return static_cast<unsigned char*>(args.quantized.data) + n * args.quantized.stride[0] + l * args.quantized.stride[1];
  }
};

constexpr int unit = 16 / sizeof(Element);  // elements in 16 bytes

template <DType type>
__device__ __forceinline__ float element(uint4 v, int i) {
  const unsigned word[4] = {v.x, v.y, v.z, v.w};
  if constexpr (type == DType::f32) return __uint_as_float(word[i]);
  else return i % 2 == 0 ? Numeric<type>::low(word[i / 2]) : Numeric<type>::high(word[i / 2]);
}

// A lane's share of a row's max: 16 bytes at a time where they are aligned and whole.
__device__ __forceinline__ float row_magnitude(const Args& args, const Element* row, int lane) {
  const int d = int(args.size_d);
  float magnitude = 0.0f;
  int whole = 0;
  if constexpr (aligned16) {
    whole = d / unit * unit;
#pragma unroll 2
    for (int k = lane * unit; k < whole; k += 32 * unit) {
      const uint4 v = *reinterpret_cast<const uint4*>(row + k);
#pragma unroll
      for (int i = 0; i < unit; ++i) magnitude = max_magnitude(magnitude, element<type>(v, i));
    }
  }
#pragma unroll 1
  for (int k = whole + lane; k < d; k += 32)
    magnitude = max_magnitude(magnitude, Numeric<type>::widen(row[k * args.x.stride[2]]));
  return magnitude;
}

__device__ __forceinline__ void quantize_row(const Args& args, const Element* row, unsigned char* target, float scale,
                                             int lane) {
  const int d = int(args.size_d);
  const long long step = args.quantized.stride[2];
  int whole = 0;
  if (aligned16 && step == 1 && reinterpret_cast<unsigned long long>(target) % unit == 0) {
    whole = d / unit * unit;
#pragma unroll 1
    for (int k = lane * unit; k < whole; k += 32 * unit) {
      const uint4 v = *reinterpret_cast<const uint4*>(row + k);
      unsigned word[unit / 4] = {};
#pragma unroll
      for (int i = 0; i < unit; ++i) word[i / 4] |= encode(element<type>(v, i), scale) << (i % 4 * 8);
      if constexpr (unit == 4) *reinterpret_cast<unsigned*>(target + k) = word[0];
      else *reinterpret_cast<uint2*>(target + k) = make_uint2(word[0], word[unit / 4 - 1]);
    }
  }
#pragma unroll 1
  for (int k = whole + lane; k < d; k += 32)
    target[k * step] = static_cast<unsigned char>(encode(Numeric<type>::widen(row[k * args.x.stride[2]]), scale));
}

// The max over `values(i)` of the block's threads, in all of them.
__device__ __forceinline__ float block_max(float x) {
  __shared__ float of_warp[32];
  x = lanes_max(x);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = x;
  __syncthreads();
  float most = 0.0f;
  for (int w = 0; w < config::warps; ++w) most = fmaxf(most, of_warp[w]);
  return most;
}

}  // namespace msj

extern "C" __global__ void __launch_bounds__(msj::threads)
    fp8_quantize_maxima(const __grid_constant__ msj::Args args) {
  using namespace msj;
  const long long rows = args.size_N * args.size_L, stride = (long long)gridDim.x * config::warps;
  float magnitude = 0.0f;
#pragma unroll 1
  for (long long row = (long long)blockIdx.x * config::warps + threadIdx.x / 32; row < rows; row += stride)
    magnitude = fmaxf(magnitude, row_magnitude(args, TokenRow(args, row).source(args), threadIdx.x % 32));
  magnitude = block_max(magnitude);
  if (threadIdx.x == 0) static_cast<float*>(args.workspace)[blockIdx.x] = magnitude;
}

extern "C" __global__ void __launch_bounds__(msj::threads) fp8_quantize(const __grid_constant__ msj::Args args) {
  using namespace msj;
  const int lane = threadIdx.x % 32;
  const long long rows = args.size_N * args.size_L, stride = (long long)gridDim.x * config::warps;
  float* scales = static_cast<float*>(args.scales.data);
  float scale = 1.0f;
  if constexpr (!feature::per_token) {
    float magnitude = 0.0f;
    for (int b = threadIdx.x; b < gridDim.x; b += threads)
      magnitude = fmaxf(magnitude, static_cast<const float*>(args.workspace)[b]);
    scale = scale_of(block_max(magnitude));
    if (blockIdx.x == 0 && threadIdx.x == 0) scales[0] = scale;
  }
#pragma unroll 1
  for (long long index = (long long)blockIdx.x * config::warps + threadIdx.x / 32; index < rows; index += stride) {
    const TokenRow token(args, index);
    const Element* row = token.source(args);
    if constexpr (feature::per_token) {
      scale = scale_of(lanes_max(row_magnitude(args, row, lane)));
      if (lane == 0) scales[token.n * args.scales.stride[0] + token.l * args.scales.stride[1]] = scale;
    }
    quantize_row(args, row, token.target(args), scale, lane);
  }
}
