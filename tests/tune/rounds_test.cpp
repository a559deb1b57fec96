#include "tune/rounds.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace msj;
using tune::time_in_rounds;

namespace {

// Trials with fixed times; remembers the rounds.
struct Track {
  std::vector<double> ms;
  std::vector<std::vector<std::size_t>> rounds = {};

  tune::RunRound runner() {
    return [this](std::span<const std::size_t> order) {
      rounds.emplace_back(order.begin(), order.end());
      std::vector<double> times;
      for (const std::size_t trial : order) times.push_back(ms[trial]);
      return times;
    };
  }
};

}  // namespace

TEST_CASE("median: the middle, or the mean of the middle two") {
  CHECK(tune::median({}) == 0);
  CHECK(tune::median({3}) == 3);
  CHECK(tune::median({9, 1, 2}) == 2);
  CHECK(tune::median({4, 1, 9, 2}) == 3);
}

TEST_CASE("rounds: every trial once a round, in a rotated order") {
  Track track{{1.0, 1.1, 1.2}};
  const auto timings = time_in_rounds(std::vector<int>{0, 0, 0}, track.runner());
  REQUIRE(track.rounds.size() == 20);
  CHECK(track.rounds[0] == std::vector<std::size_t>{0, 1, 2});
  CHECK(track.rounds[1] == std::vector<std::size_t>{1, 2, 0});
  CHECK(track.rounds[2] == std::vector<std::size_t>{2, 0, 1});
  CHECK(track.rounds[3] == std::vector<std::size_t>{0, 1, 2});
  for (const auto &timing : timings) CHECK(timing.rounds == 20);
  CHECK(timings[1].median_ms == 1.1);
  CHECK(timings[1].dispersion == 0);
}

TEST_CASE("rounds: clearly slower trials are given up and keep their numbers") {
  Track track{{1.0, 1.4, 1.6, 5.0}};
  const auto timings = time_in_rounds(std::vector<int>{0, 0, 0, 0}, track.runner());
  CHECK(timings[0].rounds == 20);
  CHECK(timings[1].rounds == 20);
  CHECK(timings[2].rounds == 3);
  CHECK(timings[2].median_ms == 1.6);
  CHECK(timings[3].rounds == 1);
  CHECK(timings[3].median_ms == 5.0);
}

TEST_CASE("rounds: a layout class competes within itself") {
  Track track{{1.0, 5.0, 6.0}};
  const auto timings = time_in_rounds(std::vector<int>{0, 1, 1}, track.runner());
  for (const auto &timing : timings) CHECK(timing.rounds == 20);
}

TEST_CASE("rounds: a long problem ends with its budget, after the least number of rounds") {
  Track slow{{400, 500}};
  CHECK(time_in_rounds(std::vector<int>{0, 0}, slow.runner())[0].rounds == 5);
  Track middling{{30, 30}};
  CHECK(time_in_rounds(std::vector<int>{0, 0}, middling.runner())[0].rounds == 13);  // 3 + 600 / 60
}

TEST_CASE("rounds: median and dispersion of samples that vary") {
  int round = 0;
  const auto run = [&](std::span<const std::size_t>) {
    return std::vector<double>{++round % 4 == 0 ? 3.0 : 1.0 + 0.1 * (round % 2)};
  };
  const auto timing = time_in_rounds(std::vector<int>{0}, run).front();
  CHECK(timing.median_ms == doctest::Approx(1.1));
  CHECK(timing.dispersion > 0);
  CHECK(timing.dispersion < 0.1);
}

TEST_CASE("rounds: nothing to time") {
  Track none{{}};
  CHECK(time_in_rounds(std::vector<int>{}, none.runner()).empty());
  CHECK(none.rounds.empty());
}

TEST_CASE("rounds: a trial that is kept is timed to the end, however slow") {
  Track track{{1.0, 1.6, 5.0}};
  tune::RoundRules rules;
  rules.kept = 2;
  const auto timings = time_in_rounds(std::vector<int>{0, 0, 0}, track.runner(), rules);
  CHECK(timings[0].rounds == 20);
  CHECK(timings[1].rounds == 3);
  CHECK(timings[2].rounds == 20);
}

TEST_CASE("rounds: a measurement may want more than a sweep, and gets them whatever they cost") {
  CHECK(tune::rules_of({}).least_rounds == 5);
  CHECK(tune::rules_of(tune::Measuring{}).least_rounds == 5);
  for (const int wanted : {20, 50}) {
    Track slow{{500.0}};
    const auto rules = tune::rules_of(tune::Measuring{wanted, {}});
    CHECK(time_in_rounds(std::vector<int>{0}, slow.runner(), rules)[0].rounds == wanted);
  }
}
