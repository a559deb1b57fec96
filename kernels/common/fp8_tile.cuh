#pragma once
// One warp's tile of A x B^T with fp8 A and B, in two ways with one interface (as MmaTile):
//
//   Fp8Tile        sm_89, sm_120: fp8 mma.sync m16n8k32. B lies in shared memory as fp8. 64 products are summed on the
//                  tensor core before they go to the float32 accumulator (at most 128 may be): k blocks begin at
//                  multiples of 64, so that the sums are the same whatever the config.
//   Fp8AsHalfTile  elsewhere: A's fragments are converted to fp16 as they are loaded, B was when it came to shared
//                  memory; fp16 mma.sync m16n8k16.
//
// ldmatrix gives a lane 4 neighbouring fp8 of a row where it gives 2 fp16: k = 4c .. 4c + 3 of 16. As an fp16 fragment
// wants the pairs 2c and 2c + 8, these four are taken for both, that is, the products of 16 k are summed in another
// order, and B's columns are stored in that order (half_order).
//
//   A, 16 x 32 fp8, one ldmatrix.x4:  r0: rows 0-7, k 0-15   r1: rows 8-15, k 0-15   r2, r3: the same, k 16-31

namespace msj {

// The accumulators of both; rows and columns as in MmaTile.
template <int tile_rows, int tile_columns>
struct Fp8Accumulators {
  static_assert(tile_rows % 16 == 0 && tile_columns % 16 == 0);
  static constexpr int row_steps = tile_rows / 16, column_steps = tile_columns / 8;
  static constexpr int rows = row_steps * 2, columns = column_steps * 2;  // of one thread

  float accumulator[row_steps][column_steps][4];

  static __device__ __forceinline__ int row(int i, int lane) { return i * 8 + lane / 4; }
  static __device__ __forceinline__ int column(int j, int lane) { return j / 2 * 8 + lane % 4 * 2 + j % 2; }
  __device__ __forceinline__ float& at(int i, int j) { return accumulator[i / 2][j / 2][i % 2 * 2 + j % 2]; }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < rows; ++i)
#pragma unroll
      for (int j = 0; j < columns; ++j) at(i, j) = 0.0f;
  }
};

template <DType type_a, DType type_b, int tile_rows, int tile_columns, int width, int pitch_a, int pitch_b>
struct Fp8Tile : Fp8Accumulators<tile_rows, tile_columns> {
  static_assert(width % 32 == 0);
  using Base = Fp8Accumulators<tile_rows, tile_columns>;
  static constexpr int k_steps = width / 32, most_at_once = 2;

  __device__ __forceinline__ void multiply(unsigned a, unsigned b, int lane) {
    a += lane % 16 * pitch_a + lane / 16 * 16;
    b += (lane % 8 + lane / 16 * 8) * pitch_b + lane / 8 % 2 * 16;
#pragma unroll 1  // the fragments of one at a time: those of all would spill
    for (int first = 0; first < k_steps; first += most_at_once) multiply_64(a + first * 32, b + first * 32, first);
  }

 private:
  __device__ __forceinline__ void multiply_64(unsigned a, unsigned b, int first) {
    unsigned row_fragment[most_at_once][Base::row_steps][4];
#pragma unroll
    for (int k = 0; k < most_at_once; ++k)
#pragma unroll
      for (int m = 0; m < Base::row_steps; ++m)
        if (first + k < k_steps) ptx::load_matrices(row_fragment[k][m], a + m * 16 * pitch_a + k * 32);
#pragma unroll
    for (int pair = 0; pair < Base::column_steps / 2; ++pair) {
      float partial[Base::row_steps][2][4] = {};
#pragma unroll
      for (int k = 0; k < most_at_once; ++k) {
        if (first + k >= k_steps) continue;
        unsigned column[4];
        ptx::load_matrices(column, b + pair * 16 * pitch_b + k * 32);
#pragma unroll
        for (int m = 0; m < Base::row_steps; ++m) {
          ptx::mma_fp8<type_a, type_b>(partial[m][0], row_fragment[k][m], column[0], column[1]);
          ptx::mma_fp8<type_a, type_b>(partial[m][1], row_fragment[k][m], column[2], column[3]);
        }
      }
#pragma unroll
      for (int m = 0; m < Base::row_steps; ++m)
#pragma unroll
        for (int i = 0; i < 8; ++i) this->accumulator[m][2 * pair + i / 4][i % 4] += partial[m][i / 4][i % 4];
    }
  }
};

