#pragma once
// One warp's tile of A x B^T in true float32: the interface of MmaTile on ordinary FMA units, a register tile per
// thread. k ascends in one running sum that is folded into a total every 32 k: the error grows with 32 + k / 32
// instead of with k, and the bits depend on k alone.
//
//   lane = 4 * g + c   thread's row i: 8 * i + g   thread's column j: 4 * j + c
//   16-byte reads: 8 rows of A (a bank group each), 4 rows of B; lanes that share a row share the word.

namespace msj {

template <DType type, int tile_rows, int tile_columns, int width, int pitch_a, int pitch_b>
struct FmaTile {
  static_assert(type == DType::f32 && tile_rows % 8 == 0 && tile_columns % 4 == 0 && width % 16 == 0);
  static constexpr int rows = tile_rows / 8, columns = tile_columns / 4;  // of one thread
  static constexpr int fold_every = 32;

  float total[rows][columns];
  float squares[rows];  // this lane's share of the squares of A's rows: every fourth 16 bytes

  static __device__ __forceinline__ int row(int i, int lane) { return i * 8 + lane / 4; }
  static __device__ __forceinline__ int column(int j, int lane) { return j * 4 + lane % 4; }
  __device__ __forceinline__ float& at(int i, int j) { return total[i][j]; }
  __device__ __forceinline__ float row_squares(int i) const { return lanes_sum<4>(squares[i]); }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      squares[i] = 0.0f;
#pragma unroll
      for (int j = 0; j < columns; ++j) total[i][j] = 0.0f;
    }
  }

  template <bool with_squares>
  __device__ __forceinline__ void multiply(unsigned a, unsigned b, int lane) {
    a += lane / 4 * pitch_a;
    b += lane % 4 * pitch_b;
    if constexpr (with_squares) add_row_squares(a + lane % 4 * 16);
    float running[rows][columns] = {};  // folded at the end, so that it takes no registers between k blocks
#pragma unroll 1
    for (int k = 0; k < width; k += 4) {
      multiply_4(running, a + k * 4, b + k * 4);
      if ((k + 4) % fold_every == 0 || k + 4 == width) fold(running);
    }
  }

 private:
  static __device__ __forceinline__ void multiply_4(float (&running)[rows][columns], unsigned a, unsigned b) {
    uint4 x[rows];
#pragma unroll
    for (int i = 0; i < rows; ++i) x[i] = ptx::load_shared_16(a + i * 8 * pitch_a);
#pragma unroll
    for (int j = 0; j < columns; ++j) {
      const uint4 y = ptx::load_shared_16(b + j * 4 * pitch_b);
#pragma unroll
      for (int i = 0; i < rows; ++i) {
        float sum = running[i][j];
        sum = fmaf(__uint_as_float(x[i].x), __uint_as_float(y.x), sum);
        sum = fmaf(__uint_as_float(x[i].y), __uint_as_float(y.y), sum);
        sum = fmaf(__uint_as_float(x[i].z), __uint_as_float(y.z), sum);
        running[i][j] = fmaf(__uint_as_float(x[i].w), __uint_as_float(y.w), sum);
      }
    }
  }

  __device__ __forceinline__ void add_row_squares(unsigned a) {
#pragma unroll 1
    for (int k = 0; k < width; k += 16)
#pragma unroll
      for (int i = 0; i < rows; ++i)
        squares[i] = add_squares<type>(squares[i], ptx::load_shared_16(a + i * 8 * pitch_a + k * 4));
  }

  __device__ __forceinline__ void fold(float (&running)[rows][columns]) {
#pragma unroll
    for (int i = 0; i < rows; ++i)
#pragma unroll
      for (int j = 0; j < columns; ++j) total[i][j] += running[i][j], running[i][j] = 0.0f;
  }
};

}  // namespace msj
