#pragma once
// Launch geometry of `kernels/fused_head_forward.hopper.cu` in closed form: what the kernel works out for itself at
// compile time, worked out again on the host; and the table's words for it. Pure functions; any thread.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/op_spec.h"

namespace msj::ops {

// The tunables of one candidate, under the names that the kernel's `config` namespace has.
struct FusedHeadHopperTile {
  int block_query = 0;    // packed query tokens of a pass: N of the scores' products, 32, 64 or 128
  int scorers = 0;        // warpgroups that share a tile's rows: 2, 3 or 4
  int row_blocks = 0;     // 64 rows each of a scorer: 1 to 3
  int ring = 0;           // most stages (a tile's rows x 64 of d_model) of the ring; as many as fit are used
  int query_buffers = 0;  // 2 brings in the next query tokens while these are scored
};
inline constexpr std::array<std::string_view, 5> kFusedHeadHopperTunables = {"block_query", "scorers", "row_blocks",
                                                                             "ring", "query_buffers"};
FusedHeadHopperTile fused_head_hopper_tile(const TileConfig &config);

inline constexpr int fused_head_hopper_most_out = 128;  // of d_out: one row's accumulators

// How shared memory is divided, with every feature on.
struct FusedHeadHopperMemory {
  std::int64_t query_bytes = 0;  // of one buffer
  bool w_stays = false;          // all of W is in shared memory; else it comes with the stages
  std::int64_t stage_bytes = 0;
  int stages = 0;                // below 1: nothing fits
  std::int64_t block_bytes = 0;  // dynamic shared memory of a block
};
FusedHeadHopperMemory fused_head_hopper_memory(const FusedHeadHopperTile &tile, int static_out, int static_model);

int fused_head_hopper_threads(const FusedHeadHopperTile &tile);

// Empty if every feature set can run with this tile; else one sentence that says why not.
std::string fused_head_hopper_admission(const FusedHeadHopperTile &tile, int static_out, int static_model,
                                        std::int64_t shared_limit_bytes);

struct FusedHeadHopperSizes {
  std::int64_t Nq, Nd, Lq;
};
// Blocks of the one-dimensional grid, no more than run at once.
std::int64_t fused_head_hopper_grid(const FusedHeadHopperSizes &sizes, int sm_count);
// Keys of all blocks where the query tokens of one projection take several passes; else 0.
std::int64_t fused_head_hopper_workspace_bytes(const FusedHeadHopperTile &tile, const FusedHeadHopperSizes &sizes,
                                               int sm_count, bool save_argmax);

// Boxes of the tensor maps, each 64 of k: of queries [Nq, Lq, d_out] 8 tokens, of hidden states [Nd, Ld, d_model] 64,
// of W [d_out, d_model] all rows.
TensorBox fused_head_hopper_query_box(const TensorBoxQuery &query);
TensorBox fused_head_hopper_hidden_box(const TensorBoxQuery &query);
TensorBox fused_head_hopper_w_box(int static_out);

}  // namespace msj::ops