// 16 fp8 as 16 fp16 in the order that Fp8AsHalfTile's A fragments have.
template <DType type>
__device__ __forceinline__ void store_half_order(unsigned address, uint4 fp8) {
  const HalfPairs x = to_half<type>(fp8.x), y = to_half<type>(fp8.y), z = to_half<type>(fp8.z), w = to_half<type>(fp8.w);
  ptx::store_shared(address, make_uint4(x.low, y.low, z.low, w.low));
  ptx::store_shared(address + 16, make_uint4(x.high, y.high, z.high, w.high));
}

template <DType type_a, int tile_rows, int tile_columns, int width, int pitch_a, int pitch_b>
struct Fp8AsHalfTile : Fp8Accumulators<tile_rows, tile_columns> {
  static_assert(width % 32 == 0);
  using Base = Fp8Accumulators<tile_rows, tile_columns>;
  static constexpr int k_steps = width / 16, pairs = Base::column_steps / 2;

  // a: fp8 rows, b: fp16 rows in half_order. The next two columns of B are on their way while products run.
  __device__ __forceinline__ void multiply(unsigned a, unsigned b, int lane) {
    a += lane % 16 * pitch_a + lane / 16 * 16;
    b += (lane % 8 + lane / 16 * 8) * pitch_b + lane / 8 % 2 * 16;
    unsigned raw[Base::row_steps][4], row_fragment[Base::row_steps][4], column_fragment[2][4];
    load_rows(raw, a);
    ptx::load_matrices(column_fragment[0], b);
#pragma unroll
    for (int k = 0; k < k_steps; ++k) {
      convert(row_fragment, raw, k % 2);
      if (k % 2 == 1 && k + 1 < k_steps) load_rows(raw, a + (k + 1) / 2 * 32);
#pragma unroll
      for (int pair = 0; pair < pairs; ++pair) {
        const int flat = k * pairs + pair, next = flat + 1;
        if (next < k_steps * pairs)
          ptx::load_matrices(column_fragment[next % 2], b + next % pairs * 16 * pitch_b + next / pairs * 32);
        const unsigned(&column)[4] = column_fragment[flat % 2];
#pragma unroll
        for (int m = 0; m < Base::row_steps; ++m) {
          ptx::mma_f16(this->accumulator[m][2 * pair], row_fragment[m], column[0], column[1]);
          ptx::mma_f16(this->accumulator[m][2 * pair + 1], row_fragment[m], column[2], column[3]);
        }
      }
    }
  }

 private:
  static __device__ __forceinline__ void load_rows(unsigned (&raw)[Base::row_steps][4], unsigned a) {
#pragma unroll
    for (int m = 0; m < Base::row_steps; ++m) ptx::load_matrices(raw[m], a + m * 16 * pitch_a);
  }

  // The fp16 fragment of the lower or upper 16 of 32 k.
  static __device__ __forceinline__ void convert(unsigned (&fragment)[Base::row_steps][4],
                                                 const unsigned (&raw)[Base::row_steps][4], int half) {
#pragma unroll
    for (int m = 0; m < Base::row_steps; ++m) {
      const HalfPairs upper = to_half<type_a>(raw[m][2 * half]), lower = to_half<type_a>(raw[m][2 * half + 1]);
      fragment[m][0] = upper.low, fragment[m][1] = lower.low, fragment[m][2] = upper.high, fragment[m][3] = lower.high;
    }
  }
};

}  // namespace msj
