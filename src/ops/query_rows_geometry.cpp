#include "ops/query_rows_geometry.h"

#include <algorithm>

#include "ops/block_limits.h"

namespace msj::ops {

namespace {

constexpr int shared_per_block = 227 * 1024;
constexpr int tile_rows = 64, row_bytes = 128, box_bytes = tile_rows * row_bytes;
constexpr int result_buffers = 2;

// struct Small of the kernel, generously.
std::int64_t small_bytes(const QueryRowsTile &tile, const HopperRows &rows) {
  const std::int64_t results = std::int64_t{result_buffers} * (tile.block_query * 8 + 24);
  const std::int64_t queries =
      std::int64_t{tile.query_buffers} * (tile.block_query * (1 + rows.query_extra_bytes) + 16);
  const std::int64_t ring = std::int64_t{tile.ring} * (48 + tile_rows * rows.row_extra_bytes);
  return round_up(results + queries + ring + 128, std::int64_t{128});
}

std::string range_problem(const QueryRowsTile &tile) {
  const auto within = [](int value, int low, int high) { return value >= low && value <= high; };
  if (tile.block_query != 128 && tile.block_query != 256) return "block_query is out of range: 128 or 256";
  if (!within(tile.ring, 1, 64) || !within(tile.query_buffers, 1, 2) || !within(tile.persistent, 0, 64))
    return "a tunable is out of range: ring is 1 to 64, query_buffers 1 or 2, persistent 0 to 64";
  return {};
}

}  // namespace

QueryRowsTile query_rows_tile(const TileConfig &config) {
  return {.block_query = config.at("block_query"),
          .ring = config.at("ring"),
          .query_buffers = config.at("query_buffers"),
          .persistent = config.at("persistent")};
}

// A warpgroup for each 64 query tokens, and one that loads and sums.
int query_rows_threads(const QueryRowsTile &tile) { return 128 * (tile.block_query / 64) + 128; }

HopperMemory query_rows_memory(const QueryRowsTile &tile, const HopperRows &rows, int static_d) {
  const int k_blocks = hopper_k_blocks(rows, static_d);
  const std::int64_t query_bytes = std::int64_t{k_blocks} * tile.block_query * row_bytes;
  const std::int64_t beside = tile.query_buffers * query_bytes + small_bytes(tile, rows);
  HopperMemory memory = hopper_rings(shared_per_block - beside, 1, tile.ring, k_blocks);
  memory.query_bytes = query_bytes;
  memory.block_bytes = beside + std::int64_t{memory.stages} * memory.stage_boxes * box_bytes;
  return memory;
}

std::string query_rows_admission(const QueryRowsTile &tile, const HopperRows &rows, int static_d,
                                 std::int64_t shared_limit_bytes) {
  if (std::string problem = range_problem(tile); !problem.empty()) return problem;
  const HopperMemory memory = query_rows_memory(tile, rows, static_d);
  if (std::string problem = ring_problem(memory); !problem.empty()) return problem;
  return block_rejection({.threads = query_rows_threads(tile), .min_blocks = 1, .shared_bytes = memory.block_bytes},
                         shared_limit_bytes);
}

LaunchList query_rows_launch(const QueryRowsTile &tile, const HopperRows &rows, const HopperSizes &sizes, int static_d,
                             int sm_count) {
  const std::int64_t grid = hopper_grid(tile.block_query, 1, tile.persistent, sizes, sm_count);
  LaunchList list;
  if (grid == 0) return list;
  list.add({.entry = 0,
            .grid = grid,
            .threads = query_rows_threads(tile),
            .shared_bytes = static_cast<int>(query_rows_memory(tile, rows, static_d).block_bytes)});
  return list;
}

}  // namespace msj::ops
