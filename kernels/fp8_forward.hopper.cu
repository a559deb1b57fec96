// fp8_forward, hopper path (sm_90a): score[i, j] = sum over s of scale_q[i, s] * max over t of (scale_d[j, t] * <Q, D>)
// on e4m3 and e5m2. The block is common/hopper/forward.cuh's; what its rows are is here.
//
//   D rows: a document token's scale lies beside its tile (cp.async), a factor per finished row
//   Q rows: a query token's scale lies beside its column, a factor after the max
//   one for all: read on the device; of D it is a factor after the max as well, if no other value can overtake by it
//
// The max takes about half of the products' time, so the two run side by side, in one scorer too: 256 columns are two
// parts in two sets of accumulators, by turns. While one part's maxima are taken, the other's products run, or the next
// tile's. Without the registers for that (argmax, sums of several k blocks) and with fewer columns, the other scorers of
// the multiprocessor fill the gap.
//
// Bits: the tensor cores keep about 14 bits of a sum, so they add up no more than 128 of d, 32 at a time; these sums
// ascend in float32.
#include "common/ptx.cuh"
#include "common/numeric.cuh"
#include "common/running_max.cuh"
#include "common/group.cuh"
#include "common/token_sum.cuh"
#include "common/hopper/mbarrier.cuh"
#include "common/hopper/tensor_copy.cuh"
#include "common/hopper/wgmma.cuh"
#include "common/hopper/forward.cuh"

namespace msj {

struct Fp8Forward {
  using Block = HopperForward<Fp8Forward>;
  static constexpr int element_bytes = 1;
  static constexpr bool single_k_block = static_size::d <= row_bytes;
  static constexpr int parts = block_query < 256 ? 1 : feature::save_argmax && !single_k_block ? 4 : 2;
  static constexpr bool by_turns = parts > 1 && single_k_block && !feature::save_argmax;
  static constexpr int part_columns = block_query / parts;
  using Tile = WarpgroupTile<part_columns>;
  using Maxima = RunningMax<Tile, feature::save_argmax>;

  static constexpr int query_extra_bytes = 4, row_extra_bytes = 4;
  struct QueryExtras {
    float scale[feature::scale_q_per_token ? block_query : 1];
  };
  struct RowExtras {
    float scale[feature::scale_d_per_token ? tile_rows : 1];
  };

  int width;                    // of a token: at least 1
  float query_scale = 1.0f;     // for all of Q, unless each token has its own
  float document_scale = 1.0f;  // for all of D, after the max
  float row_scale = 1.0f;       // for all of D, before it

  // A positive finite factor keeps the order of values, so that max commutes with it.
  __device__ __forceinline__ explicit Fp8Forward(const Args& args) : width(int(args.size_d)) {
    if (!feature::scale_q_per_token) query_scale = scale_at(args.scale_q, 0, 0);
    if (!feature::scale_d_per_token) {
      const float scale = scale_at(args.scale_d, 0, 0);
      (scale > 0.0f && scale < infinity ? document_scale : row_scale) = scale;
    }
  }

  static __device__ __forceinline__ float scale_at(const Operand<2>& scale, long long row, long long token) {
    return scale.data ? static_cast<const float*>(scale.data)[row * scale.stride[0] + token * scale.stride[1]] : 1.0f;
  }

  // --- load ----------------------------------------------------------------------------------------------------------

  static constexpr bool prepares = feature::scale_q_per_token, copies_rows = feature::scale_d_per_token;

  static __device__ __forceinline__ void prepare_column(const Args& args, const Group::Token& token, int column,
                                                        int half, int slot, int) {
    if (half == 0)
      Block::small().query_extras[slot].scale[column] =
          token.present ? scale_at(args.scale_q, token.query, token.s) : 1.0f;
  }

  static __device__ __forceinline__ void copy_rows(const Args& args, const Document& document, int first_t,
                                                   RowExtras& extras, int lane) {
    const auto* scale = static_cast<const float*>(args.scale_d.data) + document.index * args.scale_d.stride[0];
#pragma unroll
    for (int row = lane; row < tile_rows; row += 32) {
      const int t = first_t + row;
      const bool present = t < document.length;
      ptx::copy_4_if(ptx::shared_address(&extras.scale[row]), present ? scale + t * args.scale_d.stride[1] : scale,
                     present);
    }
  }

