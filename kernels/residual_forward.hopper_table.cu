// residual_forward, hopper_table path (sm_90a; bf16, fp16 rows): as the table path, with T's rows and residual words
// brought in by asynchronous copies a few tiles ahead, and products of a warpgroup (common/hopper/decoded_rows.cuh).
//
//   codes ---> T's rows, 128 bytes each -----------> accumulators ---+
//   residual words ---> fields of bits, looked up: A --- wgmma ---> sum ---> factor ---> running max
//
// Bits: a token's sum starts at its row of T; k then ascends 16 at a time in one accumulator.
#include "common/ptx.cuh"
#include "common/numeric.cuh"
#include "common/tile_load.cuh"
#include "common/running_max.cuh"
#include "common/group.cuh"
#include "common/token_sum.cuh"
#include "common/residual.cuh"
#include "common/row_quarters.cuh"
#include "common/residual_table.cuh"
#include "common/team_maxima.cuh"
#include "common/hopper/wgmma.cuh"
#include "common/hopper/fragment_wgmma.cuh"
#include "common/hopper/dependent_launch.cuh"
#include "common/hopper/decoded_rows.cuh"

namespace msj {

// T's columns in their own order.
struct TableOrder : QuerySwizzle<columns, (nbits <= 2)> {
  static __device__ __forceinline__ void store_row(float* row, const float (&sums)[4][4], int i, int c) {
#pragma unroll
    for (int n = 0; n < 4; ++n)
      *reinterpret_cast<float2*>(row + n * 8 + c * 2) = make_float2(sums[n][2 * i], sums[n][2 * i + 1]);
  }
};
using Products = TableProducts<TableOrder, 4>;

struct HopperTable {
  using Order = TableOrder;
  static constexpr int columns = msj::columns;
  static constexpr bool by_nibbles = nbits <= 2;

  struct Groups {
    Round round;
    long long first;
    unsigned count;
    __device__ __forceinline__ explicit Groups(const Args& args)
        : round(args), first(round.first), count(unsigned(round.groups)) {}
  };
  struct Base {
    const uint4* queries;  // prepared; of the group's first chunk
    const float* table;
    __device__ __forceinline__ Base(const Args& args, const Groups& groups, int chunks, int group)
        : queries(Prepared::queries(args, chunks, group, 0)),
          table(Prepared::table(args, groups.round, chunks, group, 0)) {}
  };

  // Rows of T, 8 pieces of 16 bytes. The four lanes of a row copy neighbouring pieces, and read the columns of their
  // results, 8 bytes each: the pieces lie so that neither 8 lanes that copy meet in a bank, nor 16 that read. Slots
  // start at multiples of 128 bytes, so that a place is `first` ^ other bits of the piece.
  static constexpr int pitch = columns * 4, slot_bytes = 16 * pitch;
  struct Place {
    unsigned first;  // of row g
    __device__ __forceinline__ Place(unsigned slot, int piece, int byte, int lane)
        : first(slot + lane / 4 * pitch + (piece ^ (lane / 4 % 2 * 4 | (lane / 4 & 2))) * 16 + byte) {}
    __device__ __forceinline__ unsigned operator()(int i, int piece) const {  // of row g + 8 i
      return (first ^ piece * 16) + i * (8 * pitch);
    }
  };

  struct Source {
    const Args& args;
    const char* table;  // of the chunk, from this lane's piece on
    unsigned centroids;
    __device__ __forceinline__ Source(const Args& args, const Base& base, int chunk, int lane)
        : args(args), centroids(unsigned(min(args.size_K, 1ll << 31))) {
      enter(base, chunk, lane);
    }
    __device__ __forceinline__ void enter(const Base& base, int chunk, int lane) {
      table = reinterpret_cast<const char*>(base.table + chunk * args.size_K * columns) + lane % 4 * 16;
    }

    __device__ __forceinline__ void copy(unsigned slot, const int (&code)[2], const bool (&present)[2],
                                         int lane) const {
      const Place place(slot, lane % 4, 0, lane);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const char* row = table + (unsigned long long)unsigned(code[i]) * pitch;
#pragma unroll
        for (int half = 0; half < 2; ++half)
          ptx::copy_if<16>(place(i, half * 4), row + half * 64, true, present[i]);
      }
    }
  };
  static __device__ __forceinline__ bool has_tail(const Args&) { return false; }
  static __device__ __forceinline__ void put_odd_rows(const Args&, const Source&, unsigned slot, const int (&)[2],
                                                      const bool (&present)[2], int lane) {
    const Place place(slot, lane % 4, 0, lane);
    constexpr unsigned nan = 0x7fffffffu;
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        if (!present[i]) ptx::store_shared(place(i, half * 4), make_uint4(nan, nan, nan, nan));
  }

  static __device__ __forceinline__ void wait() { ptx::wait_for_previous_launch(); }
  static __device__ __forceinline__ void fill_queries(const Args&, const Base& base, const Group&, int chunk,
                                                      unsigned target, int warp, int lane) {
    const uint4* source = base.queries + (long long)chunk * Prepared::queries_size;
#pragma unroll 1
    for (int i = warp * 32 + lane; i < Prepared::infinite_at; i += 32 * team)
      ptx::store_shared(target + i * 16, source[i]);  // the launch before wrote it: no read-only load
  }
  static __device__ __forceinline__ unsigned infinite_columns(const Base& base, int chunk) {
    return base.queries[(long long)chunk * Prepared::queries_size + Prepared::infinite_at].x;
  }
  template <class Store>
  static __device__ __forceinline__ void redo(const Args& args, const Group& group, long long document, int length,
                                              int chunk, unsigned infinite_columns, int member, int lane, Store store) {
    const long long start = static_cast<const long long*>(args.d_starts.data)[document * args.d_starts.stride[0]];
    redo_infinite_columns(args, group, start, length, chunk, infinite_columns, member, team, lane, store);
  }

  template <class Tile>
  static __device__ __forceinline__ void start(Tile& tile, unsigned slot, int lane) {
    const Place place(slot, lane % 4 / 2, lane % 2 * 8, lane);
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        unsigned two[2];
        ptx::load_shared_8(two, place(i, 2 * n));
        tile.at(i, 2 * n) = __uint_as_float(two[0]), tile.at(i, 2 * n + 1) = __uint_as_float(two[1]);
      }
  }
  template <int steps>
  static __device__ __forceinline__ void begin_rows(unsigned (&)[steps][4], unsigned, int) {}
  static __device__ __forceinline__ void add_weights(unsigned& a, unsigned pair) { a = pair; }
};

}  // namespace msj

extern "C" __global__ void __launch_bounds__(msj::Products::threads, msj::Products::min_blocks)
    residual_forward_products(const __grid_constant__ msj::Args args) {
  msj::ptx::let_next_launch_begin();
  msj::Products::run(args);
}

extern "C" __global__ void __launch_bounds__(msj::threads, msj::config::min_blocks)
    residual_forward(const __grid_constant__ msj::Args args) {
  msj::DecodedRows<msj::HopperTable>::run(args);
}
