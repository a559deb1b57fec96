// fp8_forward, portable path: score[i, j] = sum over s of scale_q[i, s] * max over t of (scale_d[j, t] * <Q, D>) on e4m3
// and e5m2, sm_80 and newer. The block is common/forward.cuh's; what its rows are is here.
//
//   D rows: fp8 in the ring                       scale_d: read with a tile's last k block, a factor per finished row
//   Q rows: fp8 where the tensor cores take it    scale_q: read beside the first tile, a factor per column after the max
//           (sm_89, sm_120), else as fp16
//
// A scale for the whole tensor has strides of 0 (read on the device), an absent one is 1.
#include "common/ptx.cuh"
#include "common/numeric.cuh"
#include "common/tile_load.cuh"
#include "common/fp8_convert.cuh"
#include "common/fp8_tile.cuh"
#include "common/running_max.cuh"
#include "common/walk.cuh"
#include "common/group.cuh"
#include "common/token_sum.cuh"
#include "common/forward.cuh"
#include "common/document_rows.cuh"

namespace msj {

constexpr bool fp8_tensor_cores = target_arch == 890 || target_arch == 1200;

struct Fp8Forward {
  static constexpr int k_extent = k_extent_of(32, 32);
  static constexpr int query_element_bytes = fp8_tensor_cores ? 1 : 2;
  static constexpr int query_pitch = row_pitch(query_width_of(k_extent), query_element_bytes);
  static constexpr int doc_pitch = row_pitch(k_extent, 1);
  static constexpr int query_k_block_bytes = k_extent * query_element_bytes;

  template <bool native, class = void>
  struct Choose {
    using Tile = Fp8AsHalfTile<dtype::d, warp_rows, warp_columns, k_extent, doc_pitch, query_pitch>;
  };
  template <class Unused>
  struct Choose<true, Unused> {
    using Tile = Fp8Tile<dtype::d, dtype::q, warp_rows, warp_columns, k_extent, doc_pitch, query_pitch>;
  };
  using Tile = Choose<fp8_tensor_cores>::Tile;

  // A value for each token, or one for all.
  static constexpr int query_scales = feature::scale_q_per_token ? block_query : 1;
  static constexpr int row_scales = feature::scale_d_per_token ? block_doc : 1;
  struct QueryExtras {
    float scale[query_scales];
  };
  struct RowExtras {
    float scale[stages][row_scales];
  };

  static __device__ __forceinline__ float scale_at(const Operand<2>& scale, long long row, long long token) {
    return scale.data ? static_cast<const float*>(scale.data)[row * scale.stride[0] + token * scale.stride[1]] : 1.0f;
  }

  // --- load ----------------------------------------------------------------------------------------------------------

  static __device__ __forceinline__ void load_documents(const Args& args, const Cursor& at, unsigned stage) {
    load_document_tile<dtype::d, k_extent, doc_pitch>(args, at, stage);
  }

  // `width` of d, from k_begin, of a chunk's query tokens, through registers where they become fp16.
  template <int width>
  static __device__ __forceinline__ void load_queries(const Args& args, const Group& group, int chunk, int k_begin,
                                                      unsigned tile) {
    const QueryRow<unsigned char, block_query> row{args, group, chunk};
    const int d = int(args.size_d);
    if constexpr (fp8_tensor_cores) {
      using Loader = TileLoader<dtype::q, block_query, width, query_pitch, threads, aligned16>;
      Loader::gather(tile, row, k_begin, d, args.q.stride[2], threadIdx.x);
    } else {
      constexpr int units_per_row = width / 16;
#pragma unroll 1
      for (int index = threadIdx.x; index < block_query * units_per_row; index += threads) {
        const int column = index / units_per_row, unit = index % units_per_row, k = k_begin + unit * 16;
        const unsigned char* source = row(column);
        store_half_order<dtype::q>(tile + column * query_pitch + unit * 32,
                                   load_16(source ? source + k * args.q.stride[2] : nullptr, args.q.stride[2], d - k));
      }
    }
  }

  // 16 elements, 0 from `limit` on and where there is no row.
  static __device__ __forceinline__ uint4 load_16(const unsigned char* source, long long stride, int limit) {
    const int present = source ? min(max(limit, 0), 16) : 0;
    if (aligned16 && present == 16) return *reinterpret_cast<const uint4*>(source);
    return gather_16<unsigned char>(source, stride, present);
  }

  // The scales of one tile's rows, a row per thread: as the mask's bytes, nobody waits for them.
  struct RowLoads {
    static constexpr int rounds = divide_up(row_scales, threads);
    float scale[rounds];
    int slot = -1;

    __device__ __forceinline__ void load(const Args& args, const Cursor& at, int stage) {
      slot = stage;
#pragma unroll
      for (int round = 0; round < rounds; ++round) {
        const int row = threadIdx.x + round * threads, t = at.tile * block_doc + row;
        const bool present = row < row_scales && (!feature::scale_d_per_token || t < at.length);
        scale[round] = present ? scale_at(args.scale_d, at.document, t) : 1.0f;
      }
    }

    __device__ __forceinline__ void store(RowExtras& extras) {
      if (slot < 0) return;
#pragma unroll
      for (int round = 0; round < rounds; ++round) {
        const int row = threadIdx.x + round * threads;
        if (row < row_scales) extras.scale[slot][row] = scale[round];
      }
      slot = -1;
    }
  };

  // --- score ---------------------------------------------------------------------------------------------------------

  static __device__ __forceinline__ void multiply(Tile& tile, unsigned rows, unsigned columns, int lane) {
    tile.multiply(rows, columns, lane);
  }

  static __device__ __forceinline__ void prepare_queries(const Args& args, const Group& group, const Cursor& at, bool,
                                                         unsigned, int warp, int lane, QueryExtras& extras) {
    if (at.k_block != 0) return;
#pragma unroll 1
    for (int column = warp * 32 + lane; column < query_scales; column += threads) {
      const Group::Token token = group.token(args, at.chunk, column);
      const bool present = !feature::scale_q_per_token || token.present;
      extras.scale[column] = present ? scale_at(args.scale_q, token.query, token.s) : 1.0f;
    }
  }

  static __device__ __forceinline__ void finish_rows(const Args&, const Cursor&, int slot, int first_row, int lane,
                                                     Tile& tile, const RowExtras& extras) {
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i) {
      const float scale = extras.scale[slot][feature::scale_d_per_token ? first_row + Tile::row(i, lane) : 0];
#pragma unroll
      for (int j = 0; j < Tile::columns; ++j)  // 0 times a negative scale is +0, as ties are told by their bits
        tile.at(i, j) = __fmaf_rn(tile.at(i, j), scale, 0.0f);
    }
  }

  static __device__ __forceinline__ float factored(int column, Best<feature::save_argmax>& best, int,
                                                   const QueryExtras& extras) {
    return best.value * extras.scale[feature::scale_q_per_token ? column : 0];
  }
};

}  // namespace msj

extern "C" __global__ void __launch_bounds__(msj::threads, msj::config::min_blocks)
    fp8_forward(const __grid_constant__ msj::Args args) {
  msj::Forward<msj::Fp8Forward>::run(args);
}
