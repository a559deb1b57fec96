#pragma once
// Launch geometry of the forward ops' portable kernels in closed form: what `kernels/common/forward.cuh` works out for
// itself at compile time, worked out again on the host; and the table's words for it. Pure functions; any thread.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/op_spec.h"

namespace msj::ops {

// The tunables of one candidate, under the names that the kernel's `config` namespace has.
struct ForwardTile {
  int block_doc = 0;       // document tokens of a tile
  int block_query = 0;     // packed query tokens of a block, a multiple of 32
  int warps_doc = 0;       // warps along the document tokens
  int warps_query = 0;     // warps along the query tokens
  int stages = 0;          // of the copy ring, at least 2
  int block_k = 0;         // most of d that a stage holds
  int query_resident = 0;  // 1: all of d of the block's queries in shared memory; 0: k blocks beside the document's
  int query_buffers = 0;   // resident: 2 brings in the next chunk of a long query while this one is scored
  int min_blocks = 0;      // blocks that share a multiprocessor
  int persistent = 0;      // 0: a block per document (x query group); n: n blocks per multiprocessor, which loop
};

// What an op's rows are to its kernel.
struct ForwardRows {
  int document_bytes = 0;  // of an element in shared memory
  int query_bytes = 0;
  int k_unit = 0;                 // k blocks are multiples of it
  int single_k_unit = 0;          // and a k block that is all of d of this
  int query_extras = 0;           // bytes for each column, every feature on
  int row_extras = 0;             // bytes for each document row of each stage
  int accumulators = 1;           // registers for each element of the tile
  int fragments_per_16_rows = 0;  // registers of a warp's fragments, beside its columns'
  int fragments = 0;
  int coded_bytes = 0;  // of an element of a row that is decoded in the block; 0: rows are copied as they are
  int coded_bits = 0;   // beside it, for each element
  int table_bytes = 0;  // what decoding looks up
};

inline constexpr std::array<std::string_view, 10> kForwardTunables = {
    "block_doc", "block_query",    "warps_doc",     "warps_query", "stages",
    "block_k",   "query_resident", "query_buffers", "min_blocks",  "persistent"};
ForwardTile forward_tile(const TileConfig &config);

int forward_threads(const ForwardTile &tile);

// Dynamic shared memory of a block with every feature on.
std::int64_t forward_shared_bytes(const ForwardTile &tile, const ForwardRows &rows, int static_d);

// Registers that a thread of the all-features specialization needs, a little generously.
int forward_registers(const ForwardTile &tile, const ForwardRows &rows);

// Empty if every feature set can run with this tile; else one sentence that says why not.
// shared_limit_bytes: what one block may have (the multiprocessor has 1 KB more).
std::string forward_admission(const ForwardTile &tile, const ForwardRows &rows, int static_d,
                              std::int64_t shared_limit_bytes);

// Blocks of the one-dimensional grid, at most 2^31 - 1. Sizes at least 1 but for Lq.
std::int64_t forward_grid(const ForwardTile &tile, std::int64_t Nq, std::int64_t Nd, std::int64_t Lq, int sm_count);

// The one launch of such a kernel; `sizes` are Nq, Nd and Lq.
struct ForwardSizes {
  std::int64_t Nq, Nd, Lq;
};
LaunchList forward_launch(const ForwardTile &tile, const ForwardRows &rows, const ForwardSizes &sizes, int static_d,
                          int sm_count);

}  // namespace msj::ops
