// A clock that tests decide: it favours one config, and gives the same times for the same trials.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tune/timer.h"

namespace msj::testing {

class FakeTimer : public tune::Timer {
 public:
  explicit FakeTimer(TileConfig favourite = {}) : favourite_(std::move(favourite)) {}

  [[nodiscard]] std::vector<tune::Timing> time(const tune::SweepProblem &problem,
                                               std::span<const tune::Trial> trials) override {
    overlapped = overlapped || ++running_ > 1;
    std::this_thread::sleep_for(takes);
    std::vector<tune::Timing> timings;
    for (std::size_t i = 0; i < trials.size(); ++i) timings.push_back(timing_of(i, trials[i]));
    {
      const std::scoped_lock lock(mutex_);
      problems.push_back(problem);
      for (const tune::Trial &trial : trials) cubins.insert(trial.cubin->hash);
    }
    --running_;
    ++calls;
    return timings;
  }

  std::map<TileConfig, std::string> errors;  // configs that can't run, and why
  std::chrono::milliseconds takes{0};
  std::atomic<int> calls{0};
  std::atomic<bool> overlapped{false};  // two sweeps were timed at once
  std::vector<tune::SweepProblem> problems;
  std::set<std::string> cubins;

 private:
  [[nodiscard]] tune::Timing timing_of(std::size_t index, const tune::Trial &trial) const {
    if (const auto it = errors.find(trial.config); it != errors.end()) return {0, 0, 0, it->second};
    const double order = 1.0 + 0.1 * static_cast<double>(index);
    return {trial.config == favourite_ ? 0.5 : order, 0.002, 20, {}};
  }

  TileConfig favourite_;
  std::atomic<int> running_{0};
  std::mutex mutex_;
};

}  // namespace msj::testing
