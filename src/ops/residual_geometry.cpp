#include "ops/residual_geometry.h"

#include <algorithm>
#include <limits>

#include "ops/block_limits.h"

namespace msj::ops {
namespace {

constexpr int columns = 32;        // query tokens of a group
constexpr int product_rows = 128;  // centroids of a block that makes T
constexpr int product_threads = 128;
constexpr std::int64_t most_blocks = 2147483647;
constexpr std::int64_t most_chunks = 4096;      // of a round: with few centroids, the queries are what takes memory
constexpr std::int64_t last_query_edge = 1024;  // Lq's last bucket has no end

// Groups of query tokens, the chunks of 32 that each has, and how many groups' T fits in a round.
struct Groups {
  std::int64_t count, chunks, of_round;

  explicit Groups(const TableSizes &sizes) {
    const std::int64_t padded = std::max<std::int64_t>(divide_up(sizes.Lq, std::int64_t{8}) * 8, 8);
    chunks = divide_up(padded, std::int64_t{columns});
    count = divide_up(std::max<std::int64_t>(sizes.Nq, 1), std::max<std::int64_t>(columns / padded, 1));
    of_round = std::max<std::int64_t>(std::min(kTableBytes / chunk_bytes(sizes), most_chunks) / chunks, 1);
  }
  [[nodiscard]] std::int64_t largest_round() const { return std::min(count, of_round); }

  static std::int64_t chunk_bytes(const TableSizes &sizes) {
    return std::max<std::int64_t>(sizes.K, 1) * columns * std::int64_t{sizeof(float)};
  }
};

}  // namespace

int quarter_words(int static_d, int nbits) { return divide_up(divide_up(static_d * nbits, 8), 16); }
int quarter_steps(int static_d, int nbits) { return quarter_words(static_d, nbits) * 8 / nbits; }

int table_threads(const TableTile &tile) { return 32 * tile.team * tile.teams; }

std::int64_t table_shared_bytes(const TableTile &tile, int nbits) {
  const std::int64_t fields = nbits == 1 ? 16 : 256;
  const std::int64_t of_warp = std::int64_t{2} * columns * (4 + 4) + 8;
  return fields * 128 + std::int64_t{tile.team} * tile.teams * of_warp + 160;  // and what the teams have in common
}

// Read off the compiler, for all architectures.
int table_registers(const TableTile &tile, int static_d, int nbits, Layout layout) {
  const bool in_blocks = quarter_words(static_d, nbits) > 4;  // of words; nothing is kept then
  const int kept = in_blocks ? 0 : std::min(tile.kept, quarter_steps(static_d, nbits));
  const int wide = static_d > 128 && !in_blocks ? 24 : 0;
  return 8 * kept + (in_blocks || layout == Layout::any ? 176 : 128) + wide;
}

std::int64_t table_workspace_bytes(const TableSizes &sizes, int static_d, int nbits) {
  const Groups groups(sizes);
  const std::int64_t of_queries = (std::int64_t{round_up(quarter_steps(static_d, nbits), 4)} * 64 + 8) * 16;
  std::int64_t bytes = 0;
  const bool overflows =
      __builtin_mul_overflow(groups.largest_round() * groups.chunks, of_queries + Groups::chunk_bytes(sizes), &bytes);
  return overflows ? std::numeric_limits<std::int64_t>::max() : bytes;
}

ScoreBlocks table_blocks(const TableTile &tile, int nbits) {
  return {.documents = tile.teams,
          .persistent = tile.persistent,
          .threads = table_threads(tile),
          .shared_bytes = table_shared_bytes(tile, nbits)};
}

LaunchList table_launch(const ScoreBlocks &blocks, const TableSizes &sizes, int sm_count) {
  const Groups groups(sizes);
  const std::int64_t row_tiles = std::max<std::int64_t>(divide_up(sizes.K, std::int64_t{product_rows}), 1);
  const std::int64_t units = std::min(groups.largest_round() * groups.chunks, most_blocks);
  const std::int64_t lanes = std::min(groups.largest_round(), most_blocks);
  std::int64_t documents =
      std::min(std::max<std::int64_t>(divide_up(sizes.Nd, std::int64_t{blocks.documents}), 1), most_blocks / lanes);
  if (blocks.persistent > 0)
    documents = std::min(documents, std::max<std::int64_t>(std::int64_t{blocks.persistent} * sm_count / lanes, 1));
  LaunchList list;
  list.add({.entry = 0,
            .grid = std::min(units, most_blocks / row_tiles) * row_tiles,
            .threads = product_threads,
            .shared_bytes = kTableProductsSharedBytes});
  list.add({.entry = 1,
            .grid = lanes * documents,
            .threads = blocks.threads,
            .shared_bytes = static_cast<int>(blocks.shared_bytes),
            .overlaps_previous = blocks.waits_for_table});
  list.rounds = divide_up(groups.count, groups.largest_round());
  return list;
}

std::string table_problem(std::int64_t K, std::int64_t Lq) {
  if (Lq >= last_query_edge) return "T of any number of query tokens does not fit";
  if (K > kTableBytes / 4 / Lq) return "T of " + std::to_string(Lq) + " query tokens is above 256 MiB";
  return {};
}

std::string table_admission(const TableTile &tile, int static_d, int nbits, Layout layout, std::int64_t K,
                            std::int64_t Lq, std::int64_t shared_limit_bytes) {
  if (tile.team < 1 || tile.teams < 1 || tile.team > 32 || tile.teams > 15 || tile.min_blocks < 1 ||
      tile.persistent < 0 || tile.kept < 0)
    return "a tunable is out of range: team is 1 to 32, teams 1 to 15, min_blocks starts at 1, persistent and kept at "
           "0";
  if (std::string rejection = thread_rejection(table_threads(tile)); !rejection.empty()) return rejection;
  if (std::string problem = table_problem(K, Lq); !problem.empty()) return problem;
  return block_rejection({.threads = table_threads(tile),
                          .min_blocks = tile.min_blocks,
                          .registers = table_registers(tile, static_d, nbits, layout),
                          .shared_bytes = table_shared_bytes(tile, nbits)},
                         shared_limit_bytes);
}

}  // namespace msj::ops
