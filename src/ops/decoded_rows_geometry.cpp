#include "ops/decoded_rows_geometry.h"

#include "ops/block_limits.h"

namespace msj::ops {

namespace {

constexpr int team = 4;  // warps
constexpr int lanes = 32, row_bytes = 128, most_steps = 8, most_words = 4;

// A warp's slot of its ring: 16 tokens.
std::int64_t slot_bytes(const DecodedRows &rows) {
  const int pieces = 4 * (quarter_steps(rows.static_d, rows.nbits) / 2);  // of 16 bytes
  const int coded = rows.coded == Coded::table ? 4 * lanes * 16 : 16 * round_up(pieces, 8) * 16;
  const int words = 16 * quarter_words(rows.static_d, rows.nbits) * 16, factors = 16 * 4;
  return round_up(coded + words + factors + 4, 128);  // and the document's last token
}

// Read off the compiler: what it needs to keep everything in registers.
int registers(const DecodedRowsTile &tile, const DecodedRows &rows) {
  if (tile.block_query == 32) return rows.coded == Coded::table ? 96 : rows.nbits == 1 ? 144 : 128;
  return tile.block_query == 64 ? 168 : 224;
}

}  // namespace

DecodedRowsTile decoded_rows_tile(const TileConfig &config) {
  return {.block_query = config.tunables.contains("block_query") ? config.at("block_query") : 32,
          .teams = config.at("teams"),
          .ring = config.at("ring"),
          .min_blocks = config.at("min_blocks"),
          .persistent = config.at("persistent")};
}

std::int64_t decoded_rows_shared_bytes(const DecodedRowsTile &tile, const DecodedRows &rows, std::int64_t Lq) {
  const std::int64_t warps = std::int64_t{team} * tile.teams;
  const std::int64_t columns = tile.block_query;
  const bool by_nibbles = rows.coded == Coded::table && rows.nbits <= 2;
  const std::int64_t weights = by_nibbles ? 16 : (rows.nbits == 1 ? 16 : 256) * 128;
  const std::int64_t maxima = warps * 2 * columns * (4 + 4) + tile.teams * 8;
  const std::int64_t small = round_up(weights + round_up(maxima, std::int64_t{16}) + 64, std::int64_t{128});
  const std::int64_t rings = warps * tile.ring * slot_bytes(rows);
  const std::int64_t queries = divide_up(quarter_steps(rows.static_d, rows.nbits), 4) * columns * row_bytes;
  return round_up(small + rings, std::int64_t{1024}) + (Lq > columns ? tile.teams : 1) * queries;
}

ScoreBlocks decoded_rows_blocks(const DecodedRowsTile &tile, const DecodedRows &rows, std::int64_t Lq) {
  return {.documents = tile.teams,
          .persistent = tile.persistent,
          .threads = lanes * team * tile.teams,
          .shared_bytes = decoded_rows_shared_bytes(tile, rows, Lq),
          .waits_for_table = rows.coded == Coded::table};
}

std::string decoded_rows_admission(const DecodedRowsTile &tile, const DecodedRows &rows, Layout layout, std::int64_t Lq,
                                   std::int64_t shared_limit_bytes) {
  if (layout != Layout::aligned16) return "asynchronous copies take rows of layout class aligned16";
  if (tile.block_query != 32 && tile.block_query != 64 && tile.block_query != 128)
    return "block_query is out of range: 32, 64 or 128";
  if (tile.teams < 1 || tile.teams > 8 || tile.ring < 2 || tile.ring > 16 || tile.min_blocks < 1 ||
      tile.min_blocks > 32 || tile.persistent < 0 || tile.persistent > 64)
    return "a tunable is out of range: teams is 1 to 8, ring 2 to 16, min_blocks 1 to 32, persistent 0 to 64";
  const int words = quarter_words(rows.static_d, rows.nbits), steps = quarter_steps(rows.static_d, rows.nbits);
  if (steps % 2 != 0)
    return "a quarter of a row is an odd number of k steps, " + std::to_string(steps) +
           "; they are decoded two at a time";
  if (words > most_words || steps > most_steps)
    return "a quarter of a row is " + std::to_string(words) + " words of bits for " + std::to_string(steps) +
           " k steps, in registers there is place for 4 and 8";
  const ScoreBlocks blocks = decoded_rows_blocks(tile, rows, Lq);
  return block_rejection({.threads = blocks.threads,
                          .min_blocks = tile.min_blocks,
                          .registers = registers(tile, rows),
                          .shared_bytes = blocks.shared_bytes},
                         shared_limit_bytes);
}

}  // namespace msj::ops
