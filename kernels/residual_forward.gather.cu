// residual_forward, gather path: centroid rows are gathered, decoded once to shared memory and multiplied with all of
// the block's queries, on mma.sync (16-bit rows) or FMA units (float32), sm_80 and newer. The block is
// common/forward.cuh's; what its rows are is here.
//
//   codes ---> ring: centroid row | residual bytes ---> row = centroid + weights ---> A of the tile product
//   (a step ahead)    (cp.async)                        (tables in shared memory)
//
// A finished row's factor: its inverse norm, or 1; NaN where its code is no centroid's, of which nothing is read.
#include "common/ptx.cuh"
#include "common/numeric.cuh"
#include "common/tile_load.cuh"
#include "common/mma_tile.cuh"
#include "common/fma_tile.cuh"
#include "common/running_max.cuh"
#include "common/walk.cuh"
#include "common/group.cuh"
#include "common/token_sum.cuh"
#include "common/residual.cuh"
#include "common/forward.cuh"

namespace msj {

constexpr bool half_rows = dtype::q == dtype::centroids && dtype::q != DType::f32;
constexpr DType row_type = half_rows ? dtype::q : DType::f32;
constexpr int row_element = half_rows ? 2 : 4;

template <bool halves, int width, int doc_pitch, int query_pitch>
struct ChooseTile {
  using Tile = MmaTile<row_type, warp_rows, warp_columns, width, doc_pitch, query_pitch>;
  using Tables = WeightPairs;
};
template <int width, int doc_pitch, int query_pitch>
struct ChooseTile<false, width, doc_pitch, query_pitch> {
  using Tile = FmaTile<row_type, warp_rows, warp_columns, width, doc_pitch, query_pitch>;
  using Tables = Weights;
};

struct ResidualGather {
  static constexpr int k_extent = k_extent_of(32, 16);
  static constexpr int query_width = query_width_of(k_extent);
  static constexpr int query_pitch = row_pitch(query_width, row_element), doc_pitch = row_pitch(k_extent, row_element);
  static constexpr int query_k_block_bytes = k_extent * row_element;
  using Chosen = ChooseTile<half_rows, k_extent, doc_pitch, query_pitch>;
  using Tile = typename Chosen::Tile;
  using Tables = typename Chosen::Tables;

  // A stage's rows: centroids, then residual bytes.
  static constexpr int centroid_pitch = row_pitch(k_extent, centroid_bytes);
  static constexpr int bits_width = round_up(residual_bytes(k_extent), 16), bits_pitch = row_pitch(bits_width, 1);
  // Each k block's bytes begin where 16 can be copied.
  static constexpr bool vector_bits = aligned16 && (k_extent >= static_size::d || residual_bytes(k_extent) % 16 == 0);
  static constexpr int ring_pitch = centroid_pitch + bits_pitch, bits_at = block_doc * centroid_pitch;

  using QueryExtras = NoExtras;
  struct RowExtras {
    float factor[stages][block_doc];  // the inverse norm
    int code[stages][block_doc];      // -1: none
  };
  using RowLoads = NoRowLoads;

  // --- load ----------------------------------------------------------------------------------------------------------

  // Of the rows of the step at `at`, a row per thread.
  struct RowCodes {
    static constexpr int rounds = divide_up(block_doc, threads);
    int code[rounds];

    __device__ __forceinline__ void load(const Args& args, const Cursor& at) {
      const auto* codes = static_cast<const int*>(args.codes.data);
#pragma unroll
      for (int round = 0; round < rounds; ++round) {
        const int row = threadIdx.x + round * threads, t = at.tile * block_doc + row;
        const bool present = row < block_doc && at.document < args.size_Nd && t < at.length && at.first != broken;
        code[round] = present ? codes[(at.first + t) * args.codes.stride[0]] : -1;
      }
    }
    __device__ __forceinline__ void store(int* codes) {
#pragma unroll
      for (int round = 0; round < rounds; ++round) {
        const int row = threadIdx.x + round * threads;
        if (row < block_doc) codes[row] = code[round];
      }
    }
  };

