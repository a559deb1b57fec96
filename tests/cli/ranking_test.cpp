#include "cli/ranking.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

using namespace msj::cli;
using Order = std::vector<std::int64_t>;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("greatest first, ties by index, NaN last") {
  const std::vector<float> scores = {1.0F, 3.0F, kNan, 3.0F, -kInfinity, kInfinity, kNan};
  CHECK(top_k(scores, 7) == Order{5, 1, 3, 0, 4, 2, 6});
  CHECK(top_k(scores, 3) == Order{5, 1, 3});
}

TEST_CASE("zeros of either sign tie") {
  const std::vector<float> scores = {-0.0F, 0.0F, -0.0F};
  CHECK(top_k(scores, 3) == Order{0, 1, 2});
}

TEST_CASE("k beyond the documents, and none at all") {
  const std::vector<float> scores = {1.0F, 2.0F};
  CHECK(top_k(scores, 100) == Order{1, 0});
  CHECK(top_k({}, 3).empty());
}

TEST_CASE("the first k of a stable sort of everything") {
  std::mt19937 random(11);
  for (int round = 0; round < 50; ++round) {
    std::vector<float> scores(200);
    for (float &score : scores) score = random() % 10 == 0 ? kNan : static_cast<float>(random() % 20);
    Order sorted(scores.size());
    std::iota(sorted.begin(), sorted.end(), 0);
    const auto key = [&](std::int64_t i) {
      const float score = scores[static_cast<std::size_t>(i)];
      return std::isnan(score) ? -1.0F : score;  // all others are 0 or more
    };
    std::stable_sort(sorted.begin(), sorted.end(), [&](std::int64_t a, std::int64_t b) { return key(a) > key(b); });
    for (const std::int64_t k : {1, 7, 199, 200}) {
      CHECK(top_k(scores, k) == Order(sorted.begin(), sorted.begin() + k));
    }
  }
}