  // --- score ---------------------------------------------------------------------------------------------------------

  // Starts a part's products with `steps` of 32 from a k block, over what the accumulators held.
  template <int steps>
  static __device__ __forceinline__ void start_products(Tile& tile, unsigned documents, unsigned queries, int part) {
    queries += part * part_columns * row_bytes;
    ptx::products_fence();
    start_step<false>(tile, documents, queries);
#pragma unroll
    for (int step = 1; step < steps; ++step)
      start_step<true>(tile, documents + step * step_bytes, queries + step * step_bytes);
    ptx::products_commit();
  }
  template <bool adds>
  static __device__ __forceinline__ void start_step(Tile& tile, unsigned documents, unsigned queries) {
    ptx::multiply_64<dtype::d, dtype::q, part_columns, adds>(tile.value, ptx::matrix_descriptor(documents),
                                                             ptx::matrix_descriptor(queries));
  }

  // What one thread needs of the tile that ends in a stage: its rows' scales, which of the warp's rows are tokens.
  struct Rows {
    float scale[Tile::rows];
    KeepRows<16> keep;
  };
  __device__ __forceinline__ Rows rows_of(const Document& document, int first_t, int slot, int scorer, int warp,
                                          int lane) const {
    Rows rows;
    const RowExtras& extras = Block::small().row_extras[scorer][slot];
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i)
      rows.scale[i] = feature::scale_d_per_token ? extras.scale[warp * 16 + Tile::row(i, lane)] : row_scale;
    rows.keep =
        Block::keep_of(Block::small().keep_rows[scorer][slot], warp, document.length - first_t - warp * 16);
    return rows;
  }

  // A finished part: scales, then masked and absent rows, then the running max.
  template <bool is_last>
  __device__ __forceinline__ void finish_part(Tile& tile, const Rows& rows, int first_t, int warp, int lane,
                                              Maxima& maxima) const {
    // 0 times a negative scale is +0, as ties are told by their bits; nothing else depends on the sign of a zero.
    if (feature::scale_d_per_token || feature::save_argmax || row_scale != 1.0f) {
#pragma unroll
      for (int i = 0; i < Tile::rows; ++i)
#pragma unroll
        for (int j = 0; j < Tile::columns; ++j) tile.at(i, j) = __fmaf_rn(tile.at(i, j), rows.scale[i], 0.0f);
    }
    if ((feature::d_mask || is_last) && !rows.keep.every()) rows.keep.apply(tile, lane);
    maxima.update(tile, first_t + warp * 16, lane);
  }

  // The tile in the place's stage, whose first part is in tile[0]. Leaves the next tile's first part there.
  template <bool is_last, class Place>
  __device__ __forceinline__ void score_tile(Tile (&tile)[2], const Document& document, int first_t, Place& place,
                                             unsigned queries, int& first_active, int scorer, int warp, int lane,
                                             Maxima (&maxima)[parts]) const {
    const int slot = place.slot;
    const Rows rows = rows_of(document, first_t, slot, scorer, warp, lane);
    first_active = Block::first_active_after(first_active, first_t, Block::small().keep_rows[scorer][slot]);
    place.advance();
#pragma unroll
    for (int part = 0; part < parts; ++part) {
      Tile& done = tile[part % 2];
      Tile& next = tile[(part + 1) % 2];
      const bool is_last_part = part + 1 == parts, starts_next = !is_last_part || !is_last;
      if (is_last_part && starts_next) Block::wait_full(scorer, place);
      if (starts_next)
        start_products<Block::stage_steps>(next, Block::stage_address(scorer, is_last_part ? place.slot : slot),
                                           queries, is_last_part ? 0 : part + 1);
      if (starts_next) ptx::end_block(width == -1 - 2 * part);  // all products are on their way
      finish_part<is_last>(done, rows, first_t, warp, lane, maxima[part]);
      if (starts_next) {
        ptx::end_block(width == -2 - 2 * part);  // the maxima, then the wait
        ptx::products_wait<0>();
        ptx::hold(next.value);
      }
      if (part + 2 == parts) Block::release(scorer, slot, lane);
    }
  }