  static __device__ __forceinline__ void load_coded(const Args& args, const Cursor& at, const int* codes,
                                                    unsigned stage, int slot, RowExtras& extras) {
    const int k_begin = at.k_block * k_extent, d = int(args.size_d);
    using Centroids = TileLoader<dtype::centroids, block_doc, k_extent, centroid_pitch, threads, aligned16>;
    Centroids::gather(
        stage,
        [&](int row) -> const Centroid* {
          const int code = checked_code(args, codes[row]);
          return code < 0 ? nullptr
                          : static_cast<const Centroid*>(args.centroids.data) + code * args.centroids.stride[0];
        },
        k_begin, d, args.centroids.stride[1], threadIdx.x);
    // What is past d is not looked at: weights of it are taken as 0.
    using Bits = TileLoader<DType::u8, block_doc, bits_width, bits_pitch, threads, vector_bits>;
    const int present = at.first == broken ? 0 : at.length - at.tile * block_doc;
    const auto* first = static_cast<const unsigned char*>(args.residuals.data) +
                        (at.first + at.tile * block_doc) * args.residuals.stride[0];
    Bits::gather(
        stage + bits_at,
        [&](int row) -> const unsigned char* {
          return row < present ? first + row * args.residuals.stride[0] : nullptr;
        },
        k_begin * nbits / 8, residual_bytes(d), args.residuals.stride[1], threadIdx.x);
    load_extras(args, at, codes, present, slot, extras);
  }

  static __device__ __forceinline__ void load_extras(const Args& args, const Cursor& at, const int* codes, int present,
                                                     int slot, RowExtras& extras) {
#pragma unroll 1
    for (int row = threadIdx.x; row < block_doc; row += threads) {
      extras.code[slot][row] = checked_code(args, codes[row]);
      if constexpr (feature::normalize)
        ptx::copy_4_if(ptx::shared_address(&extras.factor[slot][row]),
                       static_cast<const float*>(args.d_inv_norms.data) +
                           (at.first + at.tile * block_doc + row) * args.d_inv_norms.stride[0],
                       row < present);
    }
  }

  // `width` of d, from k_begin, of a chunk's query tokens; through registers where they become float32.
  template <int width>
  static __device__ __forceinline__ void load_queries(const Args& args, const Group& group, int chunk, int k_begin,
                                                      unsigned tile) {
    using Element = typename Numeric<dtype::q>::Storage;
    const QueryRow<Element, block_query> row{args, group, chunk};
    const int d = int(args.size_d);
    if constexpr (row_type == dtype::q) {
      using Loader = TileLoader<row_type, block_query, width, query_pitch, threads, aligned16>;
      Loader::gather(tile, row, k_begin, d, args.q.stride[2], threadIdx.x);
    } else {
      constexpr int units = width / 4;
#pragma unroll 1
      for (int index = threadIdx.x; index < block_query * units; index += threads) {
        const int column = index / units, k = k_begin + index % units * 4;
        const Element* source = row(column);
        float x[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
          x[i] = source && k + i < d ? Numeric<dtype::q>::widen(source[(k + i) * args.q.stride[2]]) : 0.0f;
        ptx::store_shared(tile + column * query_pitch + index % units * 16,
                          make_uint4(__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]),
                                     __float_as_uint(x[3])));
      }
    }
  }

  // --- decode --------------------------------------------------------------------------------------------------------

