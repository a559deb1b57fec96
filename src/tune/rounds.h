// Interleaved rounds: what is timed when, when a trial is given up, and what its numbers come to. No GPU in here.
//
// Each round times every trial that is left once, in an order rotated from round to round, so that a clock that drifts
// or a neighbour that warms the memory does not favour one of them. A trial is given up when it is hopeless after the
// first round, or clearly slower than the best of its group from the third; it keeps the numbers that it has.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "tune/timer.h"

namespace msj::tune {

struct RoundRules {
  int sure_rounds = 3;   // before a trial is given up for being `slower`
  int least_rounds = 5;  // for those that stay
  int most_rounds = 20;
  double hopeless = 4.0;                 // times the best, after one round
  double slower = 1.5;                   // times the best median
  double budget_ms = 600;                // of timed work after the sure rounds
  std::optional<std::size_t> kept = {};  // this trial is never given up
};
// Those of a sweep; of a measurement that wants more rounds, at least so many.
[[nodiscard]] RoundRules rules_of(const std::optional<Measuring> &measuring);

// Times the trials of `order`, in that order; milliseconds of each.
using RunRound = std::function<std::vector<double>(std::span<const std::size_t> order)>;

// `groups[i]`: trials compete within their group alone (the layout class).
[[nodiscard]] std::vector<Timing> time_in_rounds(std::span<const int> groups, const RunRound &run_round,
                                                 const RoundRules &rules = {});

// The middle value, or the mean of the middle two; 0 of none.
[[nodiscard]] double median(std::vector<double> values);

}  // namespace msj::tune
