// dense_forward, hopper_queries path (sm_90a; bf16, fp16): score[i, j] = sum over s of max over t of <Q[i, s], D[j, t]>,
// for many query tokens. The block is common/hopper/query_rows.cuh's; what its rows are is here.
//
// Norms are sums of squares of what lies in shared memory, of documents by two warps beside those that score.
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
#include "common/hopper/fragment_wgmma.cuh"
#include "common/hopper/passes.cuh"
#include "common/hopper/query_columns.cuh"
#include "common/hopper/query_rows.cuh"
#include "common/hopper/tensor_rows.cuh"
#include "common/hopper/half_squares.cuh"

namespace msj {

constexpr DType type = dtype::q;
using Element = Numeric<type>::Storage;

struct DenseQueries : TensorRows<DenseQueries, QueryRowsForward<DenseQueries>>,
                      HalfQueryFactors<QueryRowsForward<DenseQueries>, type> {
  using Block = QueryRowsForward<DenseQueries>;
  static constexpr int element_bytes = 2;
  static constexpr int resident_steps = static_size::d <= 128 ? divide_up(static_size::d, 16) : 0;
  using Tile = WarpgroupTile<tile_rows>;

  static constexpr int row_extra_bytes = sizeof(RowFactor);
  struct RowExtras {
    float factor[feature::normalize ? tile_rows : 2], scale[feature::normalize ? tile_rows : 2];
    int is_scaled[2];  // whether a scale of the first or the last 32 rows is not 1
  };

  __device__ __forceinline__ explicit DenseQueries(const Args&) {}

  // --- make rows -----------------------------------------------------------------------------------------------------

  static constexpr bool makes_rows = feature::normalize, reads_extras = feature::normalize;

  // The factors of 32 of a tile's rows, two lanes a row.
  struct RowMaker {
    float squares[2] = {0.0f, 0.0f};  // of rows 16 apart

    __device__ __forceinline__ void add(unsigned documents, int maker, int lane) {
#pragma unroll
      for (int box = 0; box < Block::stage_boxes; ++box)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          squares[i] = HalfSquares<type>::add(squares[i], documents + box * box_bytes, row(maker, i, lane), lane / 16);
    }

    __device__ __forceinline__ void store(const Args& args, const Document& document, int first_t, RowExtras& extras,
                                          int maker, int lane) const {
      bool is_scaled = false;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int r = row(maker, i, lane), t = first_t + r;
        const auto* in_memory = static_cast<const Element*>(args.d.data) + document.index * args.d.stride[0] +
                                t * args.d.stride[1];
        const RowFactor factor = HalfSquares<type>::factor(squares[i], t < document.length ? in_memory : nullptr,
                                                           args.d.stride[2], int(args.size_d), lane / 16);
        is_scaled |= factor.scale != 1.0f;
        if (lane < 16) extras.factor[r] = factor.factor, extras.scale[r] = factor.scale;
      }
      is_scaled = __any_sync(all_lanes, is_scaled);
      if (lane == 0) extras.is_scaled[maker] = is_scaled;
    }

   private:
    static __device__ __forceinline__ int row(int maker, int i, int lane) { return maker * 32 + i * 16 + lane % 16; }
  };

  // --- score ---------------------------------------------------------------------------------------------------------

  // All of d in one sum.
  static __device__ __forceinline__ void multiply_tile(Tile& tile, typename Block::Queries& queries,
                                                       typename Block::Place& place, int lane) {
    int previous = 0;
#pragma unroll
    for (int stage = 0; stage < Block::tile_stages; ++stage) {
      Block::wait_full(place);
      const unsigned documents = Block::stage_address(0, place.slot);
      ptx::products_fence();
#pragma unroll
      for (int at = 0; at < Block::stage_steps; ++at)
        Block::template multiply_step<type, type>(tile, queries, stage * Block::stage_boxes * 4 + at, documents, at,
                                                  stage > 0 || at > 0);
      ptx::products_commit();
      if (stage > 0) {
        ptx::products_wait<1>();
        Block::release(previous, lane);
      }
      previous = place.slot;
      if (stage + 1 < Block::tile_stages) place.advance();
    }
    ptx::products_wait<0>();
    ptx::hold(tile.value);
  }

  // Document tokens' norms: the product is scaled down first where its factor alone would leave the range.
  __device__ __forceinline__ void scale(Tile& tile, const RowExtras& extras, int lane) const {
    if constexpr (feature::normalize) {
      if ((extras.is_scaled[0] | extras.is_scaled[1]) != 0) multiply(tile, extras.scale, lane);
      multiply(tile, extras.factor, lane);
    }
  }
  static __device__ __forceinline__ void multiply(Tile& tile, const float* factors, int lane) {
#pragma unroll
    for (int j = 0; j < Tile::columns; ++j) {
      const float factor = factors[Tile::column(j, lane)];
#pragma unroll
      for (int i = 0; i < Tile::rows; ++i) tile.at(i, j) *= factor;
    }
  }
};

}  // namespace msj

extern "C" __global__ void __launch_bounds__(msj::DenseQueries::Block::threads, 1)
    dense_forward(const __grid_constant__ msj::Args args) {
  msj::QueryRowsForward<msj::DenseQueries>::run(args);
}
