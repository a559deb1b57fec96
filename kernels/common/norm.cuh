#pragma once
// x / max(|x|, 1e-12) as a float32 factor on the dot product. A sum of squares that overflows is summed again from
// global memory with the elements scaled down; the product is then scaled down too before its factor, so that neither
// leaves the range of normal floats.

namespace msj {

struct RowFactor {
  float scale, factor;  // (dot * scale) * factor

  __device__ __forceinline__ float apply(float dot) const { return dot * scale * factor; }
};

constexpr float norm_scale = 0x1p-80f, dot_scale = 0x1p-40f;

// 1 / max(sqrt(squares), 1e-12) to an ulp: an approximation and one Newton step, a fraction of the code of sqrt and
// division. A NaN gives some number; the product it is for is NaN itself.
__device__ __forceinline__ float inverse_norm(float squares) {
  squares = fmaxf(squares, 1e-24f);
  const float y = ptx::reciprocal_root(squares);
  return fmaf(y, fmaf(-0.5f * squares * y, y, 0.5f), y);
}

// `squares` were of elements times norm_scale.
__device__ __forceinline__ RowFactor large_norm_factor(float squares) {
  return {dot_scale, inverse_norm(squares) * (norm_scale / dot_scale)};
}

// One lane's share of a row's scaled squares: elements first, first + step, ... below d.
template <DType type>
__device__ __forceinline__ float scaled_squares(const typename Numeric<type>::Storage* row, long long inner_stride,
                                                int d, int first, int step) {
  float sum = 0.0f;
#pragma unroll 1
  for (int k = first; k < d; k += step) {
    const float x = Numeric<type>::widen(row[k * inner_stride]) * norm_scale;
    sum = fmaf(x, x, sum);
  }
  return sum;
}

// Multiplies each row of a warp's tile by its inverse norm. `row_pointer(r)`: the row's elements in global memory, null
// where there is no row; only looked at when squares overflowed.
template <DType type, class Tile, class RowPointer>
__device__ __forceinline__ void normalize_rows(Tile& tile, int tile_rows, RowPointer row_pointer,
                                               long long inner_stride, int d, int lane) {
  RowFactor factor[Tile::rows];
  unsigned overflowed = 0;  // a bit per row of the thread
#pragma unroll
  for (int i = 0; i < Tile::rows; ++i) {
    const float squares = tile.row_squares(i);
    factor[i] = {1.0f, inverse_norm(squares)};
    if (squares == infinity) overflowed |= 1u << i;
  }
  const bool rescale = Numeric<type>::squares_overflow && __any_sync(all_lanes, overflowed != 0);
  if (rescale) {
#pragma unroll 1
    for (int r = 0; r < tile_rows; ++r) {
      const auto* row = row_pointer(r);
      const float squares = lanes_sum<32>(row ? scaled_squares<type>(row, inner_stride, d, lane, 32) : 0.0f);
#pragma unroll
      for (int i = 0; i < Tile::rows; ++i)
        if (Tile::row(i, lane) == r && (overflowed >> i & 1)) factor[i] = large_norm_factor(squares);
    }
  }
#pragma unroll 1
  for (int pass = rescale ? 0 : 1; pass < 2; ++pass) {  // scales, if any is not 1; then factors
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i) {
      const float f = pass == 0 ? factor[i].scale : factor[i].factor;
#pragma unroll
      for (int j = 0; j < Tile::columns; ++j) tile.at(i, j) *= f;
    }
  }
}

}  // namespace msj
