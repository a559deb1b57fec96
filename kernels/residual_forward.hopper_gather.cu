// residual_forward, hopper_gather path (sm_90a; bf16, fp16 rows): as the gather path; centroids' rows and residual
// words are brought in by asynchronous copies a few tiles ahead, and decoded in the registers of the warpgroup that
// multiplies them (common/hopper/decoded_rows.cuh).
//
//   codes ---> centroids' rows ---+
//   residual words ---> fields ---+--> row = centroid + weights: A --- wgmma ---> factor ---> running max
//
// Bits: a row's elements are rounded once; k ascends 16 at a time in one accumulator.
#include "common/ptx.cuh"
#include "common/numeric.cuh"
#include "common/tile_load.cuh"
#include "common/running_max.cuh"
#include "common/group.cuh"
#include "common/token_sum.cuh"
#include "common/residual.cuh"
#include "common/row_quarters.cuh"
#include "common/team_maxima.cuh"
#include "common/hopper/wgmma.cuh"
#include "common/hopper/fragment_wgmma.cuh"
#include "common/hopper/decoded_rows.cuh"

namespace msj {

struct HopperGather {
  static constexpr int columns = config::block_query;
  static constexpr bool by_nibbles = false;  // pairs are neighbours, as they are in a centroid's row
  using Order = QuerySwizzle<columns, by_nibbles>;
  using Group = QueryGroup<columns>;

  struct Groups {
    static constexpr long long first = 0;
    unsigned count;
    __device__ __forceinline__ explicit Groups(const Args& args) : count(unsigned(Group::count(args))) {}
  };
  struct Base {
    __device__ __forceinline__ Base(const Args&, const Groups&, int, int) {}
  };

  // Rows of pieces of 16 bytes, a quarter of them each lane's. The four lanes of a row copy neighbouring pieces, and
  // read their own, some apart: the pieces lie so that neither 8 lanes that copy meet in a bank, nor 8 that read.
  static constexpr int steps = quarter_steps<static_size::d>, quarter_pieces = steps / 2;
  static constexpr int pitch = round_up(4 * quarter_pieces, 8) * 16, slot_bytes = 16 * pitch;
  static __device__ __forceinline__ unsigned place(unsigned slot, int i, int piece, int lane) {
    return slot + (lane / 4 + 8 * i) * pitch + (piece ^ piece / 4 % 4 ^ lane / 4 % 2 * 4) * 16;
  }

  static __device__ __forceinline__ bool has_tail(const Args& args) { return int(args.size_d) % 8 != 0; }
  struct Source {
    const Args& args;
    const char* first;
    long long stride;
    unsigned centroids;
    __device__ __forceinline__ Source(const Args& args, const Base&, int, int)
        : args(args),
          first(static_cast<const char*>(args.centroids.data)),
          stride(args.centroids.stride[0] * 2),
          centroids(unsigned(min(args.size_K, 1ll << 31))) {}
    __device__ __forceinline__ void enter(const Base&, int, int) {}

    __device__ __forceinline__ int pieces() const { return int(args.size_d) / 8; }  // whole ones of a row
    __device__ __forceinline__ const char* row(int code) const { return first + code * stride; }
    __device__ __forceinline__ void copy(unsigned slot, const int (&code)[2], const bool (&present)[2],
                                         int lane) const {
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < quarter_pieces; ++j) {
          const int piece = 4 * j + lane % 4;
          ptx::copy_if<16>(place(slot, i, piece, lane), row(code[i]) + piece * 16, piece < pieces(),
                           present[i] && !(has_tail(args) && piece == pieces()));
        }
    }
  };
  static __device__ __forceinline__ void put_odd_rows(const Args& args, const Source& source, unsigned slot,
                                                      const int (&code)[2], const bool (&present)[2], int lane) {
    const int tail = int(args.size_d) % 8;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (!present[i]) {
#pragma unroll
        for (int j = 0; j < quarter_pieces; ++j)
          ptx::store_shared(place(slot, i, 4 * j + lane % 4, lane),
                            make_uint4(0x7fff7fffu, 0x7fff7fffu, 0x7fff7fffu, 0x7fff7fffu));
      } else if (tail > 0 && lane % 4 == source.pieces() % 4) {
        const auto* last = reinterpret_cast<const Element*>(source.row(code[i])) + source.pieces() * 8;
        ptx::store_shared(place(slot, i, source.pieces(), lane), gather_16<Element>(last, 1, tail));
      }
    }
  }

  static __device__ __forceinline__ void wait() {}
  static __device__ __forceinline__ void fill_queries(const Args& args, const Base&, const Group& group, int chunk,
                                                      unsigned target, int warp, int lane) {
#pragma unroll 1
    for (int n = warp; n < columns / 8; n += team)
      reorder_queries<Order>(args, group, chunk, n, lane,
                             [=](int word, unsigned pair) { ptx::store_shared_4(target + word * 4, pair); });
  }
  static __device__ __forceinline__ unsigned infinite_columns(const Base&, int) { return 0; }
  template <class Store>
  static __device__ __forceinline__ void redo(const Args&, const Group&, long long, int, int, unsigned, int, int,
                                              Store) {}

  // Zeros to add to: a sum of negative zeros is then +0.
  template <class Tile>
  static __device__ __forceinline__ void start(Tile& tile, unsigned, int) {
    tile.clear();
  }
  static __device__ __forceinline__ void begin_rows(unsigned (&a)[steps][4], unsigned slot, int lane) {
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int q = 0; q < quarter_pieces; ++q) {
        const uint4 v = ptx::load_shared_16(place(slot, i, lane % 4 * quarter_pieces + q, lane));
        a[2 * q][i] = v.x, a[2 * q][2 + i] = v.y, a[2 * q + 1][i] = v.z, a[2 * q + 1][2 + i] = v.w;
      }
  }
  static __device__ __forceinline__ void add_weights(unsigned& a, unsigned pair) { a = add_pairs<type>(a, pair); }
};

}  // namespace msj

extern "C" __global__ void __launch_bounds__(msj::threads, msj::config::min_blocks)
    residual_forward(const __grid_constant__ msj::Args args) {
  msj::DecodedRows<msj::HopperGather>::run(args);
}
