#include "cli/ranking.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace msj::cli {

std::vector<std::int64_t> top_k(std::span<const float> scores, std::int64_t k) {
  std::vector<std::int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const auto better = [scores](std::int64_t a, std::int64_t b) {
    const float score_a = scores[static_cast<std::size_t>(a)];
    const float score_b = scores[static_cast<std::size_t>(b)];
    if (std::isnan(score_a) != std::isnan(score_b)) return std::isnan(score_b);
    if (score_a > score_b || score_a < score_b) return score_a > score_b;
    return a < b;
  };
  const auto kept = std::min(k, static_cast<std::int64_t>(order.size()));
  std::partial_sort(order.begin(), order.begin() + kept, order.end(), better);
  order.resize(static_cast<std::size_t>(kept));
  return order;
}

}  // namespace msj::cli
