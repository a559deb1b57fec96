// residual_norms, portable path: 1 / max(|centroid + weights|, 1e-12) of each token's row, sm_80 and newer. Eight lanes a
// token, each 8 features of every 64: 16-byte reads of the centroid where it is aligned, two tokens at a time so that
// one's code is on its way while the other's row is.
//
//   all tokens:      warps take four tokens after another
//   of documents:    a block a document, its warps likewise; two documents that overlap write the same values
//
// Bits: each lane's features ascend, a fixed tree over eight lanes. Squares that overflow are summed again of elements
// scaled down, before centroid and weight meet: their sum may pass float32's range too.
#include "common/ptx.cuh"
#include "common/numeric.cuh"
#include "common/residual.cuh"
#include "common/norm.cuh"

namespace msj {

constexpr DType type = dtype::centroids;
constexpr int threads = 32 * config::warps;
constexpr int lanes = 8, tokens_of_warp = 32 / lanes;
constexpr bool whole_words = aligned16 && static_size::d % 64 == 0;

struct Norms {
  const Args& args;
  const Weights& weights;

  // Features first ... first + 7 of a row, 0 past d. Their bits are nbits bytes.
  __device__ __forceinline__ void load_8(float (&x)[8], const Centroid* centroid, const unsigned char* bits,
                                         int first) const {
    const int d = int(args.size_d);
    unsigned word[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < nbits; ++i)
      if (first * nbits / 8 + i < residual_bytes_of(d))
        word[i / 4] |= unsigned(bits[(first * nbits / 8 + i) * args.residuals.stride[1]]) << (i % 4 * 8);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      x[i] = first + i < d ? Numeric<type>::widen(centroid[(first + i) * args.centroids.stride[1]]) + weights.of(word, i)
                           : 0.0f;
  }

  // The same where all of it is there and aligned.
  template <DType type>
  __device__ __forceinline__ void load_8_words(float (&x)[8], const Centroid* centroid, const unsigned char* bits,
                                               int first) const {
    unsigned word[2] = {0, 0};
    const unsigned char* source = bits + first / 8 * nbits;
    if constexpr (nbits == 1) word[0] = *source;
    else if constexpr (nbits == 2) word[0] = *reinterpret_cast<const unsigned short*>(source);
    else if constexpr (nbits == 4) word[0] = *reinterpret_cast<const unsigned*>(source);
    else {
      const uint2 two = *reinterpret_cast<const uint2*>(source);
      word[0] = two.x, word[1] = two.y;
    }
    const uint4 v = *reinterpret_cast<const uint4*>(centroid + first);
    if constexpr (type == DType::f32) {
      const uint4 w = *reinterpret_cast<const uint4*>(centroid + first + 4);
      const unsigned all[8] = {v.x, v.y, v.z, v.w, w.x, w.y, w.z, w.w};
#pragma unroll
      for (int i = 0; i < 8; ++i) x[i] = __uint_as_float(all[i]) + weights.of(word, i);
    } else {
      const unsigned all[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int i = 0; i < 8; ++i)
        x[i] = (i % 2 == 0 ? Numeric<type>::low(all[i / 2]) : Numeric<type>::high(all[i / 2])) + weights.of(word, i);
    }
  }

  // This lane's share of the squares of a row's elements.
  template <bool words>
  __device__ __forceinline__ float squares(const Centroid* centroid, const unsigned char* bits, int lane) const {
    float sum = 0.0f;
#pragma unroll(words && static_size::d <= 256 ? static_size::d / 64 : 1)
    for (int first = lane * 8; first < static_size::d; first += lanes * 8) {
      float x[8];
      if constexpr (words) load_8_words<type>(x, centroid, bits, first);
      else load_8(x, centroid, bits, first);
#pragma unroll
      for (int i = 0; i < 8; ++i) sum = fmaf(x[i], x[i], sum);
    }
    return sum;
  }