  // One k block's tiles in two sets of accumulators by turns.
  template <class Place>
  __device__ __forceinline__ int score_by_turns(const Document& document, Place& place, unsigned queries, int scorer,
                                                int warp, int lane, Maxima (&maxima)[parts]) const {
    int first_active = -1, first_t = 0;
    if (document.length == 0) return first_active;
    Tile tile[2];
    Block::wait_full(scorer, place);
    start_products<Block::stage_steps>(tile[0], Block::stage_address(scorer, place.slot), queries, 0);
    ptx::products_wait<0>();
    ptx::hold(tile[0].value);
#pragma unroll 1
    for (; first_t + tile_rows < document.length; first_t += tile_rows)
      score_tile<false>(tile, document, first_t, place, queries, first_active, scorer, warp, lane, maxima);
    score_tile<true>(tile, document, first_t, place, queries, first_active, scorer, warp, lane, maxima);
    return first_active;
  }

  // One part of a tile: all of d, a k block's products at a time. The first part waits for the stages, the last frees
  // them.
  template <class Place>
  static __device__ __forceinline__ void multiply_tile(Tile& tile, Place& place, unsigned queries, int part,
                                                       int scorer, int lane) {
    Tile products;
    constexpr int steps = single_k_block ? Block::stage_steps : 4;
    int count = Block::tile_stages;
    if constexpr (parts > 1) ptx::hold(count);  // a loop, so that no other part's maxima move in between the products
    if (!single_k_block) tile.clear();
#pragma unroll 1
    for (int stage = 0; stage < count; ++stage) {
      const unsigned documents = Block::stage_address(scorer, place.slot);
      if (part == 0) Block::wait_full(scorer, place);
#pragma unroll
      for (int box = 0; box < Block::stage_boxes; ++box) {
        start_products<steps>(products, documents + box * box_bytes,
                              queries + (stage * Block::stage_boxes + box) * query_block_bytes, part);
        ptx::products_wait<0>();
        ptx::hold(products.value);
#pragma unroll
        for (int i = 0; i < part_columns / 2; ++i)
          tile.value[i] = single_k_block ? products.value[i] : tile.value[i] + products.value[i];
      }
      if (part + 1 == parts && stage + 1 < count) Block::release(scorer, place.slot, lane);
      if (stage + 1 < count) place.advance();
    }
  }

  // The tiles of one document. Its first active token, -1: none.
  template <class Place>
  __device__ __forceinline__ int score_document(const Args&, const Document& document, Place& place, unsigned queries,
                                                int scorer, int warp, int lane, Maxima (&maxima)[parts]) const {
    if constexpr (by_turns) {
      return score_by_turns(document, place, queries, scorer, warp, lane, maxima);
    } else {
      int first_active = -1;
#pragma unroll 1
      for (int first_t = 0; first_t < document.length; first_t += tile_rows) {
        const Place start = place;
        Rows rows;
#pragma unroll
        for (int part = 0; part < parts; ++part) {
          Tile tile;
          place = start;
          multiply_tile(tile, place, queries, part, scorer, lane);
          if (part == 0) {
            rows = rows_of(document, first_t, place.slot, scorer, warp, lane);
            first_active =
                Block::first_active_after(first_active, first_t, Block::small().keep_rows[scorer][place.slot]);
          }
          if (part + 1 == parts) Block::release(scorer, place.slot, lane);
          finish_part<true>(tile, rows, first_t, warp, lane, maxima[part]);
        }
        place.advance();
      }
      return first_active;
    }
  }

  // The query token's value with its factors.
  __device__ __forceinline__ float factored(int column, Best<feature::save_argmax>& best, int, int slot) const {
    const float value = feature::scale_d_per_token ? best.value : best.value * document_scale;
    return value * (feature::scale_q_per_token ? Block::small().query_extras[slot].scale[column] : query_scale);
  }
};

}  // namespace msj

extern "C" __global__ void __launch_bounds__(msj::threads, msj::config::min_blocks)
    fp8_forward(const __grid_constant__ msj::Args args) {
  msj::HopperForward<msj::Fp8Forward>::run(args);
}