  // 16 features of a row at a time, neighbouring rows in neighbouring threads.
  static __device__ __forceinline__ void decode(const Args& args, const Cursor& at, unsigned stage, unsigned rows,
                                                const Tables& tables) {
    constexpr int units = k_extent / 16;
    const int limit = int(args.size_d) - at.k_block * k_extent;
#pragma unroll 1
    for (int index = threadIdx.x; index < units * block_doc; index += threads) {
      const int row = index % block_doc, u = index / block_doc;
      unsigned word[words_of_16];
      load_words_of_16(word, stage + bits_at + row * bits_pitch, u);
      const unsigned centroid = stage + row * centroid_pitch + u * 16 * centroid_bytes;
      const unsigned target = rows + row * doc_pitch + u * 16 * row_element;
      decode_16(tables, word, centroid, target, limit - u * 16);
    }
  }

  static __device__ __forceinline__ void decode_16(const WeightPairs& tables, const unsigned (&word)[words_of_16],
                                                   unsigned centroid, unsigned target, int limit) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int eight = 0; eight < 2; ++eight) {
      const uint4 v = ptx::load_shared_16(centroid + eight * 16);
      unsigned pair[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        unsigned weights = tables.of(word, eight, c, lane);
        if (limit < 16) weights = pair_below(weights, 8 * eight + 2 * c, limit);
        pair[c] = add_pairs<row_type>(pair[c], weights);
      }
      ptx::store_shared(target + eight * 16, make_uint4(pair[0], pair[1], pair[2], pair[3]));
    }
  }

  static __device__ __forceinline__ void decode_16(const Weights& tables, const unsigned (&word)[words_of_16],
                                                   unsigned centroid, unsigned target, int limit) {
#pragma unroll
    for (int four = 0; four < 4; ++four) {
      float x[4];
      load_four<dtype::centroids>(x, centroid + four * 4 * centroid_bytes);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (four * 4 + i < limit) x[i] += tables.of(word, four * 4 + i);
      ptx::store_shared(target + four * 16, make_uint4(__float_as_uint(x[0]), __float_as_uint(x[1]),
                                                       __float_as_uint(x[2]), __float_as_uint(x[3])));
    }
  }

  template <DType type>
  static __device__ __forceinline__ void load_four(float (&x)[4], unsigned address) {
    if constexpr (type == DType::f32) {
      const uint4 v = ptx::load_shared_16(address);
      x[0] = __uint_as_float(v.x), x[1] = __uint_as_float(v.y);
      x[2] = __uint_as_float(v.z), x[3] = __uint_as_float(v.w);
    } else {
      unsigned v[2];
      ptx::load_shared_8(v, address);
      x[0] = Numeric<type>::low(v[0]), x[1] = Numeric<type>::high(v[0]);
      x[2] = Numeric<type>::low(v[1]), x[3] = Numeric<type>::high(v[1]);
    }
  }

  // --- score ---------------------------------------------------------------------------------------------------------

  static __device__ __forceinline__ void multiply(Tile& tile, unsigned rows, unsigned columns, int lane) {
    tile.template multiply<false>(rows, columns, lane);
  }

  static __device__ __forceinline__ void prepare_queries(const Args&, const Group&, const Cursor&, bool, unsigned, int,
                                                         int, QueryExtras&) {}

  static __device__ __forceinline__ void finish_rows(const Args&, const Cursor&, int slot, int first_row, int lane,
                                                     Tile& tile, const RowExtras& extras) {
    // 0 times a negative factor is +0, as ties are told by their bits.
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i) {
      const int row = first_row + Tile::row(i, lane);
      float factor = feature::normalize ? extras.factor[slot][row] : 1.0f;
      if (extras.code[slot][row] < 0) factor = __uint_as_float(0x7fffffffu);
#pragma unroll
      for (int j = 0; j < Tile::columns; ++j) tile.at(i, j) = fmaf(tile.at(i, j), factor, 0.0f);
    }
  }

  static __device__ __forceinline__ float factored(int, Best<feature::save_argmax>& best, int, const QueryExtras&) {
    return best.value;
  }
};

}  // namespace msj

extern "C" __global__ void __launch_bounds__(msj::threads, msj::config::min_blocks)
    residual_forward(const __grid_constant__ msj::Args args) {
  msj::Forward<msj::ResidualGather>::run(args);
}
