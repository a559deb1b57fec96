#pragma once
// Launch geometry of the hopper forward kernels in closed form: what `kernels/common/hopper/forward.cuh` works out for
// itself at compile time, worked out again on the host; and the table's words for it. Pure functions; any thread.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/op_spec.h"

namespace msj::ops {

// The tunables of one candidate, under the names that the kernel's `config` namespace has.
struct HopperTile {
  int block_query = 0;    // packed query tokens of a block: N of the products, 32, 64, 128 or 256
  int scorers = 0;        // warpgroups, each with documents and a ring of its own: 1 or 2
  int ring = 0;           // most boxes (64 tokens x 128 bytes, 8 KB) of a ring; as many as fit are used
  int query_buffers = 0;  // 2 brings in the next chunk of a long query while this one is scored
  int min_blocks = 0;     // blocks that share a multiprocessor
  int persistent = 0;     // 0: a block for each document of a scorer (x query group); n: n blocks per multiprocessor
  int loaders = 1;        // warps that fill a scorer's ring, where an op has this tunable
};
inline constexpr std::array<std::string_view, 6> kHopperTunables = {"block_query",   "scorers",    "ring",
                                                                    "query_buffers", "min_blocks", "persistent"};
HopperTile hopper_tile(const TileConfig &config);

// What an op's rows are, under the names that its kernel has.
struct HopperRows {
  int element_bytes = 0;
  int query_extra_bytes = 0;   // of shared memory for each column, beside its mask
  int row_extra_bytes = 0;     // and for each row of a stage, beside its mask
  int shared_bytes = 0;        // and for all of a block
  bool separate_sums = false;  // of a tile's k blocks, in registers of their own
  int other_registers = 60;    // of a scoring or loading thread, beside the columns' state
};

// How shared memory is divided, with every feature on.
struct HopperMemory {
  std::int64_t query_bytes = 0;  // of one buffer
  int boxes = 0;                 // of one ring; below 1: nothing fits
  int stage_boxes = 0;           // k blocks of 128 bytes in a stage
  int stages = 0;
  int tile_stages = 0;           // stages that hold one tile of 64 tokens
  std::int64_t block_bytes = 0;  // dynamic shared memory of a block
};
// Rings of up to `most_boxes` in `room` bytes, for rows of k_blocks times 128 bytes: all but query_bytes and
// block_bytes.
HopperMemory hopper_rings(std::int64_t room, int rings, int most_boxes, int k_blocks);
// "" or one sentence that says why a ring is too short.
std::string ring_problem(const HopperMemory &memory);
// What a row takes of 128-byte blocks.
int hopper_k_blocks(const HopperRows &rows, int static_d);

HopperMemory hopper_memory(const HopperTile &tile, const HopperRows &rows, int static_d);

int hopper_threads(const HopperTile &tile);

// Empty if every feature set can run with this tile; else one sentence that says why not.
// shared_limit_bytes: what one block may have (the multiprocessor has 1 KB more).
std::string hopper_admission(const HopperTile &tile, const HopperRows &rows, int static_d,
                             std::int64_t shared_limit_bytes);

// Sizes at least 1 but for Lq, counts below 2^31 (layout class aligned16).
struct HopperSizes {
  std::int64_t Nq, Nd, Lq;
};
// Blocks of a launch: query groups times as many rounds of documents as there are, or as `persistent` asks for.
std::int64_t hopper_grid(int block_query, int documents_at_once, int persistent, const HopperSizes &sizes,
                         int sm_count);
// The one launch.
LaunchList hopper_launch(const HopperTile &tile, const HopperRows &rows, const HopperSizes &sizes, int static_d,
                         int sm_count);

// Boxes of the tensor maps: of queries [Nq, Lq, d] 8 tokens, of documents [Nd, Ld, d] 64, each 128 bytes
// of d.
TensorBox hopper_query_box(const TensorBoxQuery &query);
TensorBox hopper_document_box(const TensorBoxQuery &query);

}  // namespace msj::ops
