#pragma once
// Rows of a strided matrix in global memory -> a tile [rows][width] in shared memory, zero where there is nothing.
//
// Shared rows are padded by 16 bytes to an odd number of 16-byte units: eight consecutive rows then start in eight
// different bank groups, so ldmatrix and 16-byte row reads meet no conflict, and an address is a constant away from
// its neighbour in k.
//
// Elements at and past `limit` are never read. Copies are asynchronous (commit and wait are the caller's), but for 8- and
// 16-bit elements of any layout and what is left of a row past its last whole 4 bytes, which pass through registers
// because cp.async moves no less. (It can be told to take fewer than 16 bytes, but memcheck sees 16 read.)

namespace msj {

__host__ __device__ constexpr int row_pitch(int width, int element_bytes) { return width * element_bytes + 16; }

// 16 bytes of 8- or 16-bit elements `stride` apart, the first `present` of them.
template <class Element>
__device__ __forceinline__ uint4 gather_16(const Element* source, long long stride, int present) {
  constexpr int per_word = 4 / sizeof(Element);
  unsigned word[4] = {0, 0, 0, 0};
#pragma unroll
  for (int i = 0; i < 4 * per_word; ++i)
    if (i < present) word[i / per_word] |= unsigned(source[i * stride]) << (i % per_word * 8 * int(sizeof(Element)));
  return make_uint4(word[0], word[1], word[2], word[3]);
}

template <DType type, int rows, int width, int pitch, int threads, bool vector_loads>
struct TileLoader {
  using Element = typename Numeric<type>::Storage;
  static constexpr int unit = 16 / sizeof(Element);  // elements in 16 bytes
  static constexpr int units_per_row = width / unit;
  static constexpr int units = rows * units_per_row, rounds = divide_up(units, threads);

  // Rows anywhere: `row_pointer(r)` answers the address of row r's first element, null where there is no row. Compact
  // rather than fast.
  template <class RowPointer>
  static __device__ __forceinline__ void gather(unsigned tile, RowPointer row_pointer, int k_begin, int limit,
                                                long long inner_stride, int thread) {
#pragma unroll (vector_loads || sizeof(Element) == 4 ? 1 : 2)
    for (int index = thread; index < units; index += threads) {
      const int row = index / units_per_row, k = k_begin + index % units_per_row * unit;
      const Element* source = row_pointer(row);
      load_unit(tile + row * pitch + index % units_per_row * 16, source, k, source ? clamp(limit - k) : 0,
                inner_stride);
    }
  }

  // Whether stream() can do it: every thread stays in one column of units, and rows end with a whole unit.
  static __device__ __forceinline__ bool streams(int limit) {
    return vector_loads && threads % units_per_row == 0 && limit % unit == 0;
  }

  // `present` rows from `first`, `stride` elements apart: an addition and a copy for each 16 bytes.
  static __device__ __forceinline__ void stream(unsigned tile, const Element* first, long long stride, int present,
                                                int k_begin, int limit, int thread) {
    constexpr int row_step = threads / units_per_row;
    const int row = thread / units_per_row, column = thread % units_per_row, k = k_begin + column * unit;
    const Element* source = first + row * stride + k;
    const unsigned destination = tile + row * pitch + column * 16;
    const int rows_here = k < limit ? present - row : 0;
#pragma unroll (rounds <= 8 ? rounds : rounds % 8 == 0 ? 8 : 1)
    for (int round = 0; round < rounds; ++round, source += row_step * stride)
      if (units % threads == 0 || row + round * row_step < rows)
        ptx::copy_16_if(destination + round * row_step * pitch, source, round * row_step < rows_here);
  }

 private:
  static __device__ __forceinline__ int clamp(int elements) { return min(max(elements, 0), unit); }

  // The first `bytes` of 16, at a row's end.
  static __device__ __forceinline__ void load_part(unsigned destination, const void* source, int bytes) {
    const auto* words = static_cast<const unsigned*>(source);
#pragma unroll 1
    for (int i = 0; i < 4; ++i) {
      const int left = bytes - 4 * i;
      if (sizeof(Element) == 4 || left <= 0 || left >= 4) {
        ptx::copy_4_if(destination + 4 * i, words + i, left > 0);
      } else {
        unsigned word = 0;
        for (int at = 0; at < left; at += int(sizeof(Element)))
          word |= unsigned(*reinterpret_cast<const Element*>(static_cast<const char*>(source) + 4 * i + at)) << 8 * at;
        ptx::store_shared_4(destination + 4 * i, word);
      }
    }
  }

  static __device__ __forceinline__ void load_unit(unsigned destination, const Element* source, int k, int present,
                                                   long long inner_stride) {
    if constexpr (vector_loads) {
      if (present == 0 || present == unit) ptx::copy_16_if(destination, source + k, present != 0);
      else load_part(destination, source + k, present * int(sizeof(Element)));
    } else if constexpr (sizeof(Element) == 4) {
#pragma unroll
      for (int i = 0; i < unit; ++i) ptx::copy_4_if(destination + 4 * i, source + (k + i) * inner_stride, i < present);
    } else {
      ptx::store_shared(destination, gather_16<Element>(source + k * inner_stride, inner_stride, present));
    }
  }
};

}  // namespace msj
