// The real timer on the stand-in driver: what it launches, with which operands, and what it leaves behind.
#include "tune/event_timer.h"

#include <doctest/doctest.h>

#include <cstring>

#include "base/error.h"
#include "cuda/current_context.h"
#include "support/fake_cuda.h"
#include "tuning.h"

using namespace msj;
using namespace msj::testing;

namespace {

// Words of the toy's argument struct: {data, strides…} of each operand, sizes, the param, the workspace.
enum Word {
  kQ = 0,
  kD = 4,
  kBias = 8,
  kDMask = 10,
  kDLengths = 13,
  kScale = 15,
  kScores = 18,
  kArgmax = 21,
  kSizes = 25,
  kFactor = 31,
  kWorkspace = 32,
  kWords = 33
};

std::vector<std::uint64_t> words(const fake::Launch &launch) {
  std::vector<std::uint64_t> words(launch.parameter_bytes / 8);
  std::memcpy(words.data(), launch.parameters, words.size() * 8);
  return words;
}

// A GPU of the stand-in driver, and the compiled trials of the toy's key.
class Bench {
 public:
  Bench() {
    Settings settings;
    settings.libcuda = MSJ_FAKE_LIBCUDA;
    driver_ = cuda::Driver::load(settings);
    context_ = std::make_unique<cuda::ContextGuard>(*driver_, gpu.create_context(0));
    auto admission = tune::admit(tuning.tuner.space(kToy), key, h200_limits());
    trials = tune::compile_trials(key, kToy.representative_features, toy_device().architecture, admission,
                                  tuning.specializer, {});
    problem.sizes = tuning.tuner.buckets().representative(key.bucket(), key.dtypes().all());
    problem.static_sizes = key.bucket().static_sizes();
    problem.features = kToy.representative_features;
    problem.sm_count = 132;
    problem.l2_bytes = std::int64_t{50} << 20;
  }
  std::vector<tune::Timing> time() {
    tune::EventTimer timer(driver_, tuning.log);
    return timer.time(problem, trials);
  }
  void check_nothing_left() const {
    for (const char *kind : {"buffer", "stream", "event", "library"}) {
      CAPTURE(kind);
      CHECK(gpu.live_handles(kind) == 0);
    }
  }

  fake::FakeCuda gpu{MSJ_FAKE_LIBCUDA};
  ToyKernels kernels;
  ScratchDirectory cache;
  Tuning tuning{{.cache = cache.path(), .kernels = kernels.folder()}};
  tune::AutotuneKey key = toy_key();
  tune::SweepProblem problem{.op = &kToy, .dtypes = key.dtypes()};
  std::vector<tune::Trial> trials;

 private:
  std::shared_ptr<const cuda::Driver> driver_;
  std::unique_ptr<cuda::ContextGuard> context_;
};

}  // namespace

TEST_CASE("event timer: every trial is timed, and nothing is left on the GPU") {
  Bench bench;
  bench.gpu.set_launch_ms(0.25);
  const auto timings = bench.time();
  REQUIRE(timings.size() == kToyPairs);
  for (const auto &timing : timings) {
    CHECK(timing.error.empty());
    CHECK(timing.rounds == 20);
    CHECK(timing.median_ms == doctest::Approx(0.25));
    CHECK(timing.dispersion == doctest::Approx(0).epsilon(1e-6));
  }
  CHECK(bench.gpu.launch_count() == kToyPairs * 21);  // one to warm up
  bench.check_nothing_left();
}

TEST_CASE("event timer: each trial's own cubin and geometry, on a stream of its own") {
  Bench bench;
  (void)bench.time();
  const auto launches = bench.gpu.launches();
  for (std::size_t i = 0; i < kToyPairs; ++i) {
    const tune::Trial &trial = bench.trials[i];
    CHECK(launches[i].image_bytes == trial.cubin->bytes.size());
    CHECK(std::memcmp(launches[i].image, trial.cubin->bytes.data(), launches[i].image_bytes) == 0);
    CHECK(launches[i].grid[0] == 101);
    CHECK(launches[i].block[0] == static_cast<unsigned>(trial.config.at("block")));
    CHECK(launches[i].shared_bytes == 1024);
    CHECK(launches[i].stream != nullptr);
  }
  CHECK(bench.gpu.calls("cuStreamSynchronize") < 100);  // once a round, not once a launch
}

