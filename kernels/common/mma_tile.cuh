#pragma once
// One warp's tile of A x B^T on the tensor cores (mma.sync m16n8k16, float32 accumulators), A and B in padded shared
// rows with k innermost. Every product adds its k steps of 16 in ascending order to one accumulator, so its bits do
// not depend on the tile's shape.
//
//            columns: 8 per mma          lane = 4 * g + c
//          +--------------------+        thread's row i     : (i / 2) * 16 + (i % 2) * 8 + g
//   rows   | c0 c1 at row g     |        thread's column j  : (j / 2) * 8 + 2 * c + j % 2
//   16 per | c2 c3 at row g + 8 |        A fragment of row i: k = 2c, 2c+1 and 2c+8, 2c+9 of each 16
//   mma    +--------------------+

namespace msj {

template <DType type, int tile_rows, int tile_columns, int width, int pitch_a, int pitch_b>
struct MmaTile {
  static_assert(tile_rows % 16 == 0 && tile_columns % 16 == 0 && width % 16 == 0);
  static constexpr int row_steps = tile_rows / 16, column_steps = tile_columns / 8, k_steps = width / 16;
  static constexpr int rows = row_steps * 2, columns = column_steps * 2;  // of one thread

  float accumulator[row_steps][column_steps][4];
  float squares[rows];  // this lane's share of the squares of A's rows

  static __device__ __forceinline__ int row(int i, int lane) { return i * 8 + lane / 4; }
  static __device__ __forceinline__ int column(int j, int lane) { return j / 2 * 8 + lane % 4 * 2 + j % 2; }
  __device__ __forceinline__ float& at(int i, int j) { return accumulator[i / 2][j / 2][i % 2 * 2 + j % 2]; }
  __device__ __forceinline__ float row_squares(int i) const { return lanes_sum<4>(squares[i]); }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      squares[i] = 0.0f;
#pragma unroll
      for (int j = 0; j < columns; ++j) at(i, j) = 0.0f;
    }
  }

  // Adds `width` more k. a and b: addresses of the warp's first rows. While products run, the next two columns of B
  // and the next k step of A are on their way from shared memory; a tall tile, which has no registers for two k steps
  // of A, reads a row fragment again as soon as its last product is issued.
  template <bool with_squares>
  __device__ __forceinline__ void multiply(unsigned a, unsigned b, int lane) {
    constexpr int pairs = column_steps / 2;  // of mma columns: one ldmatrix gives {k 0-7, k 8-15} of two of them
    constexpr int buffers = row_steps < 4 ? 2 : 1;
    a += lane % 16 * pitch_a + lane / 16 * 16;
    b += (lane % 8 + lane / 16 * 8) * pitch_b + lane / 8 % 2 * 16;
    unsigned row_fragment[buffers][row_steps][4], column_fragment[2][4];
    load_rows(row_fragment[0], a);
    ptx::load_matrices(column_fragment[0], b);
#pragma unroll
    for (int k = 0; k < k_steps; ++k) {
      auto& rows_now = row_fragment[k % buffers];
      if (buffers == 2 && k + 1 < k_steps) load_rows(row_fragment[(k + 1) % buffers], a + (k + 1) * 32);
      if constexpr (with_squares) add_row_squares(rows_now);
#pragma unroll
      for (int pair = 0; pair < pairs; ++pair) {
        const int flat = k * pairs + pair, next = flat + 1;
        if (next < k_steps * pairs)
          ptx::load_matrices(column_fragment[next % 2], b + next % pairs * 16 * pitch_b + next / pairs * 32);
        const unsigned(&column)[4] = column_fragment[flat % 2];
#pragma unroll
        for (int m = 0; m < row_steps; ++m) {
          multiply_16x8(accumulator[m][2 * pair], rows_now[m], column[0], column[1]);
          multiply_16x8(accumulator[m][2 * pair + 1], rows_now[m], column[2], column[3]);
          if (buffers == 1 && pair + 1 == pairs && k + 1 < k_steps)
            ptx::load_matrices(rows_now[m], a + m * 16 * pitch_a + (k + 1) * 32);
        }
      }
    }
  }

 private:
  static __device__ __forceinline__ void multiply_16x8(float (&c)[4], const unsigned (&a)[4], unsigned b0,
                                                       unsigned b1) {
    if constexpr (type == DType::bf16) ptx::mma_bf16(c, a, b0, b1);
    else ptx::mma_f16(c, a, b0, b1);
  }

  static __device__ __forceinline__ void load_rows(unsigned (&fragment)[row_steps][4], unsigned a) {
#pragma unroll
    for (int m = 0; m < row_steps; ++m) ptx::load_matrices(fragment[m], a + m * 16 * pitch_a);
  }

  __device__ __forceinline__ void add_row_squares(const unsigned (&fragment)[row_steps][4]) {
#pragma unroll
    for (int i = 0; i < rows; ++i)
      squares[i] = add_squares<type>(add_squares<type>(squares[i], fragment[i / 2][i % 2]), fragment[i / 2][i % 2 + 2]);
  }
};

}  // namespace msj
