#pragma once
// From float32 back to an element type, to nearest even: what is too large becomes infinite, a NaN stays one.

namespace msj::ptx {

// `low` in the lower half.
__device__ __forceinline__ unsigned pair_bf16(float low, float high) {
  unsigned pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

__device__ __forceinline__ unsigned pair_f16(float low, float high) {
  unsigned pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

}  // namespace msj::ptx

namespace msj {

// 16 columns of a warp's tile, from the thread's column `first`, as elements in shared rows; `address`: of the tile's
// row 0 and the first of the 16 columns.
template <DType type, class Tile>
__device__ __forceinline__ void store_columns_16(Tile& tile, int first, unsigned address, int pitch, int lane) {
  constexpr int element = sizeof(typename Numeric<type>::Storage), step = 4 / element;
#pragma unroll
  for (int i = 0; i < Tile::rows; ++i)
#pragma unroll
    for (int j = 0; j < 4; j += step) {
      const float x = tile.at(i, first + j);
      unsigned word;
      if constexpr (type == DType::f32) word = __float_as_uint(x);
      else if constexpr (type == DType::bf16) word = ptx::pair_bf16(x, tile.at(i, first + j + 1));
      else word = ptx::pair_f16(x, tile.at(i, first + j + 1));
      ptx::store_shared_4(address + Tile::row(i, lane) * pitch + Tile::column(j, lane) * element, word);
    }
}

}  // namespace msj
