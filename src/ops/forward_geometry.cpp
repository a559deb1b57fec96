#include "ops/forward_geometry.h"

#include <algorithm>

#include "ops/block_limits.h"

namespace msj::ops {
namespace {

constexpr int largest_static_d_resident_only = 256;

// k in equal blocks of at most block_k, multiples of what the tile product takes at a time.
int k_extent(const ForwardTile &tile, const ForwardRows &rows, int static_d) {
  const int blocks = divide_up(static_d, tile.block_k);
  return blocks == 1 ? round_up(static_d, rows.single_k_unit) : round_up(divide_up(static_d, blocks), rows.k_unit);
}

// Of a document row in the ring.
std::int64_t ring_row_bytes(const ForwardRows &rows, int extent) {
  if (rows.coded_bytes == 0) return row_pitch(extent, rows.document_bytes);
  return row_pitch(extent, rows.coded_bytes) + row_pitch(round_up(divide_up(extent * rows.coded_bits, 8), 16), 1);
}

// struct Small of the kernel, all features on.
std::int64_t small_bytes(const ForwardTile &tile, const ForwardRows &rows) {
  const std::int64_t partial = std::int64_t{tile.warps_doc} * tile.block_query * 8;
  const std::int64_t keep_rows = std::int64_t{tile.stages} * divide_up(tile.block_doc, 32) * 4;
  const std::int64_t row_extras = std::int64_t{tile.stages} * tile.block_doc * rows.row_extras;
  const std::int64_t coded = rows.coded_bytes == 0 ? 0 : std::int64_t{8} * tile.block_doc + rows.table_bytes;
  const std::int64_t per_query_token = rows.query_extras + 1;  // and its mask
  return divide_up(coded + partial + keep_rows + row_extras + 8 + tile.block_query * per_query_token,
                   std::int64_t{16}) *
         16;
}

}  // namespace

int forward_threads(const ForwardTile &tile) { return 32 * tile.warps_doc * tile.warps_query; }

ForwardTile forward_tile(const TileConfig &config) {
  return {.block_doc = config.at("block_doc"),
          .block_query = config.at("block_query"),
          .warps_doc = config.at("warps_doc"),
          .warps_query = config.at("warps_query"),
          .stages = config.at("stages"),
          .block_k = config.at("block_k"),
          .query_resident = config.at("query_resident"),
          .query_buffers = config.at("query_buffers"),
          .min_blocks = config.at("min_blocks"),
          .persistent = config.at("persistent")};
}

std::int64_t forward_shared_bytes(const ForwardTile &tile, const ForwardRows &rows, int static_d) {
  const int extent = k_extent(tile, rows, static_d);
  const int query_width = tile.query_resident ? round_up(static_d, extent) : extent;
  const std::int64_t query = tile.block_query * row_pitch(query_width, rows.query_bytes);
  const std::int64_t document = tile.block_doc * ring_row_bytes(rows, extent);
  const std::int64_t decoded = rows.coded_bytes == 0 ? 0 : tile.block_doc * row_pitch(extent, rows.document_bytes);
  const std::int64_t stage = document + (tile.query_resident ? 0 : query);
  return (tile.query_resident ? tile.query_buffers * query : 0) + tile.stages * stage + decoded +
         small_bytes(tile, rows);
}

int forward_registers(const ForwardTile &tile, const ForwardRows &rows) {
  const int warp_rows = tile.block_doc / tile.warps_doc, columns = tile.block_query / tile.warps_query;  // of a warp
  const int accumulators = warp_rows * columns / 32 * rows.accumulators;
  // A tall tile of 16-bit elements has no registers for two k steps of rows.
  const int buffers = rows.document_bytes == 2 && warp_rows < 64 ? 2 : 1;
  const int fragments = warp_rows / 16 * rows.fragments_per_16_rows * buffers + rows.fragments;
  const int maxima = columns / 4 * 2, row_values = warp_rows / 8;
  const int addresses = 44;
  return accumulators + fragments + maxima + row_values + addresses;
}

std::string forward_admission(const ForwardTile &tile, const ForwardRows &rows, int static_d,
                              std::int64_t shared_limit_bytes) {
  if (tile.block_doc < 1 || tile.block_query < 1 || tile.warps_doc < 1 || tile.warps_query < 1 || tile.block_k < 1 ||
      tile.min_blocks < 1 || tile.persistent < 0)
    return "a tunable is out of range: blocks, warps, block_k and min_blocks start at 1, persistent at 0";
  if (tile.stages < 2) return "stages is " + std::to_string(tile.stages) + ", the ring needs at least 2";
  if (tile.query_buffers != 1 && !(tile.query_buffers == 2 && tile.query_resident))
    return "query_buffers must be 1, or 2 with query_resident";
  if (tile.block_query % 32 != 0) return "block_query must be a multiple of 32";
  if (tile.block_doc % (16 * tile.warps_doc) != 0 || tile.block_query % (16 * tile.warps_query) != 0)
    return "each warp's share of block_doc and block_query must be a multiple of 16";
  const int warp_rows = tile.block_doc / tile.warps_doc;
  if (warp_rows != 16 && warp_rows % 32 != 0) return "each warp's rows must be 16 or a multiple of 32";
  if (tile.block_k % rows.k_unit != 0) return "block_k must be a multiple of " + std::to_string(rows.k_unit);
  if (!tile.query_resident && static_d <= largest_static_d_resident_only) return "up to d = 256 queries are resident";
  if (std::string why = thread_rejection(forward_threads(tile)); !why.empty()) return why;
  return block_rejection({forward_threads(tile), tile.min_blocks, forward_registers(tile, rows),
                          forward_shared_bytes(tile, rows, static_d)},
                         shared_limit_bytes);
}

std::int64_t forward_grid(const ForwardTile &tile, std::int64_t Nq, std::int64_t Nd, std::int64_t Lq, int sm_count) {
  if (Nq == 0 || Nd == 0) return 0;
  constexpr std::int64_t most = 2147483647;
  const std::int64_t padded = std::max<std::int64_t>(divide_up(Lq, std::int64_t{8}) * 8, 8);
  const std::int64_t fitting = std::max<std::int64_t>(tile.block_query / padded, 1);  // whole queries per block
  const std::int64_t lanes = std::min(divide_up(Nq, fitting), most);
  std::int64_t documents = std::min(Nd, most / lanes);
  if (tile.persistent > 0)
    documents = std::min(documents, std::max<std::int64_t>(std::int64_t{tile.persistent} * sm_count / lanes, 1));
  return lanes * documents;
}

LaunchList forward_launch(const ForwardTile &tile, const ForwardRows &rows, const ForwardSizes &sizes, int static_d,
                          int sm_count) {
  LaunchList list;
  list.add({.entry = 0,
            .grid = forward_grid(tile, sizes.Nq, sizes.Nd, sizes.Lq, sm_count),
            .threads = forward_threads(tile),
            .shared_bytes = static_cast<int>(forward_shared_bytes(tile, rows, static_d))});
  return list;
}

}  // namespace msj::ops
