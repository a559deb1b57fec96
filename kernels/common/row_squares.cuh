#pragma once
// Squares of whole rows whose columns lie in the tiles of several warps: 16 columns at a time in a fixed tree over four
// lanes, these through shared memory and in ascending order, so that the bits do not depend on the tiles' shapes.

namespace msj {

template <int rows, int columns>
struct RowSquares {
  static_assert(columns % 16 == 0);
  static constexpr int groups = columns / 16;
  // If no group of a row is above it, its sum does not overflow.
  static constexpr float large = 0x1p127f / groups;
  float group[rows][groups | 1];  // odd: rows in different banks

  // A warp's tile as the rows from `row` and the groups from `first`. Whether a group is large.
  template <class Tile>
  __device__ __forceinline__ bool put(Tile& tile, int row, int first, int lane) {
    float largest = 0.0f;
#pragma unroll
    for (int g = 0; g < Tile::columns / 4; ++g)
#pragma unroll
      for (int i = 0; i < Tile::rows; ++i) {
        float sum = 0.0f;
#pragma unroll
        for (int j = 0; j < 4; ++j) sum = fmaf(tile.at(i, 4 * g + j), tile.at(i, 4 * g + j), sum);
        sum = lanes_sum<4>(sum);
        largest = fmaxf(largest, sum);
        if (lane % 4 == 0 && first + g < groups) group[row + Tile::row(i, lane)][first + g] = sum;
      }
    return largest > large;
  }

  __device__ __forceinline__ float of_row(int row) const {
    float sum = group[row][0];
#pragma unroll 4
    for (int g = 1; g < groups; ++g) sum += group[row][g];
    return sum;
  }
};

}  // namespace msj
