#include "ops/hopper_geometry.h"

#include <algorithm>

#include "ops/block_limits.h"

namespace msj::ops {
namespace {

constexpr int shared_per_sm = 228 * 1024;
constexpr int tile_rows = 64, row_bytes = 128, box_bytes = tile_rows * row_bytes;

// struct Small of the kernel, generously.
std::int64_t small_bytes(const HopperTile &tile, const HopperRows &rows) {
  const std::int64_t partial = std::int64_t{tile.scorers} * 4 * tile.block_query * 8;
  const std::int64_t queries =
      std::int64_t{tile.query_buffers} * (tile.block_query * (1 + rows.query_extra_bytes) + 24);
  const std::int64_t ring = std::int64_t{tile.scorers} * (tile.ring * (24 + tile_rows * rows.row_extra_bytes) + 8);
  return round_up(partial + queries + ring + rows.shared_bytes + 64, std::int64_t{128});
}

// Queries' and documents' dtypes are of one size.
int k_block_of(const TensorBoxQuery &query) { return row_bytes / static_cast<int>(bytes(query.dtypes[0])); }

std::string range_problem(const HopperTile &tile) {
  constexpr int most = 64;
  const auto within = [](int value, int low, int high) { return value >= low && value <= high; };
  if (!within(tile.scorers, 1, 2) || !within(tile.ring, 1, most) || !within(tile.query_buffers, 1, 2) ||
      !within(tile.min_blocks, 1, 4) || !within(tile.persistent, 0, most) || !within(tile.loaders, 1, 8))
    return "a tunable is out of range: scorers and query_buffers are 1 or 2, ring is 1 to 64, min_blocks 1 to 4, "
           "persistent 0 to 64, loaders 1 to 8";
  const std::array<int, 4> columns = {32, 64, 128, 256};
  if (std::find(columns.begin(), columns.end(), tile.block_query) == columns.end())
    return "block_query is out of range: 32, 64, 128 or 256";
  if (tile.scorers > 1 && tile.min_blocks > 1) return "two scorers take all registers of a multiprocessor";
  if (tile.scorers > 1 && tile.loaders > 3) return "two scorers leave registers to 8 loading warps: 3 loaders each";
  return {};
}

// Registers that a thread of the all-features specialization needs, a little generously. Two scorers get 192 or 224
// from the loading warps, which is enough for all columns.
std::string register_problem(const HopperTile &tile, const HopperRows &rows) {
  if (tile.scorers > 1) return {};
  const int needed = tile.block_query * (rows.separate_sums ? 3 : 2) / 2 + rows.other_registers;
  return block_rejection({.threads = hopper_threads(tile), .min_blocks = tile.min_blocks, .registers = needed},
                         shared_per_sm);
}

}  // namespace

HopperTile hopper_tile(const TileConfig &config) {
  return {.block_query = config.at("block_query"),
          .scorers = config.at("scorers"),
          .ring = config.at("ring"),
          .query_buffers = config.at("query_buffers"),
          .min_blocks = config.at("min_blocks"),
          .persistent = config.at("persistent"),
          .loaders = config.tunables.contains("loaders") ? config.at("loaders") : 1};
}

// Four warps a scorer, those that load for each, and one for queries; setmaxnreg needs whole warpgroups.
int hopper_threads(const HopperTile &tile) {
  const int loading = 32 * (1 + tile.scorers * tile.loaders);
  return 128 * tile.scorers + (tile.scorers > 1 ? round_up(loading, 128) : loading);
}

int hopper_k_blocks(const HopperRows &rows, int static_d) {
  return divide_up(static_d * rows.element_bytes, row_bytes);
}

HopperMemory hopper_rings(std::int64_t room, int rings, int most_boxes, int k_blocks) {
  HopperMemory memory;
  memory.boxes = static_cast<int>(std::min<std::int64_t>(room / (std::int64_t{rings} * box_bytes), most_boxes));
  memory.stage_boxes = k_blocks % 2 == 0 && memory.boxes >= 8 ? 2 : 1;
  memory.stages = memory.boxes / memory.stage_boxes;
  memory.tile_stages = k_blocks / memory.stage_boxes;
  return memory;
}

std::string ring_problem(const HopperMemory &memory) {
  constexpr int least_stages = 3;
  if (memory.stages >= least_stages) return {};
  return std::to_string(std::max(memory.stages, 0)) + " stages fit beside the queries, a ring needs at least " +
         std::to_string(least_stages);
}

HopperMemory hopper_memory(const HopperTile &tile, const HopperRows &rows, int static_d) {
  const int k_blocks = hopper_k_blocks(rows, static_d);
  const std::int64_t query_bytes = std::int64_t{k_blocks} * tile.block_query * row_bytes;
  const std::int64_t block = (std::int64_t{shared_per_sm} / tile.min_blocks - block_reserve) / 128 * 128;
  const std::int64_t beside = tile.query_buffers * query_bytes + small_bytes(tile, rows);
  HopperMemory memory = hopper_rings(block - beside, tile.scorers, tile.ring, k_blocks);
  memory.query_bytes = query_bytes;
  memory.block_bytes = beside + std::int64_t{tile.scorers} * memory.stages * memory.stage_boxes * box_bytes;
  return memory;
}

std::string hopper_admission(const HopperTile &tile, const HopperRows &rows, int static_d,
                             std::int64_t shared_limit_bytes) {
  if (std::string problem = range_problem(tile); !problem.empty()) return problem;
  if (std::string problem = register_problem(tile, rows); !problem.empty()) return problem;
  const HopperMemory memory = hopper_memory(tile, rows, static_d);
  if (std::string problem = ring_problem(memory); !problem.empty()) return problem;
  // 256 columns may be scored in parts, from the same stages; by turns, beside the next tile's first one.
  if (tile.block_query == 256 && memory.stages <= memory.tile_stages)
    return std::to_string(memory.stages) + " stages fit, a tile takes " + std::to_string(memory.tile_stages) +
           ", of which none is free before its end";
  return block_rejection(
      {.threads = hopper_threads(tile), .min_blocks = tile.min_blocks, .shared_bytes = memory.block_bytes},
      shared_limit_bytes);
}

std::int64_t hopper_grid(int block_query, int documents_at_once, int persistent, const HopperSizes &sizes,
                         int sm_count) {
  if (sizes.Nq == 0 || sizes.Nd == 0) return 0;
  constexpr std::int64_t most = 2147483647;
  const std::int64_t padded = std::max<std::int64_t>(round_up(sizes.Lq, std::int64_t{8}), 8);
  const std::int64_t fitting = std::max<std::int64_t>(block_query / padded, 1);  // whole queries per block
  const std::int64_t lanes = std::min(divide_up(sizes.Nq, fitting), most);
  std::int64_t rounds = std::min(divide_up(sizes.Nd, std::int64_t{documents_at_once}), most / lanes);
  if (persistent > 0) rounds = std::min(rounds, std::max<std::int64_t>(std::int64_t{persistent} * sm_count / lanes, 1));
  return lanes * rounds;
}

LaunchList hopper_launch(const HopperTile &tile, const HopperRows &rows, const HopperSizes &sizes, int static_d,
                         int sm_count) {
  const std::int64_t grid = hopper_grid(tile.block_query, tile.scorers, tile.persistent, sizes, sm_count);
  LaunchList list;
  if (grid == 0) return list;
  list.add({.entry = 0,
            .grid = grid,
            .threads = hopper_threads(tile),
            .shared_bytes = static_cast<int>(hopper_memory(tile, rows, static_d).block_bytes)});
  return list;
}

TensorBox hopper_query_box(const TensorBoxQuery &query) {
  return {.extent = {1, 8, static_cast<std::uint32_t>(k_block_of(query))}, .swizzle_bytes = row_bytes};
}
TensorBox hopper_document_box(const TensorBoxQuery &query) {
  return {.extent = {1, tile_rows, static_cast<std::uint32_t>(k_block_of(query))}, .swizzle_bytes = row_bytes};
}

}  // namespace msj::ops
