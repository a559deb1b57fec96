#pragma once

// Launch geometry of the hopper_queries paths in closed form: what `kernels/common/hopper/query_rows.cuh` works out for
// itself at compile time, worked out again on the host; and the table's words for it. Pure functions; any thread.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/op_spec.h"
#include "ops/hopper_geometry.h"

namespace msj::ops {

// The tunables of one candidate, under the names that the kernel's `config` namespace has.
struct QueryRowsTile {
  int block_query = 0;    // packed query tokens of a block, 64 a warpgroup: 128 or 256
  int ring = 0;           // most boxes (64 tokens x 128 bytes, 8 KB) of the ring; as many as fit are used
  int query_buffers = 0;  // 2 brings in the next chunk of a long query while this one is scored
  int persistent = 0;     // 0: a block for each document (x query group); n: n blocks per multiprocessor
};
inline constexpr std::array<std::string_view, 4> kQueryRowsTunables = {"block_query", "ring", "query_buffers",
                                                                       "persistent"};

QueryRowsTile query_rows_tile(const TileConfig &config);

// How shared memory is divided, with every feature on. What rows are is as in HopperRows: of its fields, bytes of an
// element and of extras.
HopperMemory query_rows_memory(const QueryRowsTile &tile, const HopperRows &rows, int static_d);

int query_rows_threads(const QueryRowsTile &tile);

// Empty if every feature set can run with this tile; else one sentence that says why not.
std::string query_rows_admission(const QueryRowsTile &tile, const HopperRows &rows, int static_d,
                                 std::int64_t shared_limit_bytes);

// The one launch; sizes at least 1 but for Lq, counts below 2^31 (layout class aligned16).
LaunchList query_rows_launch(const QueryRowsTile &tile, const HopperRows &rows, const HopperSizes &sizes, int static_d,
                             int sm_count);

}  // namespace msj::ops
