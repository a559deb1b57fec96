#pragma once
// Rows of an index as fragments of tensor-core products. Which features of a k step are whose does not matter as long
// as A and B agree: of the four lanes 4 g + c that share a row, lane c has the c-th quarter of its bits, in one piece,
// and of Q's rows the same quarter. A k step takes 4 features of each lane, as two pairs: in the fragment, its lower 8
// features and its upper ones.
//
// An order says where Q's pairs of a chunk lie, in all steps rounded up to whole blocks of 4:
//   columns                             query tokens
//   feature(step, i)                    of a quarter, the i-th of 4
//   places(at, step, n, lane)           words of the two pairs of lane 4 g + c of token 8 n + g

namespace msj {

static_assert(dtype::q == dtype::centroids && dtype::q != DType::f32);
constexpr DType type = dtype::q;
using Element = Numeric<type>::Storage;

// Quarters of whole words, and their k steps.
template <int d>
constexpr int quarter_words = divide_up(residual_bytes(d), 16);
template <int d>
constexpr int quarter_steps = quarter_words<d> * 8 / nbits;

// Rows of 64 features under the 128-byte swizzle, as B of wgmma. by_nibbles: as NibbleWeights takes a word's features.
template <int block_query, bool by_nibbles>
struct QuerySwizzle {
  static constexpr int columns = block_query;

  static __device__ __forceinline__ int feature(int step, int i) {
    if constexpr (!by_nibbles) return 4 * step + i;
    constexpr int word_steps = 8 / nbits, word_features = 32 / nbits;
    const int within = step % word_steps, bit = within % 2 * 16 + i * 4 + within / 2 * nbits;
    const int place = bit % 8, of_byte = feature::lsb_first ? place : 8 - nbits - place;
    return step / word_steps * word_features + bit / 8 * (8 / nbits) + of_byte / nbits;
  }
  static __device__ __forceinline__ void places(int (&at)[2], int step, int n, int lane) {
    const int row = n * 8 + lane / 4;
#pragma unroll
    for (int half = 0; half < 2; ++half)
      at[half] = step / 4 * (columns * 32) + row * 32 + ((step % 4 * 2 + half) ^ row % 8) * 4 + lane % 4;
  }
};

__device__ __forceinline__ bool has_infinity(unsigned pair) {
  constexpr unsigned magnitude = type == DType::bf16 ? 0x7f80u : 0x7c00u;
  return (pair & 0x7fffu) == magnitude || (pair >> 16 & 0x7fffu) == magnitude;
}

// A warp: query tokens 8 n ... of a chunk, their pairs to store(word, pair). True: this lane has seen an infinity.
template <class Order, class Store>
__device__ __forceinline__ bool reorder_queries(const Args& args, const QueryGroup<Order::columns>& group, int chunk,
                                                int n, int lane, Store store) {
  constexpr int steps = quarter_steps<static_size::d>;
  const Element* row = QueryRow<Element, Order::columns>{args, group, chunk}(n * 8 + lane / 4);
  bool is_infinite = false;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    unsigned element[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int k = lane % 4 * 4 * steps + Order::feature(step, i);
      element[i] = row != nullptr && k < int(args.size_d) ? unsigned(row[k * args.q.stride[2]]) : 0u;
    }
    const unsigned lower = element[0] | element[1] << 16, upper = element[2] | element[3] << 16;
    is_infinite |= has_infinity(lower) || has_infinity(upper);
    int at[2];
    Order::places(at, step, n, lane);
    store(at[0], lower), store(at[1], upper);
  }
  return is_infinite;
}

}  // namespace msj