TEST_CASE("event timer: operands of the representative problem; any layout starts one element later") {
  Bench bench;
  (void)bench.time();
  const auto launches = bench.gpu.launches();
  const auto aligned = words(launches[0]);
  const auto any = words(launches[1]);
  REQUIRE(bench.trials[1].layout == Layout::any);
  REQUIRE(aligned.size() == kWords);
  CHECK(aligned[kQ] % 16 == 0);
  CHECK(any[kQ] == aligned[kQ] + 2);
  CHECK(any[kD] == aligned[kD] + 2);
  for (const int word : {kDMask, kScores, kArgmax, kWorkspace}) {
    CHECK(aligned[static_cast<std::size_t>(word)] != 0);
    CHECK(any[static_cast<std::size_t>(word)] == aligned[static_cast<std::size_t>(word)]);
  }
  for (const int word : {kBias, kDLengths, kScale}) CHECK(aligned[static_cast<std::size_t>(word)] == 0);
  CHECK(std::vector<std::uint64_t>(aligned.begin() + kQ + 1, aligned.begin() + kQ + 4) ==
        std::vector<std::uint64_t>{29 * 64, 64, 1});
  CHECK(std::vector<std::uint64_t>(aligned.begin() + kSizes, aligned.begin() + kFactor) ==
        std::vector<std::uint64_t>{1, 101, 29, 45, 64, 32});
  CHECK(aligned[kFactor] == std::bit_cast<std::uint64_t>(1.0));
}

TEST_CASE("event timer: a trial that can't load or launch is an error of its own") {
  Bench bench;
  bench.gpu.fail("cuLibraryLoadData", CUDA_ERROR_INVALID_IMAGE, 1);
  bench.gpu.fail("cuLaunchKernel", CUDA_ERROR_INVALID_VALUE, 1);
  const auto timings = bench.time();
  CHECK(timings[0].error.find("CUDA_ERROR_INVALID_IMAGE") != std::string::npos);
  CHECK(timings[0].rounds == 0);
  const std::string entry(path_of(kToy, bench.trials[1].config).entries[0]);
  CHECK(timings[1].error.starts_with(entry + ": CUDA_ERROR_INVALID_VALUE"));
  for (std::size_t i = 2; i < kToyPairs; ++i) CHECK(timings[i].rounds == 20);
  CHECK(bench.tuning.warnings().size() == 2);
  bench.check_nothing_left();
}

TEST_CASE("event timer: no memory, and a kernel that fails, are errors that leave nothing behind") {
  Bench bench;
  bench.gpu.fail("cuMemAlloc_v2", CUDA_ERROR_OUT_OF_MEMORY, 1);
  try {
    (void)bench.time();
    FAIL("timed");
  } catch (const Error &error) {
    CHECK(error.status() == MSJ_ERROR_OUT_OF_MEMORY);
    const auto needed = tune::operand_bytes(kToy, bench.problem.sizes, bench.key.dtypes().all());
    CHECK(std::string(error.what()).find(fmt::format("a sweep of toy needs {:.0f} bytes", needed)) == 0);
  }
  bench.check_nothing_left();
  bench.gpu.fail("cuStreamSynchronize", CUDA_ERROR_LAUNCH_FAILED, -1);
  try {
    (void)bench.time();
    FAIL("timed");
  } catch (const Error &error) {
    CHECK(error.status() == MSJ_ERROR_CUDA);
  }
  bench.check_nothing_left();
}

TEST_CASE("event timer: a stream that captures elsewhere survives") {
  Bench bench;
  const CUstream other = bench.gpu.create_stream(bench.gpu.create_context(0), CU_STREAM_NON_BLOCKING);
  bench.gpu.set_capture(other, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  for (const auto &timing : bench.time()) CHECK(timing.error.empty());
}

TEST_CASE("event timer: a measurement has the rounds that it wants") {
  Bench bench;
  bench.problem.measuring = tune::Measuring{25, bench.trials[1].config};
  for (const auto &timing : bench.time()) CHECK(timing.rounds == 25);
}
