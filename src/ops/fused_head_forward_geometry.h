#pragma once
// Launch geometry of fused_head_forward's portable kernel in closed form: what `kernels/fused_head_forward.portable.cu`
// works out for itself at compile time, worked out again on the host. Pure functions; any thread.

#include <cstdint>
#include <string>

namespace msj::ops {

// The tunables of one candidate, under the names that the kernel's `config` namespace has.
struct FusedHeadTile {
  int block_doc = 0;    // document tokens of a tile
  int block_query = 0;  // packed query tokens of a pass, 32 for each warp that shares them
  int block_out = 0;    // most rows of W in a stage
  int block_k = 0;      // of d_model in a stage
  int warps_doc = 0;    // of the projection, along the document tokens
  int warps_out = 0;    // and along d_out
  int stages = 0;       // of the copy ring, at least 2
  int min_blocks = 0;   // blocks that share a multiprocessor
  int persistent = 0;   // 0: a block per document; n: n blocks per multiprocessor, which loop
};

int fused_head_threads(const FusedHeadTile &tile);

// Dynamic shared memory of a block with every feature on. d_out: static; element_bytes: 2 or 4.
std::int64_t fused_head_shared_bytes(const FusedHeadTile &tile, int d_out, int element_bytes);

// Registers that a thread of the all-features specialization needs, a little generously.
int fused_head_registers(const FusedHeadTile &tile, int d_out, int element_bytes);

// Empty if every feature set can run with this tile; else one sentence that says why not.
// shared_limit_bytes: what one block may have (the multiprocessor has 1 KB more).
std::string fused_head_admission(const FusedHeadTile &tile, int d_out, int element_bytes,
                                 std::int64_t shared_limit_bytes);

// The call's sizes at launch.
struct FusedHeadSizes {
  std::int64_t Nq, Nd, Lq;
};

// Blocks of the one-dimensional grid, at most 2^31 - 1, and no more than run at once if they need a workspace.
std::int64_t fused_head_grid(const FusedHeadTile &tile, const FusedHeadSizes &sizes, int sm_count);

// The running maxima of all blocks where the query tokens of one projection take several passes; else 0.
std::int64_t fused_head_workspace_bytes(const FusedHeadTile &tile, const FusedHeadSizes &sizes, int sm_count,
                                        bool save_argmax);

}  // namespace msj::ops
