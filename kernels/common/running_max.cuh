#pragma once
// The running max over document tokens, one per column (query token), elementwise in registers; shuffles only when a
// document ends. With an index: the lowest t of the max. A NaN wins over every number, the first NaN over later ones.
//
// Values compare by their bits after max.NaN: a NaN is then equal to itself (max.NaN gives the canonical one), and a
// tie keeps the earlier t. "Nothing yet" is (-inf, -1): a real -inf leaves the index at -1 too, which the caller
// replaces by the document's first active t.

namespace msj {

template <bool with_index>
struct Best {
  float value;
  int index;

  // `later` has a greater t than everything in here.
  __device__ __forceinline__ void update(float later, int t) {
    const float larger = ptx::max_nan(value, later);
    if (with_index && __float_as_uint(larger) != __float_as_uint(value)) index = t;
    value = larger;
  }

  // In any order of t.
  __device__ __forceinline__ void merge(Best other) {
    const float larger = ptx::max_nan(value, other.value);
    if constexpr (with_index) {
      const bool mine = __float_as_uint(value) == __float_as_uint(larger);
      const bool theirs = __float_as_uint(other.value) == __float_as_uint(larger);
      if (theirs && (!mine || unsigned(other.index) < unsigned(index))) index = other.index;
    }
    value = larger;
  }

  __device__ __forceinline__ Best from_lane(int mask) const {
    return {__shfl_xor_sync(all_lanes, value, mask), with_index ? __shfl_xor_sync(all_lanes, index, mask) : -1};
  }
};

template <class Tile, bool with_index>
struct RunningMax {
  Best<with_index> best[Tile::columns];

  __device__ __forceinline__ void reset() {
#pragma unroll
    for (int j = 0; j < Tile::columns; ++j) best[j] = {-infinity, -1};
  }

  // first_t: the document token of the warp tile's row 0.
  __device__ __forceinline__ void update(Tile& tile, int first_t, int lane) {
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i)
#pragma unroll
      for (int j = 0; j < Tile::columns; ++j) best[j].update(tile.at(i, j), first_t + Tile::row(i, lane));
  }

  // The warp's max of each column, to `store(column, best)`, each column once or with equal values. Lanes that differ in
  // the bits from `first` down to `last` hold the same columns (4g + c with one c): each exchange halves the columns that
  // a lane still answers for.
  template <int first = 16, int last = 4, class Store>
  __device__ __forceinline__ void reduce(int lane, Store store) {
    exchange<Tile::columns, first, last>(lane, 0, store);
  }

 private:
  template <int count, int mask, int last, class Store>
  __device__ __forceinline__ void exchange(int lane, int first, Store store) {
    if constexpr (mask < last) {
#pragma unroll
      for (int j = 0; j < count; ++j) store(Tile::column(first + j, lane), best[j]);
    } else if constexpr (count % 2 == 0) {
      constexpr int half = count / 2;
      const bool upper = (lane & mask) != 0;
#pragma unroll
      for (int j = 0; j < half; ++j) {
        const Best<with_index> given = upper ? best[j] : best[j + half];
        if (upper) best[j] = best[j + half];
        best[j].merge(given.from_lane(mask));
      }
      exchange<half, mask / 2, last>(lane, first + (upper ? half : 0), store);
    } else {
#pragma unroll
      for (int j = 0; j < count; ++j) best[j].merge(best[j].from_lane(mask));
      exchange<count, mask / 2, last>(lane, first, store);
    }
  }
};

// Which rows of a warp's tile are active document tokens, a bit each.
template <int rows>
struct KeepRows {
  static_assert(rows % 32 == 0 || rows == 16);
  static constexpr int words = divide_up(rows, 32);
  static constexpr unsigned all = rows == 16 ? 0xffffu : 0xffffffffu;
  unsigned word[words];

  // The first `present` rows.
  __device__ __forceinline__ void set_first(int present) {
#pragma unroll
    for (int w = 0; w < words; ++w) {
      const int left = present - 32 * w;
      word[w] = left >= 32 ? all : left <= 0 ? 0u : ((1u << left) - 1) & all;
    }
  }

  // From the block's words; `row` is the warp's first.
  __device__ __forceinline__ void read(const unsigned* block_words, int row) {
#pragma unroll
    for (int w = 0; w < words; ++w) word[w] = (block_words[row / 32 + w] >> (rows == 16 ? row % 32 : 0)) & all;
  }

  __device__ __forceinline__ bool every() const {
    bool yes = true;
#pragma unroll
    for (int w = 0; w < words; ++w) yes &= word[w] == all;
    return yes;
  }

  __device__ __forceinline__ bool has(int row) const { return word[row / 32] >> row % 32 & 1; }

  // Replaces the other rows by -inf. A select, so that a NaN in them has no effect.
  template <class Tile>
  __device__ __forceinline__ void apply(Tile& tile, int lane) const {
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i) {
      const bool kept = word[i / 4] >> Tile::row(i % 4, lane) & 1;  // row(i) = 8 i + lane / 4
#pragma unroll
      for (int j = 0; j < Tile::columns; ++j)
        if (!kept) tile.at(i, j) = -infinity;
    }
  }
};

}  // namespace msj
