#pragma once
// The running max of a warp's 16 rows of a wgmma tile, over those rows that are active tokens: a branch for each row of
// a thread, where a select for each value would cost as much as the max itself.
//
// With an index, max, comparison and select are three instructions a value of the pipe that compares, at half the rate
// of multiply-add: longer than the tensor cores need for the products. Finite values take one comparison and two
// predicated sums instead. Zero times the value, summed, is NaN once one was not finite: from there on the lane goes
// RunningMax's way, which tells NaNs and infinities apart.

namespace msj {

template <class Tile, bool with_index>
struct RowMax : RunningMax<Tile, with_index> {
  using Base = RunningMax<Tile, with_index>;
  using Base::best;
  float zero;  // NaN: some value was not finite

  __device__ __forceinline__ void reset() {
    Base::reset();
    zero = 0.0f;
  }

  // first_t: the document token of the warp's row 0, a multiple of 8. Indices count eights of tokens until `reduce`.
  __device__ __forceinline__ void update(Tile& tile, const KeepRows<16>& keep, int first_t, int lane) {
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i)
      if (keep.has(Tile::row(i, lane))) update_row(tile, i, first_t / 8 + i);
    __syncwarp();  // products are the whole warp's
  }

  template <class Store>
  __device__ __forceinline__ void reduce(int lane, Store store) {
    if constexpr (with_index) {
#pragma unroll
      for (int j = 0; j < Tile::columns; ++j)
        if (best[j].index >= 0) best[j].index = best[j].index * 8 + Tile::row(0, lane);
    }
    Base::reduce(lane, store);
  }

 private:
  __device__ __forceinline__ void update_row(Tile& tile, int i, int eight) {
    if constexpr (with_index) {
      constexpr int chains = 4;  // sums that do not wait for one another
      float zeros[chains] = {zero, 0.0f, 0.0f, 0.0f};
#pragma unroll
      for (int j = 0; j < Tile::columns; ++j) zeros[j % chains] = fmaf(tile.at(i, j), 0.0f, zeros[j % chains]);
      zero = (zeros[0] + zeros[1]) + (zeros[2] + zeros[3]);
      if (zero == 0.0f) {
#pragma unroll
        for (int j = 0; j < Tile::columns; ++j) raise(best[j], tile.at(i, j), eight);
        return;
      }
    }
    constexpr int together = with_index ? 4 : Tile::columns;
#pragma unroll
    for (int first = 0; first < Tile::columns; first += together) {
      if constexpr (with_index) {  // blocks of their own: mixed by the compiler, all of them do not fit the registers
        ptx::hold(zero);
        if (zero == 0.0f) continue;
      }
      // Ties are told by their bits, with an index: a zero has one sign.
#pragma unroll
      for (int j = first; j < first + together; ++j)
        best[j].update(with_index ? tile.at(i, j) + 0.0f : tile.at(i, j), eight);
    }
  }

  // `later` is finite, and so is `best`, unless it is "nothing yet". Sums, as the compiler makes selects of moves and of
  // what it can take out of the loop: the index's bits are a float, mostly one too small to be normal, which they keep.
  static __device__ __forceinline__ void raise(Best<with_index>& best, float later, int index) {
    float bits = __int_as_float(best.index);
    asm("{ .reg .pred above; setp.gt.f32 above, %2, %0;\n"
        "@above add.f32 %0, %2, 0f00000000;\n"
        "@above fma.rn.f32 %1, %2, 0f00000000, %3; }"
        : "+f"(best.value), "+f"(bits)
        : "f"(later), "f"(__int_as_float(index)));
    best.index = __float_as_int(bits);
  }
};

}  // namespace msj
