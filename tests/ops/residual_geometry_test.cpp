// The table path's geometry by hand: what T takes, its rounds, and where it is not admissible.
#include "ops/residual_geometry.h"

#include <doctest/doctest.h>

#include <limits>

using namespace msj;
using namespace msj::ops;

TEST_CASE(
    "T takes 128 bytes a centroid for each 32 query tokens, the queries 64 a feature; at most 256 MiB of T a round") {
  const auto bytes = [](const TableSizes &sizes) { return table_workspace_bytes(sizes, 128, 2); };
  constexpr std::int64_t queries = (8L * 64 + 8) * 16;  // 8 k steps of 64 pieces of 16 bytes, and what goes with them
  constexpr std::int64_t table = 65'536L * 128;
  CHECK(bytes({1, 10'000, 32, 65'536}) == queries + table);
  CHECK(bytes({1, 1, 33, 65'536}) == 2 * (queries + table));  // padded to 40: two chunks
  CHECK(bytes({4, 1, 8, 1'000}) == queries + 1'000L * 128);   // four queries in one group
  CHECK(bytes({5, 1, 8, 1'000}) == 2 * (queries + 1'000L * 128));
  CHECK(bytes({32, 1, 32, 65'536}) == 32 * queries + kTableBytes);
  CHECK(bytes({1'000, 1, 32, 65'536}) == 32 * queries + kTableBytes);
  CHECK(bytes({1'000, 1, 300, 65'536}) <= kTableBytes + 32 * queries);
  CHECK(table_workspace_bytes({32'768, 1, 32, 64}, 4096, 8) <= 5 * kTableBytes);  // queries count, where T is small
  CHECK(bytes({1, 1, 0, 0}) > 0);
  // A lane has whole words: 96 features of 2 bits are 24 bytes, a quarter of them 6, which takes two words, 8 steps.
  CHECK(table_workspace_bytes({1, 1, 32, 0}, 96, 2) == queries + 128);
  CHECK(table_workspace_bytes({1, 1, 32, 0}, 96, 4) == queries + 128);  // 6 steps, in whole blocks of 4
}

TEST_CASE("rounds cover all queries, and each is T and scores") {
  const TableTile tile = {.team = 4, .teams = 2, .min_blocks = 1, .persistent = 3, .kept = 4};
  const auto rounds = [&](std::int64_t Nq, std::int64_t Lq, std::int64_t K) {
    const LaunchList list = table_launch(table_blocks(tile, 2), {Nq, 100, Lq, K}, 132);
    CHECK(list.count == 2);
    CHECK(list.launches[0].entry == 0);
    CHECK(list.launches[1].entry == 1);
    return list.rounds;
  };
  CHECK(rounds(32, 32, 65'536) == 1);
  CHECK(rounds(33, 32, 65'536) == 2);
  CHECK(rounds(64, 32, 262'144) == 8);
  CHECK(rounds(1, 512, 65'536) == 1);
  const LaunchList list = table_launch(table_blocks(tile, 2), {1, 10'000, 32, 65'536}, 132);
  CHECK(list.launches[0].grid == 512);
  CHECK(list.launches[1].grid == 3 * 132);
  CHECK(list.launches[1].threads == 256);
  CHECK_FALSE(list.launches[1].overlaps_previous);  // the portable kernel does not wait for T itself
  CHECK(table_launch(table_blocks(tile, 2), {1, 11, 32, 65'536}, 132).launches[1].grid == 6);  // two documents a block
  // The kernel has no loop over groups: each of a round's has blocks.
  CHECK(table_launch(table_blocks(tile, 2), {5'000, 1, 32, 1'000}, 132).launches[1].grid >= 2'097);
}

TEST_CASE("the table path is for T of at most 256 MiB, and not for queries without end") {
  const TableTile tile = {.team = 4, .teams = 1, .min_blocks = 3, .persistent = 3, .kept = 4};
  const auto problem = [&](std::int64_t K, std::int64_t Lq) {
    return table_admission(tile, 128, 2, Layout::aligned16, K, Lq, 232'448);
  };
  CHECK(problem(65'536, 32) == "");
  CHECK(problem(65'536, 512) == "");
  CHECK(problem(65'536, 1'024) != "");
  CHECK(problem(16'384, 1'024) != "");
  CHECK(problem(262'144, 256) == "");
  CHECK(problem(262'144, 512) != "");
  CHECK(problem(std::numeric_limits<std::int64_t>::max(), 16) != "");
}

TEST_CASE("queries that stay in registers leave room for fewer warps") {
  const auto problem = [](const TableTile &tile, int d) {
    return table_admission(tile, d, 2, Layout::aligned16, 65'536, 32, 232'448);
  };
  CHECK(problem({.team = 4, .teams = 1, .min_blocks = 3, .persistent = 3, .kept = 8}, 128) != "");
  CHECK(problem({.team = 4, .teams = 1, .min_blocks = 3, .persistent = 3, .kept = 8}, 64) == "");  // it has 4 steps
  CHECK(problem({.team = 4, .teams = 1, .min_blocks = 3, .persistent = 3, .kept = 8}, 1'024) != "");
  CHECK(problem({.team = 4, .teams = 1, .min_blocks = 2, .persistent = 3, .kept = 8}, 1'024) == "");
  CHECK(problem({.team = 4, .teams = 1, .min_blocks = 2, .persistent = 3, .kept = 8}, 128) == "");
  CHECK(problem({.team = 11, .teams = 3, .min_blocks = 1, .persistent = 1, .kept = 0}, 128) != "");  // threads
  CHECK(problem({.team = 4, .teams = 16, .min_blocks = 1, .persistent = 1, .kept = 0}, 128) != "");
}
