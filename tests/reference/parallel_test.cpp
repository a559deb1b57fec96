#include "reference/parallel.h"

#include <doctest/doctest.h>

#include <stdexcept>

using namespace msj::reference;

TEST_CASE("workers: no more than items, at least one") {
  CHECK(worker_count(100, 7) == 7);
  CHECK(worker_count(3, 7) == 3);
  CHECK(worker_count(0, 7) == 1);
  CHECK(worker_count(1'000'000, 0) >= 1);
}

TEST_CASE("every item runs once, whatever the number of workers") {
  for (const int workers : {1, 2, 5}) {
    std::vector<std::atomic<int>> seen(1000);
    for_each_item(1000, workers, [&](std::int64_t item, int worker) {
      CHECK_UNARY(worker >= 0 && worker < workers);
      seen[static_cast<std::size_t>(item)] += 1;
    });
    CHECK(std::all_of(seen.begin(), seen.end(), [](const std::atomic<int> &count) { return count == 1; }));
  }
}

TEST_CASE("an exception of a body arrives at the caller, after all workers have stopped") {
  std::atomic<int> running{0};
  const auto body = [&](std::int64_t item, int) {
    running += 1;
    if (item == 40) {
      running -= 1;
      throw std::runtime_error("item 40");
    }
    running -= 1;
  };
  CHECK_THROWS_WITH_AS(for_each_item(1000, 3, body), "item 40", std::runtime_error);
  CHECK(running == 0);
}
