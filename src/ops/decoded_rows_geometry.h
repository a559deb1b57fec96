// Launch geometry of residual_forward's paths that decode rows in registers, in closed form: what
// kernels/common/hopper/decoded_rows.cuh works out for itself, worked out again on the host. Pure functions; any
// thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/op_spec.h"
#include "ops/residual_geometry.h"

namespace msj::ops {

// The tunables of one candidate, under the names that the kernel's `config` namespace has.
struct DecodedRowsTile {
  int block_query = 32;  // query tokens of a group; of T's rows always 32
  int teams = 0;         // warpgroups of a block, with a document each
  int ring = 0;          // tiles of 64 tokens that a team has of, or is waiting for
  int min_blocks = 0;    // blocks that share a multiprocessor
  int persistent = 0;    // 0: a team per document (x query group); n: n blocks per multiprocessor, which loop
};
inline constexpr std::array<std::string_view, 4> kHopperTableTunables = {"teams", "ring", "min_blocks", "persistent"};
inline constexpr std::array<std::string_view, 5> kHopperGatherTunables = {"block_query", "teams", "ring", "min_blocks",
                                                                          "persistent"};
DecodedRowsTile decoded_rows_tile(const TileConfig &config);

// What a token's code stands for: a row of T, or a centroid's row, decoded to registers with its bits.
enum class Coded : std::uint8_t { table, centroids };

struct DecodedRows {
  Coded coded;
  int static_d, nbits;
};

// Dynamic shared memory of a block, every feature on. Queries of more tokens than a group: each team has its own.
std::int64_t decoded_rows_shared_bytes(const DecodedRowsTile &tile, const DecodedRows &rows, std::int64_t Lq);
ScoreBlocks decoded_rows_blocks(const DecodedRowsTile &tile, const DecodedRows &rows, std::int64_t Lq);

// "" if every feature set can run with this tile, else one sentence. Lq: the bucket's edge.
std::string decoded_rows_admission(const DecodedRowsTile &tile, const DecodedRows &rows, Layout layout, std::int64_t Lq,
                                   std::int64_t shared_limit_bytes);

}  // namespace msj::ops
