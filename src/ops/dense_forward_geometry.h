#pragma once
// Launch geometry of dense_forward's portable kernel in closed form: what `kernels/dense_forward.portable.cu` works out
// for itself at compile time, worked out again on the host. Pure functions; any thread.

#include <cstdint>
#include <string>

namespace msj::ops {

// The tunables of one candidate, under the names that the kernel's `config` namespace has.
struct DenseTile {
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

int dense_threads(const DenseTile &tile);

// Dynamic shared memory of a block with every feature on. element_bytes: 2 or 4.
std::int64_t dense_shared_bytes(const DenseTile &tile, int static_d, int element_bytes);

// Registers that a thread of the all-features specialization needs, a little generously.
int dense_registers(const DenseTile &tile, int element_bytes);

// Empty if every feature set can run with this tile; else one sentence that says why not.
// shared_limit_bytes: what one block may have (the multiprocessor has 1 KB more).
std::string dense_admission(const DenseTile &tile, int static_d, int element_bytes, std::int64_t shared_limit_bytes,
                            bool aligned16);

// Blocks of the one-dimensional grid, at most 2^31 - 1. Sizes at least 1 but for Lq.
std::int64_t dense_grid(const DenseTile &tile, std::int64_t Nq, std::int64_t Nd, std::int64_t Lq, int sm_count);

}  // namespace msj::ops
