#pragma once
// Norms of 16-bit rows as they lie in a swizzled matrix of shared memory: two lanes a row, squares of the halves of each
// 64 of d in two chains, so that the bits do not depend on who sums them.

namespace msj {

template <DType type>
struct HalfSquares {
  using Element = typename Numeric<type>::Storage;

  // Adds those of row `row` of a k block: this lane's half of the block's elements.
  static __device__ __forceinline__ float add(float sum, unsigned block, int row, int half) {
#pragma unroll
    for (int unit = 0; unit < 4; ++unit)
      sum = add_squares<type>(sum,
                              ptx::load_shared_16(block + row * row_bytes + ((half * 4 + unit) ^ (row & 7)) * 16));
    return sum;
  }

  // The factor of a row from its lanes' sums. `in_memory`: the row, null where there is none; looked at when a sum has
  // overflowed. The whole warp asks.
  static __device__ __forceinline__ RowFactor factor(float squares, const Element* in_memory, long long inner_stride,
                                                     int d, int half) {
    squares += __shfl_xor_sync(all_lanes, squares, 16);
    RowFactor factor{1.0f, inverse_norm(squares)};
    if (Numeric<type>::squares_overflow && __any_sync(all_lanes, squares == infinity)) {
      float scaled = in_memory ? scaled_squares<type>(in_memory, inner_stride, d, half, 2) : 0.0f;
      scaled += __shfl_xor_sync(all_lanes, scaled, 16);
      if (squares == infinity) factor = large_norm_factor(scaled);
    }
    return factor;
  }

  // Of a query token whose k blocks are `stride` bytes apart.
  static __device__ __forceinline__ RowFactor of_query(const Args& args, const Group::Token& token, unsigned block,
                                                       int k_blocks, int column, int half) {
    float squares = 0.0f;
#pragma unroll 1
    for (int k = 0; k < k_blocks; ++k) squares = add(squares, block + k * query_block_bytes, column, half);
    const auto* row = static_cast<const Element*>(args.q.data) + token.query * args.q.stride[0] +
                      token.s * args.q.stride[1];
    return factor(squares, token.present ? row : nullptr, args.q.stride[2], int(args.size_d), half);
  }
};

// Factors of query tokens, beside the columns of a block: of an op whose `normalize` is of both sides.
template <class Block, DType type>
struct HalfQueryFactors {
  static constexpr int query_extra_bytes = sizeof(RowFactor);
  struct QueryExtras {
    RowFactor factor[feature::normalize ? block_query : 1];
  };

  static constexpr bool prepares = feature::normalize;
  static __device__ __forceinline__ void prepare_column(const Args& args, const Group::Token& token, int column,
                                                        int half, int slot, int) {
    const RowFactor factor = HalfSquares<type>::of_query(args, token, Block::query_address(slot), Block::k_blocks,
                                                         column, half);
    if (half == 0) Block::small().query_extras[slot].factor[column] = factor;
  }

  // The query token's value with its factor.
  __device__ __forceinline__ float factored(int column, Best<feature::save_argmax>& best, int first_active,
                                            int slot) const {
    if constexpr (!feature::normalize) return best.value;
    const RowFactor factor = Block::small().query_extras[slot].factor[column];
    // An infinite query element: every product is NaN, the first active token's too.
    if (factor.factor != factor.factor) best.index = first_active;
    return factor.apply(best.value);
  }
};

}  // namespace msj
