#include "tune/sweep.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/error.h"

namespace msj::tune {

namespace {

// ---- compiling ----------------------------------------------------------------------------------------------------

// What the worker threads share: the next pair to take, and what came of each.
class Compilation {
 public:
  Compilation(const AutotuneKey &key, FeatureSet features, const cuda::Architecture &architecture,
              const std::vector<Admitted> &pairs, jit::Specializer &specializer, const Progress &progress)
      : key_(key),
        features_(features),
        architecture_(architecture),
        pairs_(pairs),
        specializer_(specializer),
        progress_(progress),
        outcomes_(pairs.size()) {}

  struct Outcome {
    std::shared_ptr<const jit::Cubin> cubin;
    std::string reason;  // why it does not compile
  };

  // Every pair, or the first failure that is not the candidate's own.
  std::vector<Outcome> run() {
    const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
    {
      std::vector<std::jthread> workers;
      try {
        for (std::size_t i = 1; i < std::min(cores, pairs_.size()); ++i) workers.emplace_back([this] { work(); });
      } catch (const std::system_error &) {
        // No more threads to be had: those that are there do the work.
      }
      work();
    }
    if (failure_) std::rethrow_exception(failure_);
    return std::move(outcomes_);
  }

 private:
  void work() {
    for (std::size_t i = next_++; i < pairs_.size() && !stop_; i = next_++) {
      try {
        compile(i);
        report();
      } catch (...) {
        const std::scoped_lock lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
        stop_ = true;
      }
    }
  }

  void compile(std::size_t index) {
    const jit::Specialization specialization = {.op = &key_.op(),
                                                .config = pairs_[index].config,
                                                .features = features_,
                                                .dtypes = key_.dtypes().array(),
                                                .static_sizes = key_.bucket().static_sizes(),
                                                .layout = pairs_[index].layout,
                                                .architecture = architecture_};
    try {
      outcomes_[index].cubin = specializer_.cubin(specialization, jit::Specializer::Purpose::sweep);
    } catch (const Error &error) {
      if (error.status() != MSJ_ERROR_COMPILE) throw;
      outcomes_[index].reason = error.what();
    }
  }

  void report() {
    const std::scoped_lock lock(mutex_);
    ++done_;
    if (progress_) progress_("compile", done_, static_cast<std::int64_t>(pairs_.size()));
  }

  const AutotuneKey &key_;
  FeatureSet features_;
  const cuda::Architecture &architecture_;
  const std::vector<Admitted> &pairs_;
  jit::Specializer &specializer_;
  const Progress &progress_;
  std::vector<Outcome> outcomes_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::int64_t done_ = 0;
  std::exception_ptr failure_;
};

// ---- choosing -----------------------------------------------------------------------------------------------------

constexpr double kNoiseFloor = 0.01;
// However much a clock jitters, it excuses no more: else the noisiest candidate would win every tie.
constexpr double kNoiseCeiling = 0.03;

bool within_noise(const Timing &timing, const Timing &best) {
  const double noise = std::clamp(std::max(timing.dispersion, best.dispersion), kNoiseFloor, kNoiseCeiling);
  return timing.median_ms <= best.median_ms * (1 + noise);
}

// Why a trial is no result; "" if it is one.
std::string failure_of(const Timing &timing) {
  if (!timing.error.empty()) return timing.error;
  if (timing.rounds == 0) return "it was not timed";
  const bool is_time = std::isfinite(timing.median_ms) && timing.median_ms >= 0 && std::isfinite(timing.dispersion);
  return is_time ? "" : fmt::format("its clock said {} ms", timing.median_ms);
}

[[noreturn]] void refuse_class(Layout layout, const Admission &admission, std::span<const CandidateRecord> records) {
  for (const CandidateRecord &record : records) {
    if (record.layout != layout) continue;
    throw_error(MSJ_ERROR_CUDA, "no candidate of layout class {} could be timed; {}: {}", name(layout),
                to_string(record.config), record.rejected);
  }
  for (const Rejected &rejected : admission.rejected) {
    if (rejected.layout != layout) continue;
    throw_error(MSJ_ERROR_CUDA, "no candidate of layout class {} is left to time; {}: {}", name(layout),
                to_string(rejected.config), rejected.reason);
  }
  throw_error(MSJ_ERROR_CUDA, "there is no candidate of layout class {}", name(layout));
}

// The earliest candidate of the class that is as fast as its fastest.
TileConfig winner(Layout layout, const Admission &admission, std::span<const CandidateRecord> records) {
  const auto ran = [&](const CandidateRecord &record) { return record.layout == layout && record.rejected.empty(); };
  const Timing *best = nullptr;
  for (const CandidateRecord &record : records) {
    if (ran(record) && (!best || record.timing.median_ms < best->median_ms)) best = &record.timing;
  }
  for (const CandidateRecord &record : records) {
    if (best && ran(record) && within_noise(record.timing, *best)) return record.config;
  }
  refuse_class(layout, admission, records);
}

}  // namespace

std::vector<Trial> compile_trials(const AutotuneKey &key, FeatureSet features, const cuda::Architecture &architecture,
                                  Admission &admission, jit::Specializer &specializer, const Progress &progress) {
  auto outcomes = Compilation(key, features, architecture, admission.admitted, specializer, progress).run();
  std::vector<Trial> trials;
  std::vector<Admitted> compiled;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const Admitted &pair = admission.admitted[i];
    if (outcomes[i].cubin) {
      trials.push_back({pair.config, pair.layout, std::move(outcomes[i].cubin)});
      compiled.push_back(pair);
    } else {
      admission.rejected.push_back({pair.config, pair.layout, std::move(outcomes[i].reason)});
    }
  }
  admission.admitted = std::move(compiled);
  return trials;
}

std::vector<CandidateRecord> time_trials(const SweepProblem &problem, std::span<const Trial> trials, Timer &timer) {
  const std::vector<Timing> timings = timer.time(problem, trials);
  if (timings.size() != trials.size()) {
    throw_error(MSJ_ERROR_INTERNAL, "{} timings of {} trials came back", timings.size(), trials.size());
  }
  std::vector<CandidateRecord> records;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    records.push_back({trials[i].config, trials[i].layout, timings[i], failure_of(timings[i])});
  }
  return records;
}

Entry sweep(const AutotuneKey &key, const SweepProblem &problem, const Admission &admission,
            std::span<const Trial> trials, Timer &timer) {
  Entry entry;
  entry.op = key.op().name;
  entry.tuning_epoch = key.op().tuning_epoch;
  entry.sizes = problem.sizes;
  entry.candidates = time_trials(problem, trials, timer);
  entry.configs = {winner(Layout::aligned16, admission, entry.candidates),
                   winner(Layout::any, admission, entry.candidates)};
  for (CandidateRecord &record : entry.candidates) {
    if (!record.rejected.empty()) record.timing = {};
  }
  for (const Rejected &rejected : admission.rejected) {
    entry.candidates.push_back({rejected.config, rejected.layout, {}, rejected.reason});
  }
  return entry;
}

}  // namespace msj::tune
