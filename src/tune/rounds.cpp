#include "tune/rounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

namespace msj::tune {

namespace {

class Rounds {
 public:
  Rounds(std::span<const int> groups, const RoundRules &rules)
      : groups_(groups), rules_(rules), samples_(groups.size()), left_(groups.size()) {
    std::iota(left_.begin(), left_.end(), std::size_t{0});
  }

  [[nodiscard]] bool more() const {
    if (left_.empty() || round_ >= rules_.most_rounds) return false;
    return round_ < rules_.least_rounds || spent_ms_ < rules_.budget_ms;
  }

  void run(const RunRound &run_round) {
    std::vector<std::size_t> order = left_;
    std::rotate(order.begin(), order.begin() + round_ % static_cast<std::ptrdiff_t>(order.size()), order.end());
    const std::vector<double> times = run_round(order);
    for (std::size_t i = 0; i < order.size(); ++i) samples_[order[i]].push_back(times[i]);
    if (round_ >= rules_.sure_rounds) spent_ms_ += std::accumulate(times.begin(), times.end(), 0.0);
    ++round_;
    if (round_ == 1) give_up_above(rules_.hopeless);
    if (round_ >= rules_.sure_rounds) give_up_above(rules_.slower);
  }

  [[nodiscard]] std::vector<Timing> timings() const {
    std::vector<Timing> timings;
    for (const std::vector<double> &samples : samples_) {
      const double middle = median(samples);
      std::vector<double> deviations;
      for (const double sample : samples) deviations.push_back(std::abs(sample - middle));
      timings.push_back({middle, middle > 0 ? median(deviations) / middle : 0, static_cast<int>(samples.size()), {}});
    }
    return timings;
  }

 private:
  void give_up_above(double factor) {
    std::map<int, double> best;
    for (const std::size_t trial : left_) {
      const auto [it, is_first] = best.emplace(groups_[trial], std::numeric_limits<double>::infinity());
      it->second = std::min(it->second, median(samples_[trial]));
    }
    std::erase_if(left_, [&](std::size_t trial) {
      return trial != rules_.kept && median(samples_[trial]) > factor * best[groups_[trial]];
    });
  }

  std::span<const int> groups_;
  const RoundRules &rules_;
  std::vector<std::vector<double>> samples_;
  std::vector<std::size_t> left_;
  int round_ = 0;
  double spent_ms_ = 0;
};

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

RoundRules rules_of(const std::optional<Measuring> &measuring) {
  RoundRules rules;
  if (!measuring || measuring->least_rounds == 0) return rules;
  rules.least_rounds = measuring->least_rounds;
  rules.most_rounds = std::max(rules.most_rounds, rules.least_rounds);
  return rules;
}

std::vector<Timing> time_in_rounds(std::span<const int> groups, const RunRound &run_round, const RoundRules &rules) {
  Rounds rounds(groups, rules);
  while (rounds.more()) rounds.run(run_round);
  return rounds.timings();
}

}  // namespace msj::tune
