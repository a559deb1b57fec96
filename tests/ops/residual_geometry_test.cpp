// The table path's geometry by hand: what T takes, its rounds, and where it is not admissible.
#include "ops/residual_geometry.h"

#include <doctest/doctest.h>

#include <limits>

using namespace msj;
using namespace msj::ops;

TEST_CASE("T takes 128 bytes a centroid for each 32 query tokens, at most 256 MiB a round") {
  CHECK(table_workspace_bytes({1, 10'000, 32, 65'536}) == 65'536 * 128);
  CHECK(table_workspace_bytes({1, 1, 33, 65'536}) == 2 * 65'536 * 128);  // padded to 40: two chunks
  CHECK(table_workspace_bytes({4, 1, 8, 1'000}) == 1'000 * 128);         // four queries in one group
  CHECK(table_workspace_bytes({5, 1, 8, 1'000}) == 2 * 1'000 * 128);
  CHECK(table_workspace_bytes({32, 1, 32, 65'536}) == kTableBytes);
  CHECK(table_workspace_bytes({1'000, 1, 32, 65'536}) == kTableBytes);
  CHECK(table_workspace_bytes({1'000, 1, 300, 65'536}) <= kTableBytes);
  CHECK(table_workspace_bytes({1, 1, 0, 0}) > 0);
}

TEST_CASE("rounds cover all queries, and each is T and scores") {
  const TableTile tile = {.team = 4, .stages = 4, .min_blocks = 3, .persistent = 3};
  const auto rounds = [&](std::int64_t Nq, std::int64_t Lq, std::int64_t K) {
    const LaunchList list = table_launch(tile, {Nq, 100, Lq, K}, 128, 2, 132);
    CHECK(list.count == 2);
    CHECK(list.launches[0].entry == 0);
    CHECK(list.launches[1].entry == 1);
    return list.rounds;
  };
  CHECK(rounds(32, 32, 65'536) == 1);
  CHECK(rounds(33, 32, 65'536) == 2);
  CHECK(rounds(64, 32, 262'144) == 8);
  CHECK(rounds(1, 512, 65'536) == 1);
  const LaunchList list = table_launch(tile, {1, 10'000, 32, 65'536}, 128, 2, 132);
  CHECK(list.launches[0].grid == 1'024);
  CHECK(list.launches[1].grid == 3 * 132);
  CHECK(list.launches[1].threads == 128);
}

TEST_CASE("the table path is for T of at most 256 MiB, and not for queries without end") {
  const TableTile tile = {.team = 4, .stages = 4, .min_blocks = 3, .persistent = 3};
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
  CHECK(table_admission(tile, 128, 2, Layout::any, 65'536, 32, 232'448) != "");  // more registers than 3 blocks leave
  CHECK(table_admission(tile, 4'096, 2, Layout::aligned16, 65'536, 32, 232'448) != "");
}
