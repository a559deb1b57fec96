#include "tune/event_timer.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/error.h"
#include "cuda/buffer.h"
#include "cuda/current_context.h"
#include "cuda/launch.h"
#include "cuda/module.h"
#include "jit/arguments.h"
#include "jit/tensor_maps.h"
#include "tune/ceilings.h"
#include "tune/cold_clock.h"
#include "tune/rounds.h"
#include "tune/scratch.h"

namespace msj::tune {

namespace {

// A trial that is loaded and can be launched.
struct Ready {
  Ready(const std::shared_ptr<const cuda::Driver> &driver, const SweepProblem &problem, const Trial &trial,
        const BoundCall &call, void *workspace, cuda::TensorMapCache &maps)
      : path(path_of(*problem.op, trial.config)), arguments(call, workspace), module(driver, trial.cubin->bytes) {
    launches = path.geometry(
        {trial.config, problem.sizes, problem.static_sizes, problem.dtypes.all(), problem.sm_count, problem.features});
    jit::add_tensor_maps(path, trial.config, problem.static_sizes, call, maps, arguments);
    if (launches.count == 0) throw_error(MSJ_ERROR_INTERNAL, "it launches nothing for these sizes");
    for (std::size_t i = 0; i < static_cast<std::size_t>(launches.count); ++i) {
      const KernelLaunch &launch = launches.launches[i];
      if (launch.grid < 1 || launch.grid > std::numeric_limits<std::int32_t>::max()) {
        throw_error(MSJ_ERROR_INTERNAL, "its grid has {} blocks", launch.grid);
      }
      const auto entry = static_cast<std::size_t>(launch.entry);
      functions[entry] = module.function(path.entries[entry], launch.shared_bytes);
    }
  }

  const PathSpec &path;
  jit::Arguments arguments;
  cuda::Module module;
  LaunchList launches;
  std::array<CUfunction, kMaxLaunches> functions{};  // of the path's entries
};

std::size_t workspace_bytes(const SweepProblem &problem, std::span<const Trial> trials) {
  std::size_t most = 0;
  for (const Trial &trial : trials) {
    const PathSpec &path = path_of(*problem.op, trial.config);
    if (!path.workspace) continue;
    most = std::max(most, path.workspace({trial.config, problem.sizes, problem.static_sizes, problem.dtypes.all(),
                                          problem.sm_count, problem.features}));
  }
  return most;
}

// Everything that one sweep has on the GPU, freed with it.
class Bench {
 public:
  Bench(const std::shared_ptr<const cuda::Driver> &driver, const SweepProblem &problem, std::span<const Trial> trials)
      : driver_(driver),
        stream_(driver),
        scratch_(driver, stream_, problem),
        clock_(driver, stream_, problem.l2_bytes),
        workspace_(driver, workspace_bytes(problem, trials)),
        maps_(driver) {}

  // Loads and launches once. "" or why it can't run; an error that leaves the CUDA context broken is thrown.
  std::string prepare(const SweepProblem &problem, const Trial &trial) {
    try {
      ready_.push_back(std::make_unique<Ready>(driver_, problem, trial, scratch_.call(trial.layout),
                                               reinterpret_cast<void *>(workspace_.get()), maps_));
      launch(*ready_.back());
    } catch (const Error &error) {
      (void)driver_->StreamSynchronize(stream_.get());  // of several launches, the first may run
      if (ready_.size() > groups_.size()) ready_.pop_back();
      return error.what();
    }
    driver_->check(driver_->StreamSynchronize(stream_.get()), "candidate " + to_string(trial.config));
    groups_.push_back(static_cast<int>(trial.layout));
    return {};
  }

  // Of what is ready, in order.
  std::vector<Timing> time(const RoundRules &rules) {
    const auto run_round = [this](std::span<const std::size_t> order) {
      return clock_.round(order, [this](std::size_t trial) { launch(*ready_[trial]); });
    };
    return time_in_rounds(groups_, run_round, rules);
  }

 private:
  void launch(Ready &ready) {
    for (std::int64_t round = 0; round < ready.launches.rounds; ++round) {
      ready.arguments.set_round(round);
      for (std::size_t i = 0; i < static_cast<std::size_t>(ready.launches.count); ++i) {
        const KernelLaunch &launch = ready.launches.launches[i];
        const auto entry = static_cast<std::size_t>(launch.entry);
        driver_->check(cuda::launch(*driver_, ready.functions[entry],
                                    {launch.grid, launch.threads, launch.shared_bytes, launch.overlaps_previous},
                                    stream_.get(), ready.arguments.kernel_params()),
                       ready.path.entries[entry]);
      }
    }
  }

  std::shared_ptr<const cuda::Driver> driver_;
  cuda::Stream stream_;
  Scratch scratch_;
  ColdClock clock_;
  cuda::Buffer workspace_;
  cuda::TensorMapCache maps_;
  std::vector<std::unique_ptr<Ready>> ready_;
  std::vector<int> groups_;  // layout class of each
};

}  // namespace

std::vector<Timing> EventTimer::time(const SweepProblem &problem, std::span<const Trial> trials) {
  const cuda::RelaxedCapture relaxed(*driver_);
  Bench bench(driver_, problem, trials);
  std::vector<Timing> timings(trials.size());
  std::vector<std::size_t> running;
  RoundRules rules = rules_of(problem.measuring);
  for (std::size_t i = 0; i < trials.size(); ++i) {
    timings[i].error = bench.prepare(problem, trials[i]);
    if (timings[i].error.empty()) {
      if (problem.measuring && trials[i].config == problem.measuring->launched) rules.kept = running.size();
      running.push_back(i);
    } else {
      log_.warn(fmt::format("candidate {} of {} could not run: {}", to_string(trials[i].config), problem.op->name,
                            timings[i].error));
    }
  }
  const std::vector<Timing> measured = bench.time(rules);
  for (std::size_t i = 0; i < running.size(); ++i) timings[running[i]] = measured[i];
  return timings;
}

Ceilings EventTimer::ceilings(const SweepProblem &problem, std::string_view cubin) {
  return time_ceilings(driver_, problem, cubin);
}

}  // namespace msj::tune
