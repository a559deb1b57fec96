#include "ops/residual_geometry.h"

#include <algorithm>
#include <limits>

namespace msj::ops {
namespace {

constexpr int block_reserve = 1024;  // shared memory that the system keeps for itself per block
constexpr int row_padding = 16;
constexpr int columns = 32;       // query tokens of a group
constexpr int rows = 16;          // document tokens of a warp
constexpr int infos = 8;          // that a warp keeps of its tiles
constexpr int product_rows = 64;  // centroids of a block that makes T
constexpr int product_threads = 128;
constexpr std::int64_t most_blocks = 2147483647;
constexpr std::int64_t last_query_edge = 1024;  // Lq's last bucket has no end

int divide_up(int a, int b) { return (a + b - 1) / b; }
int round_up(int a, int b) { return divide_up(a, b) * b; }
std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Groups of query tokens, the chunks of 32 that each has, and how many groups' T fits in a round.
struct Groups {
  std::int64_t count, chunks, of_round;

  explicit Groups(const TableSizes &sizes) {
    const std::int64_t padded = std::max<std::int64_t>(divide_up(sizes.Lq, std::int64_t{8}) * 8, 8);
    chunks = divide_up(padded, std::int64_t{columns});
    count = divide_up(std::max<std::int64_t>(sizes.Nq, 1), std::max<std::int64_t>(columns / padded, 1));
    of_round = std::max<std::int64_t>(kTableBytes / chunk_bytes(sizes) / chunks, 1);
  }
  [[nodiscard]] std::int64_t largest_round() const { return std::min(count, of_round); }

  static std::int64_t chunk_bytes(const TableSizes &sizes) {
    return std::max<std::int64_t>(sizes.K, 1) * columns * std::int64_t{sizeof(float)};
  }
};

// struct Small of the kernel.
std::int64_t small_bytes(const TableTile &tile, int nbits) {
  const int field_bits = nbits == 8 ? 8 : 2 * nbits;
  const std::int64_t weights = (std::int64_t{1} << field_bits) * (nbits <= 2 ? 32 : 8) * 4;
  const std::int64_t of_warp = infos * (32 + 4) + 4 * columns * 4;
  return weights + tile.team * of_warp + columns + 64;  // and what is there once
}

std::int64_t stage_bytes(int static_d, int nbits) {
  const int bits = round_up(divide_up(static_d * nbits, 8), 16) + row_padding;
  return std::int64_t{rows} * (columns * 4 + 32 + bits + 4);
}

int register_limit(const TableTile &tile) {
  return std::min(255, 65536 / (table_threads(tile) * tile.min_blocks) / 8 * 8);
}

}  // namespace

int table_threads(const TableTile &tile) { return 32 * tile.team; }

std::int64_t table_shared_bytes(const TableTile &tile, int static_d, int nbits) {
  const std::int64_t queries = std::int64_t{columns} * (static_d * 2 + row_padding);
  return tile.team * tile.stages * stage_bytes(static_d, nbits) + queries + small_bytes(tile, nbits);
}

std::int64_t table_products_shared_bytes(int static_d) {
  const int width = round_up(divide_up(static_d, divide_up(static_d, 128)), 16);
  return std::int64_t{product_rows + columns} * (width * 2 + row_padding);
}

int table_registers(int static_d, Layout layout) {
  const int fragments = static_d <= 128 ? static_d / 16 * 8 : 8;
  return fragments + (layout == Layout::any ? 120 : 100);
}

std::int64_t table_workspace_bytes(const TableSizes &sizes) {
  const Groups groups(sizes);
  std::int64_t bytes = 0;
  const bool overflows =
      __builtin_mul_overflow(groups.largest_round() * groups.chunks, Groups::chunk_bytes(sizes), &bytes);
  return overflows ? std::numeric_limits<std::int64_t>::max() : bytes;
}

LaunchList table_launch(const TableTile &tile, const TableSizes &sizes, int static_d, int nbits, int sm_count) {
  const Groups groups(sizes);
  const std::int64_t row_tiles = std::max<std::int64_t>(divide_up(sizes.K, std::int64_t{product_rows}), 1);
  const std::int64_t units = std::min(groups.largest_round() * groups.chunks, most_blocks);
  const std::int64_t lanes = std::min(groups.largest_round(), most_blocks);
  std::int64_t documents = std::min(std::max<std::int64_t>(sizes.Nd, 1), most_blocks / lanes);
  if (tile.persistent > 0)
    documents = std::min(documents, std::max<std::int64_t>(std::int64_t{tile.persistent} * sm_count / lanes, 1));
  LaunchList list;
  list.add({.entry = 0,
            .grid = std::min(units, most_blocks / row_tiles) * row_tiles,
            .threads = product_threads,
            .shared_bytes = static_cast<int>(table_products_shared_bytes(static_d))});
  list.add({.entry = 1,
            .grid = lanes * documents,
            .threads = table_threads(tile),
            .shared_bytes = static_cast<int>(table_shared_bytes(tile, static_d, nbits))});
  list.rounds = divide_up(groups.count, groups.largest_round());
  return list;
}

std::string table_admission(const TableTile &tile, int static_d, int nbits, Layout layout, std::int64_t K,
                            std::int64_t Lq, std::int64_t shared_limit_bytes) {
  if (tile.team < 1 || tile.team > 32 || tile.min_blocks < 1 || tile.persistent < 0)
    return "a tunable is out of range: team is 1 to 32, min_blocks starts at 1, persistent at 0";
  if (tile.stages < 2 || tile.stages + 2 > infos)
    return "stages is " + std::to_string(tile.stages) + "; 2 to " + std::to_string(infos - 2) + " are possible";
  if (Lq >= last_query_edge) return "T of any number of query tokens does not fit";
  if (K > kTableBytes / 4 / Lq) return "T of " + std::to_string(Lq) + " query tokens is above 256 MiB";
  if (table_registers(static_d, layout) > register_limit(tile))
    return "about " + std::to_string(table_registers(static_d, layout)) + " registers a thread, min_blocks leaves " +
           std::to_string(register_limit(tile));
  const std::int64_t bytes = table_shared_bytes(tile, static_d, nbits);
  if ((bytes + block_reserve) * tile.min_blocks > shared_limit_bytes + block_reserve)
    return std::to_string(tile.min_blocks) + " block(s) of " + std::to_string(bytes) +
           " bytes of shared memory do not fit, a block may have " + std::to_string(shared_limit_bytes);
  return {};
}

}  // namespace msj::ops
