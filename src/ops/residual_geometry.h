// Launch geometry of residual_forward's table paths in closed form: what kernels/common/residual_table.cuh and
// kernels/residual_forward.table.cu work out for themselves, worked out again on the host. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/op_spec.h"

namespace msj::ops {

// A row's bits in quarters of whole words, a lane's each, and their k steps of 4 features.
int quarter_words(int static_d, int nbits);
int quarter_steps(int static_d, int nbits);

struct TableTile {
  int team = 0;        // warps that share a document
  int teams = 0;       // of a block
  int min_blocks = 0;  // blocks that share a multiprocessor
  int persistent = 0;  // 0: a team per document (x query group); n: n blocks per multiprocessor, which loop
  int kept = 0;        // k steps of the queries that stay in registers
};

struct TableSizes {
  std::int64_t Nq, Nd, Lq, K;
};

inline constexpr std::int64_t kTableBytes = std::int64_t{1} << 28;  // of T in one round

// A launch of scores: documents that a block takes at a time, and what it is made of.
struct ScoreBlocks {
  int documents = 0;
  int persistent = 0;  // as in TableTile
  int threads = 0;
  std::int64_t shared_bytes = 0;
  bool waits_for_table = false;  // itself, rather than as a launch
};

int table_threads(const TableTile &tile);
// Dynamic shared memory of a block of scores, every feature on, and of one that makes T.
std::int64_t table_shared_bytes(const TableTile &tile, int nbits);
inline constexpr int kTableProductsSharedBytes = 16;
ScoreBlocks table_blocks(const TableTile &tile, int nbits);
// Registers that a thread of the scores needs.
int table_registers(const TableTile &tile, int static_d, int nbits, Layout layout);

// The queries as the second kernel wants them and T, of the largest round.
std::int64_t table_workspace_bytes(const TableSizes &sizes, int static_d, int nbits);
// Rounds of two launches: T (entry 0), scores (entry 1).
LaunchList table_launch(const ScoreBlocks &blocks, const TableSizes &sizes, int sm_count);

// "" if T has a place, else one sentence. K and Lq: the bucket's edges.
std::string table_problem(std::int64_t K, std::int64_t Lq);
// "" if every feature set can run with this tile, else one sentence.
std::string table_admission(const TableTile &tile, int static_d, int nbits, Layout layout, std::int64_t K,
                            std::int64_t Lq, std::int64_t shared_limit_bytes);

}  // namespace msj::ops
