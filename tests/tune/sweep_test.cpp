#include "tune/sweep.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/error.h"
#include "tuning.h"

using namespace msj;
using namespace msj::testing;
using tune::Timing;

namespace {

// Timings as a table, in the order of the trials.
class TableTimer : public tune::Timer {
 public:
  explicit TableTimer(std::vector<Timing> timings) : timings_(std::move(timings)) {}
  [[nodiscard]] std::vector<Timing> time(const tune::SweepProblem &, std::span<const tune::Trial>) override {
    return timings_;
  }

 private:
  std::vector<Timing> timings_;
};

Timing ran(double ms, double dispersion = 0) { return {ms, dispersion, 20, {}}; }
Timing failed(const std::string &why) { return {0, 0, 0, why}; }

// Three trials for aligned16, two for any.
const std::vector<tune::Trial> &trials() {
  static const std::vector<tune::Trial> all = {{toy_config("simple", 64, 2), Layout::aligned16, nullptr},
                                               {toy_config("simple", 64, 2), Layout::any, nullptr},
                                               {toy_config("simple", 128, 2), Layout::aligned16, nullptr},
                                               {toy_config("simple", 128, 2), Layout::any, nullptr},
                                               {toy_config("fast", 128, 4), Layout::aligned16, nullptr}};
  return all;
}

tune::Entry sweep_with(std::vector<Timing> timings, const tune::Admission &admission = {}) {
  TableTimer timer(std::move(timings));
  const auto key = toy_key();
  return tune::sweep(key, {.op = &kToy, .sizes = {1, 2, 3, 4, 64, 32}, .dtypes = key.dtypes()}, admission, trials(),
                     timer);
}

std::string failure(std::vector<Timing> timings) {
  try {
    (void)sweep_with(std::move(timings));
  } catch (const Error &error) {
    CHECK(error.status() == MSJ_ERROR_CUDA);
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("sweep: the best of each layout class wins") {
  const auto entry = sweep_with({ran(2), ran(3), ran(1.5), ran(4), ran(1)});
  CHECK(entry.configs.config == toy_config("fast", 128, 4));
  CHECK(entry.configs.config_any == toy_config("simple", 64, 2));
  CHECK(entry.op == "toy");
  CHECK(entry.tuning_epoch == 1);
  CHECK(entry.sizes == Sizes{1, 2, 3, 4, 64, 32});
  REQUIRE(entry.candidates.size() == 5);
  CHECK(entry.candidates[2].timing.median_ms == 1.5);
}

TEST_CASE("sweep: what is within the clock's noise goes to the earlier candidate") {
  CHECK(sweep_with({ran(1.009), ran(1), ran(1), ran(1), ran(1)}).configs.config == toy_config("simple", 64, 2));
  CHECK(sweep_with({ran(1.011), ran(1), ran(1), ran(1), ran(1)}).configs.config == toy_config("simple", 128, 2));
  // Either's dispersion counts,
  CHECK(sweep_with({ran(1.02, 0.02), ran(1), ran(1), ran(1), ran(1)}).configs.config == toy_config("simple", 64, 2));
  CHECK(sweep_with({ran(1.02), ran(1), ran(1, 0.02), ran(1), ran(2)}).configs.config == toy_config("simple", 64, 2));
  // but no jitter makes a slow candidate a fast one.
  CHECK(sweep_with({ran(1.2, 0.5), ran(1), ran(1, 0.5), ran(1), ran(2)}).configs.config ==
        toy_config("simple", 128, 2));
}

TEST_CASE("sweep: a trial that could not run is recorded as rejected and never wins") {
  tune::Admission admission;
  admission.rejected.push_back({toy_config("fast", 128, 100), Layout::aligned16, "it does not fit"});
  const auto entry = sweep_with({ran(2), ran(3), failed("no"), Timing{}, ran(2.5)}, admission);
  CHECK(entry.configs.config == toy_config("simple", 64, 2));
  REQUIRE(entry.candidates.size() == 6);
  CHECK(entry.candidates[2].rejected == "no");
  CHECK(entry.candidates[3].rejected == "it was not timed");
  CHECK(entry.candidates[5].rejected == "it does not fit");
}

TEST_CASE("sweep: a time that is no number is no result, and the entry can be read again") {
  for (const double no_time : {std::nan(""), HUGE_VAL, -HUGE_VAL, -1.0}) {
    auto entry = sweep_with({ran(2), ran(3), ran(no_time), ran(3, std::nan("")), ran(2.5)});
    CHECK(entry.configs.config == toy_config("simple", 64, 2));
    CHECK(entry.candidates[2].rejected.starts_with("its clock said "));
    CHECK_FALSE(entry.candidates[3].rejected.empty());
    entry.environment = "here";
    std::string why;
    CHECK(tune::parse_entry(to_json(entry, toy_key()), toy_key(), "here", why));
    CHECK(why == "");
  }
}

TEST_CASE("sweep: a class of which nothing ran is an error with the first reason") {
  CHECK(failure({ran(1), failed("first"), ran(1), failed("second"), ran(1)}) ==
        "no candidate of layout class any could be timed; simple block=64 stages=2: first");
  TableTimer short_timer({ran(1)});
  const auto key = toy_key();
  CHECK_THROWS_AS((void)tune::sweep(key, {.op = &kToy, .dtypes = key.dtypes()}, {}, trials(), short_timer), Error);
}

TEST_CASE("compile_trials: one NVRTC invocation for each pair, in the admitted order") {
  const ToyKernels kernels;
  const ScratchDirectory cache;
  Tuning tuning({.cache = cache.path(), .kernels = kernels.folder()});
  const auto key = toy_key();
  auto admission = tune::admit(tuning.tuner.space(kToy), key, h200_limits());
  std::vector<std::int64_t> steps;
  const auto trials =
      tune::compile_trials(key, kToy.representative_features, toy_device().architecture, admission, tuning.specializer,
                           [&](const char *what, std::int64_t done, std::int64_t total) {
                             CHECK(std::string(what) == "compile");
                             CHECK(total == kToyPairs);
                             steps.push_back(done);
                           });
  REQUIRE(trials.size() == kToyPairs);
  CHECK(tuning.counters.nvrtc_invocations == kToyPairs);
  CHECK(steps == std::vector<std::int64_t>{1, 2, 3, 4, 5, 6});
  std::set<std::string> hashes;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    CHECK(trials[i].config == admission.admitted[i].config);
    CHECK(trials[i].layout == admission.admitted[i].layout);
    hashes.insert(trials[i].cubin->hash);
  }
  CHECK(hashes.size() == kToyPairs);
}

TEST_CASE("compile_trials: a candidate that does not compile is left out, the others go on") {
  ToyKernels kernels;
  kernels.write("fast", "this is no C++;");
  const ScratchDirectory cache;
  Tuning tuning({.cache = cache.path(), .kernels = kernels.folder()});
  const auto key = toy_key();
  auto admission = tune::admit(tuning.tuner.space(kToy), key, h200_limits());
  const auto trials = tune::compile_trials(key, kToy.representative_features, toy_device().architecture, admission,
                                           tuning.specializer, {});
  CHECK(trials.size() == kToyPairs - 1);
  CHECK(admission.admitted.size() == kToyPairs - 1);
  CHECK(tuning.counters.nvrtc_invocations == kToyPairs);
  REQUIRE(admission.rejected.size() == 2);
  CHECK(admission.rejected[1].config == toy_config("fast", 128, 4));
  CHECK_FALSE(admission.rejected[1].reason.empty());
}

TEST_CASE("compile_trials: without NVRTC it says so, and blames no candidate") {
  const ToyKernels kernels;
  const ScratchDirectory cache;
  Tuning tuning({.cache = cache.path(), .kernels = kernels.folder(), .libnvrtc = "/nowhere/libnvrtc.so"});
  const auto key = toy_key();
  auto admission = tune::admit(tuning.tuner.space(kToy), key, h200_limits());
  try {
    (void)tune::compile_trials(key, kToy.representative_features, toy_device().architecture, admission,
                               tuning.specializer, {});
    FAIL("compiled");
  } catch (const Error &error) {
    CHECK(error.status() == MSJ_ERROR_NO_NVRTC);
  }
  CHECK(admission.rejected.size() == 1);
}