  // The same of the elements scaled down.
  __device__ __forceinline__ float scaled_squares(const Centroid* centroid, const unsigned char* bits, int lane) const {
    float sum = 0.0f;
#pragma unroll 1
    for (int k = lane; k < args.size_d; k += lanes) {
      const int at = k * nbits;
      const unsigned field = bits[at / 8 * args.residuals.stride[1]] >> field_shift(at % 8, nbits) & (Weights::fields - 1);
      const float x = Numeric<type>::widen(centroid[k * args.centroids.stride[1]]);
      const float y = fmaf(x, norm_scale, weights.weight[field] * norm_scale);
      sum = fmaf(y, y, sum);
    }
    return sum;
  }

  // `token` of the index and whether there is one; all lanes of a warp call it.
  __device__ __forceinline__ void write(long long token, bool present, int code, int lane) const {
    code = present ? checked_code(args, code) : -1;
    const auto* centroid = static_cast<const Centroid*>(args.centroids.data) + code * args.centroids.stride[0];
    const auto* bits = static_cast<const unsigned char*>(args.residuals.data) + token * args.residuals.stride[0];
    const bool words = whole_words && args.size_d == static_size::d;
    float sum = 0.0f;
    if (code >= 0)
      sum = words ? squares<whole_words>(centroid, bits, lane) : squares<false>(centroid, bits, lane);
    sum = lanes_sum<lanes>(sum);
    float norm = inverse_norm(sum);
    if (__any_sync(all_lanes, sum == infinity)) {
      const float scaled = lanes_sum<lanes>(code >= 0 ? scaled_squares(centroid, bits, lane) : 0.0f);
      if (sum == infinity) norm = scaled == infinity ? 0.0f : inverse_norm(scaled) * norm_scale;
    }
    if (code < 0 || sum != sum) norm = __uint_as_float(0x7fffffffu);
    if (present && lane == 0) static_cast<float*>(args.inv_norms.data)[token * args.inv_norms.stride[0]] = norm;
  }

  // Tokens first ... first + count - 1, of which this warp takes every warps-th four.
  __device__ __forceinline__ void write_all(long long first, long long count, long long warp, long long warps) const {
    const auto* codes = static_cast<const int*>(args.codes.data);
    const int lane = threadIdx.x % lanes, place = threadIdx.x % 32 / lanes;
    const auto code_at = [&](long long at) { return at < count ? codes[(first + at) * args.codes.stride[0]] : -1; };
    long long at = warp * tokens_of_warp + place;
    int code = code_at(at);
#pragma unroll 1
    for (long long begin = warp * tokens_of_warp; begin < count; begin += warps * tokens_of_warp) {
      const long long next = at + warps * tokens_of_warp;
      const int next_code = code_at(next);
      write(first + at, at < count, code, lane);
      at = next, code = next_code;
    }
  }

  static __device__ __forceinline__ int residual_bytes_of(int d) { return (d * nbits + 7) / 8; }
};

}  // namespace msj

extern "C" __global__ void __launch_bounds__(msj::threads, msj::config::blocks_per_multiprocessor) residual_norms(const __grid_constant__ msj::Args args) {
  using namespace msj;
  __shared__ Weights weights;
  weights.fill(args, threads);
  __syncthreads();
  const Norms norms{args, weights};
  const int warp = threadIdx.x / 32;
  if (args.d_starts.data == nullptr && args.d_starts.stride[0] == 0) {  // absent; a present one without elements has a stride
    norms.write_all(0, args.size_N, (long long)blockIdx.x * config::warps + warp, (long long)gridDim.x * config::warps);
    return;
  }
#pragma unroll 1
  for (long long document = blockIdx.x; document < args.size_Nd; document += gridDim.x) {
    const long long start = static_cast<const long long*>(args.d_starts.data)[document * args.d_starts.stride[0]];
    const int length = static_cast<const int*>(args.d_lengths.data)[document * args.d_lengths.stride[0]];
    if (length > 0 && start >= 0 && start <= args.size_N - length) norms.write_all(start, length, warp, config::warps);
  }
}
