// dense_forward, portable path: score[i, j] = sum over s of max over t of <Q[i, s], D[j, t]>, on mma.sync (bf16, fp16)
// or FMA units (fp32), sm_80 and newer. The block is common/forward.cuh's; what its rows are is here.
//
//   Q, D rows: copied as they are       normalize: D's squares from the fragments, a factor per row of a finished tile
//                                                  Q's from shared memory beside the first tile, a factor per column
#include "common/ptx.cuh"
#include "common/numeric.cuh"
#include "common/tile_load.cuh"
#include "common/mma_tile.cuh"
#include "common/fma_tile.cuh"
#include "common/running_max.cuh"
#include "common/norm.cuh"
#include "common/walk.cuh"
#include "common/group.cuh"
#include "common/token_sum.cuh"
#include "common/forward.cuh"
#include "common/document_rows.cuh"

namespace msj {

constexpr DType type = dtype::q;
using Element = Numeric<type>::Storage;

template <bool float32, int width, int doc_pitch, int query_pitch>
struct ChooseTile {
  using Tile = MmaTile<type, warp_rows, warp_columns, width, doc_pitch, query_pitch>;
};
template <int width, int doc_pitch, int query_pitch>
struct ChooseTile<true, width, doc_pitch, query_pitch> {
  using Tile = FmaTile<type, warp_rows, warp_columns, width, doc_pitch, query_pitch>;
};

struct DenseForward {
  static constexpr int k_extent = k_extent_of(sizeof(Element) == 4 ? 32 : 16, 16);
  static constexpr int query_width = query_width_of(k_extent);
  static constexpr int query_pitch = row_pitch(query_width, sizeof(Element));
  static constexpr int doc_pitch = row_pitch(k_extent, sizeof(Element));
  static constexpr int query_k_block_bytes = k_extent * int(sizeof(Element));
  using Tile = ChooseTile<type == DType::f32, k_extent, doc_pitch, query_pitch>::Tile;

  struct QueryExtras {
    float squares[feature::normalize ? block_query : 1][4];
    RowFactor factor[feature::normalize ? block_query : 1];
  };
  using RowExtras = NoExtras;
  using RowLoads = NoRowLoads;

  static __device__ __forceinline__ void load_documents(const Args& args, const Cursor& at, unsigned stage) {
    load_document_tile<type, k_extent, doc_pitch>(args, at, stage);
  }

  // `width` of d, from k_begin, of a chunk's query tokens.
  template <int width>
  static __device__ __forceinline__ void load_queries(const Args& args, const Group& group, int chunk, int k_begin,
                                                      unsigned tile) {
    using Loader = TileLoader<type, block_query, width, query_pitch, threads, aligned16>;
    const QueryRow<Element, block_query> row{args, group, chunk};
    const int d = int(args.size_d), present = int(args.size_Lq) - chunk * block_query;
    if (group.queries == 1 && Loader::streams(d))
      Loader::stream(tile, row.first_of_chunk(), args.q.stride[1], present, k_begin, d, threadIdx.x);
    else
      Loader::gather(tile, row, k_begin, d, args.q.stride[2], threadIdx.x);
  }

  static __device__ __forceinline__ void multiply(Tile& tile, unsigned rows, unsigned columns, int lane) {
    tile.multiply<feature::normalize>(rows, columns, lane);
  }

  // Squares of a chunk's query tokens from the k block in shared memory, factors at the last. Four lanes a row; a lane
  // takes every fourth 16 bytes of the whole row, whatever the k block.
  static __device__ __forceinline__ void prepare_queries(const Args& args, const Group& group, const Cursor& at,
                                                         bool last, unsigned block, int warp, int lane,
                                                         QueryExtras& extras) {
    if constexpr (feature::normalize) {
      constexpr int units = k_extent * int(sizeof(Element)) / 16;
      const int share = lane % 4;
#pragma unroll 1
      for (int first = warp * 8; first < block_query; first += warps * 8) {
        const int column = first + lane / 4;
        float squares = at.k_block == 0 ? 0.0f : extras.squares[column][share];
#pragma unroll 2
        for (int unit = (share - at.k_block * units) & 3; unit < units; unit += 4)
          squares = add_squares<type>(squares, ptx::load_shared_16(block + column * query_pitch + unit * 16));
        extras.squares[column][share] = squares;
        if (last) finish_query_norm(args, group, at.chunk, column, share, lanes_sum<4>(squares), extras);
      }
    }
  }

  static __device__ __forceinline__ void finish_query_norm(const Args& args, const Group& group, int chunk, int column,
                                                           int share, float squares, QueryExtras& extras) {
    RowFactor factor{1.0f, inverse_norm(squares)};
    if (Numeric<type>::squares_overflow && __any_sync(all_lanes, squares == infinity)) {
      const Element* row = QueryRow<Element, block_query>{args, group, chunk}(column);
      const float scaled =
          lanes_sum<4>(row ? scaled_squares<type>(row, args.q.stride[2], int(args.size_d), share, 4) : 0.0f);
      if (squares == infinity) factor = large_norm_factor(scaled);
    }
    if (share == 0) extras.factor[column] = factor;
  }

  static __device__ __forceinline__ void finish_rows(const Args& args, const Cursor& at, int, int first_row, int lane,
                                                     Tile& tile, const RowExtras&) {
    if constexpr (feature::normalize)
      normalize_rows<type>(tile, warp_rows, DocumentRow<Element>(args, at, first_row), args.d.stride[2],
                           int(args.size_d), lane);
  }

  static __device__ __forceinline__ float factored(int column, Best<feature::save_argmax>& best, int first_active,
                                                   const QueryExtras& extras) {
    if constexpr (!feature::normalize) return best.value;
    const RowFactor factor = extras.factor[column];
    // An infinite query element: every product is NaN, the first active token's too.
    if (factor.factor != factor.factor) best.index = first_active;
    return factor.apply(best.value);
  }
};

}  // namespace msj

extern "C" __global__ void __launch_bounds__(msj::threads, msj::config::min_blocks)
    dense_forward(const __grid_constant__ msj::Args args) {
  msj::Forward<msj::DenseForward>::run(args);
}
