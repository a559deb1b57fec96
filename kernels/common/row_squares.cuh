#pragma once
// Norms of whole rows whose columns lie in the tiles of several warps: squares of 16 columns at a time in a fixed tree
// over four lanes, these through shared memory and in ascending order, so that the bits do not depend on the tiles'
// shapes.

namespace msj {

template <int rows, int columns>
struct RowSquares {
  static_assert(columns % 16 == 0);
  static constexpr int groups = columns / 16;
  // If no group of a row is above it, its sum does not overflow.
  static constexpr float large = 0x1p127f / groups;
  float group[rows][groups | 1];  // odd: rows in different banks

  // Multiplies each row by 1 / max(norm, 1e-12). Part p of a warp's tiles has the rows from `row` and the columns from
  // p * part_columns + column; columns past all of them are 0. All threads of the block take part, after a barrier
  // that follows the last call.
  //
  // Where squares may overflow in the block, the rows in which they do are scaled down first and all are summed again,
  // to the same bits in the other rows. A loop, for its code's size.
  template <class Tile, int parts>
  __device__ __forceinline__ void normalize(Tile (&tile)[parts], int row, int column, int part_columns, int lane) {
    bool scaled = false, finished;
#pragma unroll 1
    do {
      float largest = 0.0f;
#pragma unroll
      for (int part = 0; part < parts; ++part)
        largest = fmaxf(largest, put(tile[part], row, (part * part_columns + column) / 16, lane));
      // The vote tells ptxas that all agree.
      finished = !__any_sync(all_lanes, __syncthreads_or(largest > large)) || scaled;
#pragma unroll
      for (int i = 0; i < Tile::rows; ++i) {
        const float squares = of_row(row + Tile::row(i, lane));
        const float factor = finished ? inverse_norm(squares) : squares == infinity ? norm_scale : 1.0f;
#pragma unroll
        for (int part = 0; part < parts; ++part)
#pragma unroll
          for (int j = 0; j < Tile::columns; ++j) tile[part].at(i, j) *= factor;
      }
      scaled = true;
      if (!finished) __syncthreads();  // every sum has been read
    } while (!finished);
  }

 private:
  // A warp's tile as the groups from `first`; its largest.
  template <class Tile>
  __device__ __forceinline__ float put(Tile& tile, int row, int first, int lane) {
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
    return largest;
  }

  __device__ __forceinline__ float of_row(int row) const {
    float sum = group[row][0];
#pragma unroll 4
    for (int g = 1; g < groups; ++g) sum += group[row][g];
    return sum;
  }
};

}  // namespace msj
