// fp8_forward, hopper_queries path (sm_90a): score[i, j] = sum over s of scale_q[i, s] * max over t of (scale_d[j, t] *
// <Q, D>) on e4m3 and e5m2, for many query tokens. The block is common/hopper/query_rows.cuh's; what its rows are is
// here, scales are common/hopper/fp8_scales.cuh's.
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
#include "common/hopper/fragment_wgmma.cuh"
#include "common/hopper/passes.cuh"
#include "common/hopper/query_columns.cuh"
#include "common/hopper/fp8_scales.cuh"
#include "common/hopper/query_rows.cuh"
#include "common/hopper/tensor_rows.cuh"

namespace msj {

struct Fp8Queries : TensorRows<Fp8Queries, QueryRowsForward<Fp8Queries>>, Fp8Scales {
  using Block = QueryRowsForward<Fp8Queries>;
  static constexpr int element_bytes = 1;
  static constexpr int sum_steps = 2;  // of 32 that the tensor cores add up
  static constexpr int k_steps = divide_up(static_size::d, 32);
  static constexpr int resident_steps = k_steps > 4 ? 0 : k_steps < 3 ? k_steps : 3;  // as many as registers hold
  using Tile = WarpgroupTile<tile_rows>;
  using Fp8Scales::copy_rows;
  using Fp8Scales::Fp8Scales;

  // --- load ----------------------------------------------------------------------------------------------------------

  static constexpr bool prepares = feature::scale_q_per_token, copies_rows = feature::scale_d_per_token;
  static constexpr int arrivals = ptx::arriving_lanes + (copies_rows ? 32 : 0);
  static constexpr bool reads_extras = feature::scale_d_per_token;

  static __device__ __forceinline__ void prepare_column(const Args& args, const Group::Token& token, int column,
                                                        int half, int slot, int) {
    if (half == 0) Block::small().query_extras[slot].scale[column] = of_query(args, token);
  }

  // --- score ---------------------------------------------------------------------------------------------------------

  // A sum of up to 64 of d, over what the accumulators held: begun, and in them when it has been waited for.
  static __device__ __forceinline__ void multiply(Tile& products, typename Block::Queries& queries, int stage,
                                                  unsigned documents, int at) {
    ptx::products_fence();
#pragma unroll
    for (int i = 0; i < sum_steps && at + i < Block::stage_steps; ++i)
      Block::template multiply_step<dtype::q, dtype::d>(products, queries, stage * Block::stage_boxes * 4 + at + i,
                                                        documents, at + i, i > 0);
    ptx::products_commit();
  }
  static __device__ __forceinline__ void wait_and_add(Tile& tile, Tile& products) {
    ptx::products_wait<0>();
    ptx::hold(tile.value);
    ptx::hold(products.value);
#pragma unroll
    for (int i = 0; i < tile_rows / 2; ++i) tile.value[i] += products.value[i];
  }

  static __device__ __forceinline__ void multiply_tile(Tile& tile, typename Block::Queries& queries,
                                                       typename Block::Place& place, int lane) {
#pragma unroll
    for (int stage = 0; stage < Block::tile_stages; ++stage) {
      Block::wait_full(place);
      const unsigned documents = Block::stage_address(0, place.slot);
#pragma unroll
      for (int at = 0; at < Block::stage_steps; at += sum_steps) {
        if (stage == 0 && at == 0) {  // nothing to add to, nor to wait for before the next
          multiply(tile, queries, stage, documents, at);
        } else {
          Tile products;
          multiply(products, queries, stage, documents, at);
          wait_and_add(tile, products);
        }
      }
      if (stage + 1 < Block::tile_stages) {
        Block::release(place.slot, lane);
        place.advance();
      }
    }
    if (Block::stage_steps <= sum_steps) {
      ptx::products_wait<0>();
      ptx::hold(tile.value);
    }
  }

  __device__ __forceinline__ void scale(Tile& tile, const RowExtras& extras, int lane) const {
    if (!multiplies_rows()) return;
#pragma unroll
    for (int j = 0; j < Tile::columns; ++j) {
      const float factor = feature::scale_d_per_token ? extras.scale[Tile::column(j, lane)] : row_scale;
#pragma unroll
      for (int i = 0; i < Tile::rows; ++i) tile.at(i, j) = __fmaf_rn(tile.at(i, j), factor, 0.0f);
    }
  }

  __device__ __forceinline__ float factored(int column, Best<feature::save_argmax>& best, int, int slot) const {
    return Fp8Scales::factored(best.value, Block::small().query_extras[slot], column);
  }
};

}  // namespace msj

extern "C" __global__ void __launch_bounds__(msj::Fp8Queries::Block::threads, 1)
    fp8_forward(const __grid_constant__ msj::Args args) {
  msj::QueryRowsForward<msj::Fp8Queries>::run(args);
}
