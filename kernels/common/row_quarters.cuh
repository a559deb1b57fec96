#pragma once
// Rows of an index as fragments of tensor-core products, for 32 query tokens at a time. Which features of a k step are
// whose does not matter as long as A and B agree: of the four lanes 4 g + c that share a row, lane c has the c-th
// quarter of its bits, in one piece, and of Q's rows the same quarter. A k step takes 4 features of each lane.

namespace msj {

static_assert(dtype::q == dtype::centroids && dtype::q != DType::f32);
constexpr DType type = dtype::q;
using Element = Numeric<type>::Storage;

constexpr int columns = 32;  // query tokens of a group
using Group = QueryGroup<columns>;

// Quarters of whole words, and their k steps.
template <int d>
constexpr int quarter_words = divide_up(residual_bytes(d), 16);
template <int d>
constexpr int quarter_steps = quarter_words<d> * 8 / nbits;

// Q's 4 features of a k step lie as two pairs: in the fragment, its lower 8 features and its upper ones. An order says
// in which words, of all steps rounded up to whole blocks of 4.
struct QueryFragments {
  // As A of mma.sync, [step][columns / 16][lane] of 16 bytes. Words of the pairs of lane 4 g + c of token 8 n + g.
  static __device__ __forceinline__ void places(int (&at)[2], int step, int n, int lane) {
    at[0] = ((step * 2 + n / 2) * 32 + lane) * 4 + n % 2, at[1] = at[0] + 2;
  }
  // T's columns in the order of the results, 4 side by side: tokens g, g + 8, g + 16, g + 24. sums: of 8 tokens each,
  // row i's two that a lane of Products has.
  static __device__ __forceinline__ void store_row(float* row, const float (&sums)[4][4], int i, int c) {
#pragma unroll
    for (int j = 0; j < 2; ++j)
      reinterpret_cast<float4*>(row)[c * 2 + j] =
          make_float4(sums[0][2 * i + j], sums[1][2 * i + j], sums[2][2 * i + j], sums[3][2 * i + j]);
  }
};

// As B of wgmma: rows of 64 features under the 128-byte swizzle, a block of all 32 tokens after the other.
struct QuerySwizzle {
  static __device__ __forceinline__ void places(int (&at)[2], int step, int n, int lane) {
    const int row = n * 8 + lane / 4;
#pragma unroll
    for (int half = 0; half < 2; ++half)
      at[half] = step / 4 * (columns * 32) + row * 32 + ((step % 4 * 2 + half) ^ row % 8) * 4 + lane % 4;
  }
  // In their own order.
  static __device__ __forceinline__ void store_row(float* row, const float (&sums)[4][4], int i, int c) {
#pragma unroll
    for (int n = 0; n < 4; ++n)
      *reinterpret_cast<float2*>(row + n * 8 + c * 2) = make_float2(sums[n][2 * i], sums[n][2 * i + 1]);
  }
};

__device__ __forceinline__ bool has_infinity(unsigned pair) {
  constexpr unsigned magnitude = type == DType::bf16 ? 0x7f80u : 0x7c00u;
  return (pair & 0x7fffu) == magnitude || (pair >> 16 & 0x7fffu) == magnitude;
}

// A warp: query tokens 8 n ... of a chunk, their pairs to store(word, pair). True: this lane has seen an infinity.
template <class Order, class Store>
__device__ __forceinline__ bool reorder_queries(const Args& args, const Group& group, int chunk, int n, int lane,
                                                Store store) {
  constexpr int steps = quarter_steps<static_size::d>;
  const Element* row = QueryRow<Element, columns>{args, group, chunk}(n * 8 + lane / 4);
  bool is_infinite = false;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    const int k = lane % 4 * 4 * steps + 4 * step;
    const uint4 v =
        gather_16<Element>(row + k * args.q.stride[2], args.q.stride[2], row ? min(int(args.size_d) - k, 4) : 0);
    is_infinite |= has_infinity(v.x) || has_infinity(v.y);
    int at[2];
    Order::places(at, step, n, lane);
    store(at[0], v.x), store(at[1], v.y);
  }
  return is_infinite;
}

}  // namespace msj
