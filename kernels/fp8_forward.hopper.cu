// fp8_forward, hopper path (sm_90a): score[i, j] = sum over s of scale_q[i, s] * max over t of (scale_d[j, t] * <Q, D>)
// on e4m3 and e5m2. The block is common/hopper/forward.cuh's; what its rows are is here, scales are
// common/hopper/fp8_scales.cuh's.
//
// 256 columns are scored in parts, one after the other from the same stages: maxima and one part's sums fit the
// registers. While a scorer adds and compares, the other one of the multiprocessor has the tensor cores.
//
// Bits: the tensor cores keep about 14 bits of a sum, by its largest term, so they add up no more than 64 of d; these
// sums ascend in float32. (128 at once miss 2e-4 of the sum of magnitudes on real text.)
#include "common/ptx.cuh"
#include "common/numeric.cuh"
#include "common/running_max.cuh"
#include "common/group.cuh"
#include "common/token_sum.cuh"
#include "common/hopper/mbarrier.cuh"
#include "common/hopper/tensor_copy.cuh"
#include "common/hopper/wgmma.cuh"
#include "common/hopper/row_max.cuh"
#include "common/hopper/passes.cuh"
#include "common/hopper/query_columns.cuh"
#include "common/hopper/fp8_scales.cuh"
#include "common/hopper/forward.cuh"
#include "common/hopper/tensor_rows.cuh"

namespace msj {

struct Fp8Forward : TensorRows<Fp8Forward, HopperForward<Fp8Forward>>, Fp8Scales {
  using Block = HopperForward<Fp8Forward>;
  static constexpr int element_bytes = 1;
  static constexpr int sum_steps = 2;  // of 32 that the tensor cores add up
  static constexpr bool single_sum = static_size::d <= sum_steps * 32;
  static constexpr int parts = block_query < 256 ? 1 : feature::save_argmax && !single_sum ? 4 : 2;
  static constexpr int part_columns = block_query / parts;
  using Tile = WarpgroupTile<part_columns>;
  using Maxima = RowMax<Tile, feature::save_argmax>;

  using Fp8Scales::copy_rows;
  using Fp8Scales::Fp8Scales;

  // --- load ----------------------------------------------------------------------------------------------------------

  static constexpr bool prepares = feature::scale_q_per_token, copies_rows = feature::scale_d_per_token;
  static constexpr int arrivals = ptx::arriving_lanes + (copies_rows ? 32 : 0);

  static __device__ __forceinline__ void prepare_column(const Args& args, const Group::Token& token, int column,
                                                        int half, int slot, int) {
    if (half == 0) Block::small().query_extras[slot].scale[column] = of_query(args, token);
  }

  // --- score ---------------------------------------------------------------------------------------------------------

  // A part's products with up to 64 of d, over what the accumulators held: begun, and in them once `wait` has returned.
  static __device__ __forceinline__ void multiply(Tile& products, unsigned documents, unsigned queries) {
    constexpr int steps = Block::stage_steps < sum_steps ? Block::stage_steps : sum_steps;
    ptx::products_fence();
#pragma unroll
    for (int step = 0; step < steps; ++step)
      ptx::multiply_64<dtype::d, dtype::q, part_columns>(
          products.value, ptx::matrix_descriptor(documents, step * step_bytes),
          ptx::matrix_descriptor(queries, step * step_bytes), step > 0);
    ptx::products_commit();
  }
  static __device__ __forceinline__ void wait(Tile& products) {
    ptx::products_wait<0>();
    ptx::hold(products.value);
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
  __device__ __forceinline__ void finish_part(Tile& tile, const Rows& rows, int first_t, int warp, int lane,
                                              Maxima& maxima) const {
    if (multiplies_rows()) {
#pragma unroll
      for (int i = 0; i < Tile::rows; ++i)
#pragma unroll
        for (int j = 0; j < Tile::columns; ++j) tile.at(i, j) = __fmaf_rn(tile.at(i, j), rows.scale[i], 0.0f);
    }
    maxima.update(tile, rows.keep, first_t + warp * 16, lane);
  }

  // One part of a tile: all of d, as many of it at a time as the tensor cores add up. The first part waits for the
  // stages, the last frees all but the tile's last.
  template <class Place>
  static __device__ __forceinline__ void multiply_tile(Tile& tile, Place& place, unsigned queries, int part,
                                                       int scorer, int lane) {
    constexpr int sums = divide_up(Block::stage_steps, sum_steps), sums_of_box = 4 / sum_steps;
    constexpr bool is_one_stage = Block::tile_stages == 1;
    queries += part * part_columns * row_bytes;
    int count = Block::tile_stages;
    if constexpr (parts > 1) ptx::hold(count);  // a loop, so that no other part's maxima move in between the products
    if constexpr (!is_one_stage) tile.clear();
#pragma unroll 1
    for (int stage = 0; stage < count; ++stage) {
      const unsigned documents = Block::stage_address(scorer, place.slot);
      if (part == 0) Block::wait_full(scorer, place);
#pragma unroll
      for (int sum = 0; sum < sums; ++sum) {
        const int box = sum / sums_of_box, at = sum % sums_of_box * sum_steps * step_bytes;
        const unsigned of_documents = documents + box * box_bytes + at;
        const unsigned of_queries = queries + (stage * Block::stage_boxes + box) * query_block_bytes + at;
        if (is_one_stage && sum == 0) {  // nothing to add to, nor to wait for before the next
          multiply(tile, of_documents, of_queries);
          if (sums == 1) wait(tile);
        } else {
          Tile products;
          multiply(products, of_documents, of_queries);
          wait(products);
          if (is_one_stage && sum == 1) ptx::hold(tile.value);
#pragma unroll
          for (int i = 0; i < part_columns / 2; ++i) tile.value[i] += products.value[i];
        }
      }
      if (part + 1 == parts && stage + 1 < count) Block::release(scorer, place.slot, lane);
      if (stage + 1 < count) place.advance();
    }
  }

  // The tiles of one document. Its first active token, -1: none.
  template <class Place>
  __device__ __forceinline__ int score_document(const Args&, const Document& document, Place& place, unsigned queries,
                                                int scorer, int warp, int lane, Maxima (&maxima)[parts]) const {
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
        finish_part(tile, rows, first_t, warp, lane, maxima[part]);
      }
      place.advance();
    }
    return first_active;
  }

  __device__ __forceinline__ float factored(int column, Best<feature::save_argmax>& best, int, int slot) const {
    return Fp8Scales::factored(best.value, Block::small().query_extras[slot], column);
  }
};

}  // namespace msj

extern "C" __global__ void __launch_bounds__(msj::Fp8Forward::Block::threads, msj::config::min_blocks)
    fp8_forward(const __grid_constant__ msj::Args args) {
  msj::HopperForward<msj::Fp8Forward>::run(args);
}
