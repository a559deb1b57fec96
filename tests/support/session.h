// A library context on the fake driver, with the clock of sweeps and the date decided by the test; everything else is
// real: NVRTC, the file system, the pipeline. Tests talk to it through the C ABI.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "api/context.h"
#include "ops/bind.h"
#include "support/fake_cuda.h"
#include "support/op_calls.h"
#include "support/scratch.h"
#include "tune/timer.h"

namespace msj::testing {

// One H200 that computes nothing, for contexts that are made while this lives. Declare it before them.
class FakeGpu {
 public:
  [[nodiscard]] fake::FakeCuda &operator*() { return cuda_; }
  [[nodiscard]] fake::FakeCuda *operator->() { return &cuda_; }
  // The one launch that was recorded last.
  [[nodiscard]] fake::Launch last_launch() const {
    fake::Launch launch{};
    REQUIRE(cuda_.launch_count() > 0);
    REQUIRE(cuda_.launch(cuda_.launch_count() - 1, &launch));
    return launch;
  }

 private:
  fake::FakeCuda cuda_{MSJ_FAKE_LIBCUDA};
  ScopedEnvironment library_{"MAXSIM_JIT_LIBCUDA", MSJ_FAKE_LIBCUDA};
};

// Milliseconds of a trial.
using Clock = std::function<double(const tune::SweepProblem &, const tune::Trial &)>;

// Depends on all that a sweep is told, so that a sweep of another problem finds another winner and other timings.
[[nodiscard]] inline double hashed_time(const tune::SweepProblem &problem, const tune::Trial &trial) {
  std::string text = to_string(trial.config) + std::string(name(trial.layout));
  for (const DType dtype : problem.dtypes.all()) text += "-" + std::string(name(dtype));
  for (const std::int64_t size : problem.sizes) text += "," + std::to_string(size);
  for (const std::int64_t size : problem.static_sizes) text += ";" + std::to_string(size);
  text += "|" + std::to_string(problem.features);
  return 1.0 + static_cast<double>(std::hash<std::string>{}(text) % 1'000'000) * 1e-4;
}

class DecidedTimer : public tune::Timer {
 public:
  explicit DecidedTimer(Clock clock) : clock_(std::move(clock)) {}
  [[nodiscard]] std::vector<tune::Timing> time(const tune::SweepProblem &problem,
                                               std::span<const tune::Trial> trials) override {
    std::vector<tune::Timing> timings;
    for (const tune::Trial &trial : trials) timings.push_back({clock_(problem, trial), 0.0, 20, {}});
    return timings;
  }

 private:
  Clock clock_;
};

class Session {
 public:
  // `in_callbacks` is what each callback, of the log and of progress, does besides.
  explicit Session(
      const std::string &cache, const char *tune = "on", Clock clock = hashed_time, void (*in_callbacks)() = [] {})
      : in_callbacks_(in_callbacks) {
    msj_context_options options{};
    options.struct_size = sizeof options;
    options.cache_dir = cache.c_str();
    options.tune = tune;
    options.log = remember;
    options.log_user = this;
    options.progress = progress;
    options.progress_user = this;
    ops::World world;
    world.make_timer = [clock](std::shared_ptr<const cuda::Driver>, Log &) -> std::unique_ptr<tune::Timer> {
      return std::make_unique<DecidedTimer>(clock);
    };
    world.now = [] { return std::string("2026-01-02T03:04:05Z"); };
    context_ = std::make_unique<msj_context>(options, std::move(world));
  }
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  [[nodiscard]] msj_context *get() { return context_.get(); }
  [[nodiscard]] ops::Pipeline &pipeline() { return context_->pipeline; }
  [[nodiscard]] msj_counters stats() {
    msj_counters counters{};
    counters.struct_size = sizeof counters;
    REQUIRE(msj_stats(get(), &counters) == MSJ_OK);
    return counters;
  }
  // Warnings and errors so far.
  [[nodiscard]] std::vector<std::string> complaints() {
    const std::scoped_lock lock(mutex_);
    return complaints_;
  }

  // Whether a message of any level has had `text` in it.
  [[nodiscard]] bool said(std::string_view text) {
    const std::scoped_lock lock(mutex_);
    return std::any_of(said_.begin(), said_.end(),
                       [text](const std::string &line) { return line.find(text) != std::string::npos; });
  }

  [[nodiscard]] int callbacks() const { return callbacks_; }

  [[nodiscard]] msj_status run(OpCall &call) { return msj_run(get(), &call.call()); }
  [[nodiscard]] msj_status run(const CallShape &shape) {
    OpCall call(shape);
    return run(call);
  }
  void must_run(const CallShape &shape) {
    const msj_status status = run(shape);
    INFO(msj_last_error());
    REQUIRE(status == MSJ_OK);
  }

  // ---- what the tables say must happen, apart from every counter ----

  [[nodiscard]] tune::AutotuneKey key(const CallShape &shape) {
    return {*shape.op, pipeline().tuner().buckets().bucket(*shape.op, shape.sizes),
            tune::DtypeTuple(*shape.op, shape.own)};
  }
  [[nodiscard]] tune::Admission admission(const CallShape &shape) {
    return tune::admit(tune::CandidateSpace::embedded(*shape.op), key(shape), pipeline().device(0).limits);
  }
  // Kernels that a call of this shape launches.
  [[nodiscard]] std::size_t kernels_of(const CallShape &shape) {
    OpCall call(shape);
    const BoundCall bound = ops::bind(call.call(), ops::DataRule::ignored);
    const ops::Ready &ready = *pipeline().prepare(bound, {});
    const LaunchList list = ready.path->geometry(
        {ready.config, bound.sizes, ready.static_sizes, bound.dtypes, ready.sm_count, bound.features});
    return static_cast<std::size_t>(list.count * list.rounds);
  }
  // (candidate, layout class) pairs of a sweep.
  [[nodiscard]] std::int64_t sweep_compiles(const CallShape &shape) {
    return static_cast<std::int64_t>(admission(shape).admitted.size());
  }

 private:
  static void remember(void *user, std::int32_t level, const char *message) {
    auto &session = *static_cast<Session *>(user);
    const std::scoped_lock lock(session.mutex_);
    session.said_.emplace_back(message);
    if (level <= MSJ_LOG_WARNING) session.complaints_.emplace_back(message);
    session.called_back();
  }
  static void progress(void *user, const char *, std::int64_t, std::int64_t) {
    static_cast<Session *>(user)->called_back();
  }
  void called_back() {
    ++callbacks_;
    in_callbacks_();
  }

  void (*in_callbacks_)();
  std::atomic<int> callbacks_{0};
  std::mutex mutex_;
  std::vector<std::string> said_, complaints_;
  std::unique_ptr<msj_context> context_;
};

}  // namespace msj::testing
