#include "ops/fused_head_hopper_geometry.h"

#include <algorithm>

#include "ops/block_limits.h"

namespace msj::ops {
namespace {

constexpr int most_shared_bytes = 227 * 1024;  // of a block
constexpr int block_rows = 64, k_block = 64, row_bytes = 128;
constexpr int least_stages = 3;
constexpr std::int64_t span_tokens = 65536;  // query tokens that one projection of a document serves

// N of the projection's product.
int out_columns(int static_out) { return static_out <= 32 ? 32 : static_out <= 64 ? 64 : 128; }

// struct Small of the kernel, generously.
std::int64_t small_bytes(const FusedHeadHopperTile &tile, int static_out) {
  return round_up(2 * 8 * tile.block_query + 4 * out_columns(static_out) + 16 * (tile.ring + tile.query_buffers) +
                      32 * tile.scorers + 80,
                  128);
}

std::string range_problem(const FusedHeadHopperTile &tile) {
  constexpr int most = 64;
  const auto within = [](int value, int low, int high) { return value >= low && value <= high; };
  if (!within(tile.scorers, 2, 4) || !within(tile.row_blocks, 1, 3) || !within(tile.ring, 1, most) ||
      !within(tile.query_buffers, 1, 2))
    return "a tunable is out of range: scorers is 2 to 4, row_blocks 1 to 3, query_buffers 1 or 2, ring 1 to 64";
  if (tile.block_query != 32 && tile.block_query != 64 && tile.block_query != 128)
    return "block_query is out of range: 32, 64 or 128";
  return {};
}

// Registers that a scoring thread of the all-features specialization needs, and what the loading warpgroup leaves it:
// accumulators of the projection; or fragments of E, one or two tiles of scores, and maxima.
std::string register_problem(const FusedHeadHopperTile &tile, int static_out) {
  const int limit = tile.scorers == 2 ? 232 : tile.scorers == 3 ? 160 : 112;
  const int projecting = tile.row_blocks * out_columns(static_out) / 2 + 36;
  const int scores = tile.block_query / 2 * (tile.block_query <= 64 ? tile.row_blocks : 1);
  const int scoring = tile.row_blocks * out_columns(static_out) / 4 + scores + tile.block_query / 4 + 16;
  const int needed = std::max(projecting, scoring);
  if (needed <= limit) return {};
  return "about " + std::to_string(needed) + " registers a thread, the other warpgroups leave " + std::to_string(limit);
}

// Blocks of columns of the largest span.
std::int64_t passes(const FusedHeadHopperTile &tile, const FusedHeadHopperSizes &sizes) {
  const std::int64_t padded = std::max<std::int64_t>(divide_up(sizes.Lq, std::int64_t{8}) * 8, 8);
  const std::int64_t fitting = std::max<std::int64_t>(span_tokens / padded, 1);  // whole queries
  const std::int64_t tokens = padded > span_tokens ? span_tokens : std::min(fitting, sizes.Nq) * padded;
  return divide_up(tokens, std::int64_t{tile.block_query});
}

}  // namespace

FusedHeadHopperTile fused_head_hopper_tile(const TileConfig &config) {
  return {.block_query = config.at("block_query"),
          .scorers = config.at("scorers"),
          .row_blocks = config.at("row_blocks"),
          .ring = config.at("ring"),
          .query_buffers = config.at("query_buffers")};
}

// setmaxnreg needs whole warpgroups: one loads.
int fused_head_hopper_threads(const FusedHeadHopperTile &tile) { return 128 * (tile.scorers + 1); }

FusedHeadHopperMemory fused_head_hopper_memory(const FusedHeadHopperTile &tile, int static_out, int static_model) {
  FusedHeadHopperMemory memory;
  memory.query_bytes = std::int64_t{divide_up(static_out, k_block)} * tile.block_query * row_bytes;
  const std::int64_t w_block = std::int64_t{out_columns(static_out)} * row_bytes;
  const std::int64_t w = divide_up(static_model, k_block) * w_block;
  const std::int64_t rows = std::int64_t{tile.scorers} * tile.row_blocks * block_rows * row_bytes;
  const std::int64_t queries = tile.query_buffers * memory.query_bytes;
  const std::int64_t room = most_shared_bytes - queries - small_bytes(tile, static_out);
  memory.w_stays = room - w >= least_stages * rows;
  memory.stage_bytes = rows + (memory.w_stays ? 0 : w_block);
  const std::int64_t staying = memory.w_stays ? w : 0;
  memory.stages = static_cast<int>(std::min<std::int64_t>((room - staying) / memory.stage_bytes, tile.ring));
  memory.block_bytes = queries + memory.stages * memory.stage_bytes + staying + small_bytes(tile, static_out);
  return memory;
}

std::string fused_head_hopper_admission(const FusedHeadHopperTile &tile, int static_out, int static_model,
                                        std::int64_t shared_limit_bytes) {
  if (std::string problem = range_problem(tile); !problem.empty()) return problem;
  if (static_out > fused_head_hopper_most_out)
    return "d_out is " + std::to_string(static_out) + ", the accumulators of a row are for at most " +
           std::to_string(fused_head_hopper_most_out);
  if (std::string problem = register_problem(tile, static_out); !problem.empty()) return problem;
  const FusedHeadHopperMemory memory = fused_head_hopper_memory(tile, static_out, static_model);
  if (memory.stages < least_stages)
    return std::to_string(std::max(memory.stages, 0)) + " stages fit beside the queries, a ring needs at least " +
           std::to_string(least_stages);
  if (memory.block_bytes > shared_limit_bytes)
    return std::to_string(memory.block_bytes) + " bytes of shared memory do not fit, a block may have " +
           std::to_string(shared_limit_bytes);
  return {};
}

std::int64_t fused_head_hopper_grid(const FusedHeadHopperSizes &sizes, int sm_count) {
  if (sizes.Nq == 0) return 0;
  return std::min<std::int64_t>(sizes.Nd, std::max(sm_count, 1));
}

std::int64_t fused_head_hopper_workspace_bytes(const FusedHeadHopperTile &tile, const FusedHeadHopperSizes &sizes,
                                               int sm_count, bool save_argmax) {
  const std::int64_t several = passes(tile, sizes);
  if (several <= 1) return 0;
  constexpr std::int64_t turns = 2;  // of documents
  return fused_head_hopper_grid(sizes, sm_count) * turns * several * tile.block_query * (save_argmax ? 8 : 4);
}

TensorBox fused_head_hopper_query_box(const TensorBoxQuery & /*query*/) {
  return {.extent = {1, 8, k_block}, .swizzle_bytes = row_bytes};
}
TensorBox fused_head_hopper_hidden_box(const TensorBoxQuery & /*query*/) {
  return {.extent = {1, block_rows, k_block}, .swizzle_bytes = row_bytes};
}
TensorBox fused_head_hopper_w_box(int static_out) {
  return {.extent = {static_cast<std::uint32_t>(out_columns(static_out)), k_block}, .swizzle_bytes = row_bytes};
}

}  // namespace msj::ops
