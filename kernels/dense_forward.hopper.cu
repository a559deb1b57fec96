// dense_forward, hopper path (sm_90a; bf16, fp16): score[i, j] = sum over s of max over t of <Q[i, s], D[j, t]>. The
// block is common/hopper/forward.cuh's; what its rows are is here.
//
// Norms are sums of squares of what lies in shared memory, of documents beside the products. With argmax the state of
// 256 columns does not fit the registers: two parts.
//
// Bits: k ascends 16 at a time in one accumulator; squares of a norm are two chains, of the halves of each 64 of d.
#include "common/ptx.cuh"
#include "common/numeric.cuh"
#include "common/running_max.cuh"
#include "common/norm.cuh"
#include "common/group.cuh"
#include "common/token_sum.cuh"
#include "common/hopper/mbarrier.cuh"
#include "common/hopper/tensor_copy.cuh"
#include "common/hopper/wgmma.cuh"
#include "common/hopper/row_max.cuh"
#include "common/hopper/passes.cuh"
#include "common/hopper/query_columns.cuh"
#include "common/hopper/forward.cuh"
#include "common/hopper/tensor_rows.cuh"
#include "common/hopper/half_products.cuh"
#include "common/hopper/half_squares.cuh"

namespace msj {

constexpr DType type = dtype::q;
using Element = Numeric<type>::Storage;

struct DenseForward : TensorRows<DenseForward, HopperForward<DenseForward>>,
                      HalfQueryFactors<HopperForward<DenseForward>, type> {
  using Block = HopperForward<DenseForward>;
  static constexpr int element_bytes = 2;
  static constexpr int parts = feature::save_argmax && block_query == 256 ? 2 : 1, part_columns = block_query / parts;
  using Tile = WarpgroupTile<part_columns>;

  static constexpr int row_extra_bytes = 0;
  struct RowExtras {};

  __device__ __forceinline__ explicit DenseForward(const Args&) {}

  // --- score ---------------------------------------------------------------------------------------------------------

  // One part of a tile. Beside the first one's products, to normalize: the squares of the warp's 16 rows.
  static __device__ __forceinline__ void multiply_tile(Tile& tile, typename Block::Place& place, unsigned queries,
                                                       int part, int scorer, int warp, int lane) {
    float squares = 0.0f;
    HalfProducts<Block, type>::multiply_tile(tile, place, queries, part, scorer, lane, [&](unsigned documents) {
      if constexpr (feature::normalize) {
#pragma unroll
        for (int box = 0; box < Block::stage_boxes; ++box)
          squares = HalfSquares<type>::add(squares, documents + box * box_bytes, warp * 16 + lane % 16, lane / 16);
      }
    });
    if (feature::normalize && part == 0) {
      squares += __shfl_xor_sync(all_lanes, squares, 16);
#pragma unroll
      for (int i = 0; i < Tile::rows; ++i) tile.squares[i] = __shfl_sync(all_lanes, squares, Tile::row(i, lane));
    }
  }

  // Rows of D as they lie in memory.
  struct DocumentRow {
    const Element* first;
    long long stride;
    int present;
    __device__ __forceinline__ const Element* operator()(int row) const {
      return row < present ? first + row * stride : nullptr;
    }
  };

  // A finished tile: factors, then masked and absent rows, then the running max.
  template <class Maxima>
  static __device__ __forceinline__ void finish_tile(const Args& args, const Document& document, int first_t,
                                                     const unsigned* keep_words, int warp, int lane, Tile& tile,
                                                     Maxima& maxima) {
    const int t = first_t + warp * 16;
    if constexpr (feature::normalize) {
      const DocumentRow rows{static_cast<const Element*>(args.d.data) + document.index * args.d.stride[0] +
                                 t * args.d.stride[1],
                             args.d.stride[1], document.length - t};
      normalize_rows<type>(tile, 16, rows, args.d.stride[2], int(args.size_d), lane);
    }
    const KeepRows<16> keep = Block::keep_of(keep_words, warp, document.length - t);
    maxima.update(tile, keep, t, lane);
  }

  // The tiles of one document. Its first active token, -1: none.
  template <class Place, class Maxima>
  __device__ __forceinline__ int score_document(const Args& args, const Document& document, Place& place,
                                                unsigned queries, int scorer, int warp, int lane,
                                                Maxima (&maxima)[parts]) const {
    int first_active = -1;
#pragma unroll 1
    for (int first_t = 0; first_t < document.length; first_t += tile_rows) {
      Tile tile;
      const Place start = place;
#pragma unroll
      for (int part = 0; part < parts; ++part) {
        place = start;
        multiply_tile(tile, place, queries, part, scorer, warp, lane);
        const unsigned* words = Block::small().keep_rows[scorer][place.slot];
        if (part == 0) first_active = Block::first_active_after(first_active, first_t, words);
        // Without a use for the stage after its products, it is free before they are looked at.
        constexpr bool keeps_stage = feature::d_mask;
        if (!keeps_stage && part + 1 == parts) Block::release(scorer, place.slot, lane);
        finish_tile(args, document, first_t, words, warp, lane, tile, maxima[part]);
        if (keeps_stage && part + 1 == parts) Block::release(scorer, place.slot, lane);
      }
      place.advance();
    }
    return first_active;
  }
};

}  // namespace msj

extern "C" __global__ void __launch_bounds__(msj::DenseForward::Block::threads, msj::config::min_blocks)
    dense_forward(const __grid_constant__ msj::Args args) {
  msj::HopperForward<msj::DenseForward>::run(args);
}
