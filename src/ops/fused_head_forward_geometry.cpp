#include "ops/fused_head_forward_geometry.h"

#include <algorithm>

#include "ops/block_limits.h"

namespace msj::ops {
namespace {

constexpr int most_of_a_tunable = 4096;      // so that no product here overflows
constexpr int most_score_k = 64;             // of d_out in a stage
constexpr std::int64_t span_tokens = 65536;  // query tokens that one projection of a document serves

int warps(const FusedHeadTile &tile) { return tile.warps_doc * tile.warps_out; }

// W's rows come in equal parts, each a multiple of what the warps along d_out share.
int out_blocks(const FusedHeadTile &tile, int d_out) { return divide_up(d_out, tile.block_out); }
int out_width(const FusedHeadTile &tile, int d_out) {
  return round_up(divide_up(d_out, out_blocks(tile, d_out)), 16 * tile.warps_out);
}

int score_blocks(int d_out) { return divide_up(d_out, most_score_k); }
int score_k(int d_out) { return round_up(divide_up(d_out, score_blocks(d_out)), 16); }

// Warps among which the scores share a tile's rows.
int shares(const FusedHeadTile &tile) { return std::min(warps(tile) / (tile.block_query / 32), tile.block_doc / 16); }

// struct Small of the kernel, all features on.
std::int64_t small_bytes(const FusedHeadTile &tile, int d_out) {
  const std::int64_t bias = std::int64_t{out_blocks(tile, d_out)} * out_width(tile, d_out);
  const std::int64_t squares = std::int64_t{tile.block_doc} * ((d_out / 16) | 1);
  const std::int64_t maxima = std::int64_t{2} * shares(tile) * tile.block_query;
  const std::int64_t keep_rows = divide_up(tile.block_doc, 32);
  return divide_up((bias + squares + maxima + keep_rows) * 4, std::int64_t{16}) * 16;
}

// A tile product's accumulators and fragments; a tall tile of 16-bit elements has no registers for two k steps of rows.
int product_registers(int rows, int columns, int element_bytes) {
  const int accumulators = rows * columns / 32;
  if (element_bytes == 4) return 2 * accumulators + rows / 8 * 4 + 4;
  return accumulators + rows / 16 * 4 * (rows < 64 ? 2 : 1) + 8;
}

// Passes over the query tokens of the largest span.
std::int64_t passes(const FusedHeadTile &tile, const FusedHeadSizes &sizes) {
  const std::int64_t padded = std::max<std::int64_t>(divide_up(sizes.Lq, std::int64_t{8}) * 8, 8);
  const std::int64_t fitting = std::max<std::int64_t>(span_tokens / padded, 1);  // whole queries
  const std::int64_t tokens = padded > span_tokens ? span_tokens : std::min(fitting, sizes.Nq) * padded;
  return divide_up(tokens, std::int64_t{tile.block_query});
}

}  // namespace

int fused_head_threads(const FusedHeadTile &tile) { return 32 * warps(tile); }

std::int64_t fused_head_shared_bytes(const FusedHeadTile &tile, int d_out, int element_bytes) {
  const int k = score_k(d_out);
  const std::int64_t projection = (tile.block_doc + out_width(tile, d_out)) * row_pitch(tile.block_k, element_bytes);
  const std::int64_t query = tile.block_query * row_pitch(k, element_bytes);
  const std::int64_t e = tile.block_doc * row_pitch(score_blocks(d_out) * k, element_bytes);
  return tile.stages * std::max(projection, query) + e + small_bytes(tile, d_out);
}

int fused_head_registers(const FusedHeadTile &tile, int d_out, int element_bytes) {
  const int rows = tile.block_doc / tile.warps_doc, columns = out_width(tile, d_out) / tile.warps_out;  // of a warp
  const int other_parts = (out_blocks(tile, d_out) - 1) * rows * columns / 32;
  const int projecting = product_registers(rows, columns, element_bytes) + other_parts + rows / 8;
  const int maxima = 16;
  const int scoring = product_registers(tile.block_doc / shares(tile), 32, element_bytes) + maxima;
  const int addresses = 60;
  return std::max(projecting, scoring) + addresses;
}

std::string fused_head_admission(const FusedHeadTile &tile, int d_out, int element_bytes,
                                 std::int64_t shared_limit_bytes) {
  for (const int tunable :
       {tile.block_doc, tile.block_query, tile.block_out, tile.block_k, tile.warps_doc, tile.warps_out, tile.stages,
        tile.min_blocks, std::min(tile.persistent, most_of_a_tunable) + 1}) {
    if (tunable < 1 || tunable > most_of_a_tunable)
      return "a tunable is out of range: blocks, warps, stages and min_blocks are 1 to 4096, persistent 0 to 4095";
  }
  if (tile.stages < 2) return "stages is " + std::to_string(tile.stages) + ", the ring needs at least 2";
  const int k_unit = element_bytes == 4 ? 32 : 16;
  if (tile.block_k % k_unit != 0) return "block_k must be a multiple of " + std::to_string(k_unit);
  if (std::string why = thread_rejection(fused_head_threads(tile)); !why.empty()) return why;
  if (tile.block_doc % (16 * tile.warps_doc) != 0 || tile.block_out % (16 * tile.warps_out) != 0)
    return "each warp's share of block_doc and block_out must be a multiple of 16";
  const int warps_query = tile.block_query / 32;
  if (tile.block_query % 32 != 0 || warps_query > warps(tile) || warps(tile) % warps_query != 0)
    return "block_query must be 32 tokens for each of a number of warps that divides all of them";
  const int share_rows = tile.block_doc / shares(tile);
  if (tile.block_doc % shares(tile) != 0 || (share_rows != 16 && share_rows % 32 != 0))
    return "the rows that each warp scores must be 16 or a multiple of 32";
  return block_rejection({fused_head_threads(tile), tile.min_blocks, fused_head_registers(tile, d_out, element_bytes),
                          fused_head_shared_bytes(tile, d_out, element_bytes)},
                         shared_limit_bytes);
}

std::int64_t fused_head_grid(const FusedHeadTile &tile, const FusedHeadSizes &sizes, int sm_count) {
  if (sizes.Nq == 0) return 0;
  std::int64_t most = 2147483647;
  const bool bounded = passes(tile, sizes) > 1;
  if (tile.persistent > 0 || bounded)
    most = std::int64_t{tile.persistent > 0 ? tile.persistent : tile.min_blocks} * std::max(sm_count, 1);
  return std::min(sizes.Nd, most);
}

std::int64_t fused_head_workspace_bytes(const FusedHeadTile &tile, const FusedHeadSizes &sizes, int sm_count,
                                        bool save_argmax) {
  const std::int64_t several = passes(tile, sizes);
  if (several <= 1) return 0;
  const std::int64_t tokens = several * tile.block_query;
  return fused_head_grid(tile, sizes, sm_count) * shares(tile) * tokens * (save_argmax ? 8 : 4);
}

}  // namespace msj::ops
