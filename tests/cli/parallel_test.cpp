#include "cli/parallel.h"

#include <doctest/doctest.h>

#include <stdexcept>

using namespace msj::cli;

TEST_CASE("every piece once, whatever the threads") {
  for (const int threads : {1, 2, 7, 100}) {
    std::vector<std::atomic<int>> done(57);
    parallel_for(57, threads, [&](std::int64_t i) { ++done[static_cast<std::size_t>(i)]; });
    for (const auto &count : done) CHECK(count == 1);
  }
  parallel_for(0, 4, [](std::int64_t) { FAIL("there is no piece"); });
}

TEST_CASE("one piece needs no other thread") {
  const auto here = std::this_thread::get_id();
  parallel_for(1, 8, [&](std::int64_t) { CHECK(std::this_thread::get_id() == here); });
}

TEST_CASE("the first exception ends the work and is thrown here") {
  std::atomic<int> done{0};
  CHECK_THROWS_AS(parallel_for(100000, 3,
                               [&](std::int64_t) {
                                 ++done;
                                 throw std::runtime_error("no");
                               }),
                  std::runtime_error);
  CHECK(done <= 3);
}
