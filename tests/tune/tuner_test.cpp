#include "tune/tuner.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <thread>

#include "base/error.h"
#include "support/child_process.h"
#include "tuning.h"

using namespace msj;
using namespace msj::testing;
using tune::Source;

namespace {

const TileConfig kDefault = toy_config("simple", 64, 2);
const TileConfig kFast = toy_config("fast", 128, 4);
const TileConfig kWide = toy_config("simple", 128, 2);

// A cache directory and the toy's kernels, for several contexts in a row.
struct Place {
  ToyKernels kernels;
  ScratchDirectory cache;

  [[nodiscard]] Tuning::Options options(TuneMode tune = TuneMode::on) const {
    return {.cache = cache.path(), .kernels = kernels.folder(), .tune = tune};
  }
  // Sweeps in a context of its own; the entry's text.
  std::string sweep(const TileConfig &favourite) const {
    Tuning tuning(options());
    FakeTimer timer(favourite);
    (void)tuning.resolve(toy_key(), timer);
    return tuning.entry_text();
  }
  [[nodiscard]] std::string shipped_name(const tune::AutotuneKey &key = toy_key()) const {
    return "tuned/" + toy_device().environment() + "/toy/" + key.text() + ".json";
  }
};

// An entry as it would be shipped, swept elsewhere.
std::string shipped_text(const TileConfig &favourite) { return Place().sweep(favourite); }

}  // namespace

TEST_CASE("tuner: one sweep, then memory; a new tuner finds it on disk") {
  const Place place;
  FakeTimer timer(kFast);
  {
    Tuning tuning(place.options());
    const auto first = tuning.resolve(toy_key(), timer);
    CHECK(first.source == Source::tuned);
    CHECK(first.configs.config == kFast);
    CHECK(first.configs.config_any == kDefault);
    CHECK(tuning.counters.sweeps == 1);
    CHECK(tuning.counters.candidates_timed == kToyPairs);
    CHECK(tuning.counters.nvrtc_invocations == kToyPairs);
    CHECK(tuning.counters.autotune_hits == 0);
    CHECK(tuning.progress.back() == "sweep 6/6");
    CHECK(tuning.resolve(toy_key(toy_sizes(1, 128, 17, 64)), timer).configs == first.configs);
    CHECK(tuning.counters.sweeps == 1);
    CHECK(tuning.counters.autotune_hits == 1);
    CHECK(tuning.warnings().empty());
  }
  Tuning again(place.options());
  const auto found = again.resolve(toy_key(), timer);
  CHECK(found.source == Source::tuned);
  CHECK(found.configs.config == kFast);
  CHECK(again.counters.sweeps == 0);
  CHECK(again.counters.nvrtc_invocations == 0);
  CHECK(again.counters.autotune_hits == 1);
  CHECK(again.nvrtc.peek() == nullptr);
  CHECK(timer.calls == 1);
}

TEST_CASE("tuner: the timer gets the representative problem of the bucket, whatever the caller's sizes") {
  const Place place;
  FakeTimer timer;
  Tuning tuning(place.options());
  (void)tuning.resolve(toy_key(toy_sizes(1, 1, 17, 1, 49, 17)), timer);
  REQUIRE(timer.problems.size() == 1);
  CHECK(timer.problems[0].sizes == Sizes{1, 101, 29, 45, 64, 32});
  CHECK(timer.problems[0].static_sizes == Sizes{0, 0, 0, 0, 64, 32});
  CHECK(timer.problems[0].features == kToy.representative_features);
  CHECK(timer.problems[0].sm_count == 132);
  CHECK(timer.cubins.size() == kToyPairs);
}

TEST_CASE("tuner: each candidate wins when the clock favours it") {
  for (const TileConfig &favourite : {kDefault, kFast, kWide}) {
    const Place place;
    Tuning tuning(place.options());
    FakeTimer timer(favourite);
    CHECK(tuning.resolve(toy_key(), timer).configs.config == favourite);
  }
  const Place place;
  Tuning tuning(place.options());
  FakeTimer timer(toy_config("simple", 32, 1));
  const auto found = tuning.resolve(toy_key(), timer);
  CHECK(found.configs.config == kDefault);
  CHECK(found.configs.config_any == toy_config("simple", 32, 1));
}

TEST_CASE("tuner: another dtype, bucket or environment is another entry") {
  const Place place;
  Tuning tuning(place.options());
  FakeTimer timer;
  (void)tuning.resolve(toy_key(), timer);
  (void)tuning.resolve(toy_key(toy_sizes(1, 100, 32, 60), {DType::f16, DType::bf16}), timer);
  (void)tuning.resolve(toy_key(toy_sizes(1, 129, 32, 60)), timer);
  cuda::DeviceInfo other = toy_device();
  other.limits.sm_count = 78;
  (void)tuning.resolve(toy_key(), timer, true, other);
  CHECK(tuning.counters.sweeps == 4);
  CHECK(entry_files(place.cache.path()).size() == 4);
}

TEST_CASE("tuner: cached takes what is there, else the default; off takes the default alone; neither sweeps") {
  const Place place;
  FakeTimer timer(kFast);
  {
    Tuning cached(place.options(TuneMode::cached));
    CHECK(cached.resolve(toy_key(), timer, false).source == Source::fallback);
    const auto found = cached.resolve(toy_key(), timer);
    CHECK(found.source == Source::fallback);
    CHECK(found.configs.config == kDefault);
    CHECK(cached.counters.autotune_hits == 0);
    CHECK(cached.counters.nvrtc_invocations == 0);
  }
  (void)place.sweep(kFast);
  Tuning cached(place.options(TuneMode::cached));
  CHECK(cached.resolve(toy_key(), timer).configs.config == kFast);
  CHECK(cached.counters.autotune_hits == 1);
  Tuning off(place.options(TuneMode::off));
  CHECK(off.resolve(toy_key(), timer).configs.config == kDefault);
  CHECK(off.resolve(toy_key(), timer).source == Source::fallback);
  CHECK(off.counters.autotune_hits == 0);
  CHECK(timer.calls == 0);
}

TEST_CASE("tuner: where it may not sweep it says COLD, and finds what is on disk") {
  const Place place;
  FakeTimer timer(kFast);
  Tuning tuning(place.options());
  try {
    (void)tuning.resolve(toy_key(), timer, false);
    FAIL("resolved");
  } catch (const Error &error) {
    CHECK(error.status() == MSJ_ERROR_COLD);
    CHECK(std::string(error.what()).find(toy_key().text()) != std::string::npos);
  }
  CHECK(tuning.counters.nvrtc_invocations == 0);
  (void)place.sweep(kFast);
  CHECK(tuning.resolve(toy_key(), timer, false).configs.config == kFast);
  CHECK(tuning.resolve(toy_key(), timer).configs.config == kFast);
  CHECK(tuning.counters.autotune_hits == 2);
}

TEST_CASE("tuner: a shipped entry saves the sweep; the user's own wins over it") {
  const Place place;
  const std::string shipped = shipped_text(kWide);
  FakeTimer timer(kFast);
  auto options = place.options();
  options.configs = toy_configs(place.shipped_name(), shipped);
  {
    Tuning tuning(options);
    const auto found = tuning.resolve(toy_key(), timer);
    CHECK(found.source == Source::shipped);
    CHECK(found.configs.config == kWide);
    CHECK(tuning.counters.sweeps == 0);
    CHECK(tuning.counters.autotune_hits == 1);
    CHECK(tuning.counters.nvrtc_invocations == 0);
  }
  (void)place.sweep(kFast);
  Tuning tuning(options);
  const auto found = tuning.resolve(toy_key(), timer);
  CHECK(found.source == Source::tuned);
  CHECK(found.configs.config == kFast);
  // A shipped one that is damaged is a miss with one warning.
  const std::string damaged = shipped.substr(0, shipped.size() / 2);
  const Place empty;
  auto bad = empty.options();
  bad.configs = toy_configs(empty.shipped_name(), damaged);
  Tuning other(bad);
  CHECK(other.resolve(toy_key(), timer).source == Source::tuned);
  CHECK(other.counters.sweeps == 1);
  CHECK(other.warnings().size() == 1);
}

TEST_CASE("tuner: ahead of time, the default and every distinct shipped pair of the architecture and GPU") {
  const Place place;
  const std::string fast = shipped_text(kFast);
  const std::string wide = [] {
    const Place elsewhere;
    Tuning tuning(elsewhere.options());
    FakeTimer timer(kWide);
    cuda::DeviceInfo h100 = toy_device();
    h100.name = "NVIDIA H100 PCIe";
    (void)tuning.resolve(toy_key(), timer, true, h100);
    return tuning.entry_text();
  }();
  auto options = place.options();
  cuda::DeviceInfo h100 = toy_device();
  h100.name = "NVIDIA H100 PCIe";
  const std::string h100_name = "tuned/" + h100.environment() + "/toy/" + toy_key().text() + ".json";
  options.configs = toy_configs(place.shipped_name(), fast);
  options.configs.emplace(h100_name, wide);
  Tuning tuning(options);
  const auto configs = [&](std::string_view arch, std::string_view gpu, const tune::AutotuneKey &key = toy_key()) {
    std::vector<TileConfig> winners;
    for (const auto &pair : tuning.tuner.ahead_of_time(key, cuda::parse_architecture(arch), gpu)) {
      winners.push_back(pair.config);
    }
    return winners;
  };
  CHECK(configs("sm_90a", "") == std::vector{kDefault, kWide, kFast});
  CHECK(configs("sm_90a", "NVIDIA H200") == std::vector{kDefault, kFast});
  CHECK(configs("sm_90a", "H200") == std::vector{kDefault, kFast});
  CHECK(configs("sm_90a", "H100 PCIe") == std::vector{kDefault, kWide});
  CHECK(configs("sm_90a", "H100") == std::vector{kDefault});
  CHECK(configs("sm_80", "") == std::vector{kDefault});
  CHECK(configs("sm_90a", "", toy_key(toy_sizes(9, 9, 9, 9))) == std::vector{kDefault});
  CHECK(tune::shipped_entries(options.configs).size() == 2);
  // A GPU that no entry is of is most likely misspelt.
  REQUIRE(tuning.warnings().size() == 1);
  CHECK(tuning.warnings()[0].find("no entry is shipped for a GPU 'H100' of sm_90a") != std::string::npos);
  CHECK(configs("sm_90a", std::string(6000, 'x').c_str()) == std::vector{kDefault});
  REQUIRE(tuning.warnings().size() == 2);
  CHECK(tuning.warnings()[1].find("xxx… (6000 bytes)' of sm_90a") != std::string::npos);
  CHECK(tuning.warnings()[1].size() < 300);
  // Who calls with "off" has no use for the others.
  options.tune = TuneMode::off;
  Tuning off(options);
  const auto only = off.tuner.ahead_of_time(toy_key(), cuda::parse_architecture("sm_90a"), "");
  REQUIRE(only.size() == 1);
  CHECK(only.front().config == kDefault);
}

TEST_CASE("tuner: a damaged entry is swept again and replaced, with one warning") {
  const Place place;
  const std::string good = place.sweep(kFast);
  const auto path = entry_files(place.cache.path()).front();
  for (const std::string &bad : {std::string("{"), std::string(), good.substr(0, 100), std::string(1000, '[')}) {
    write_text(path, bad);
    Tuning tuning(place.options());
    FakeTimer timer(kFast);
    CHECK(tuning.resolve(toy_key(), timer).configs.config == kFast);
    CHECK(tuning.counters.sweeps == 1);
    CHECK(tuning.counters.nvrtc_invocations == 0);  // the cubins are still there
    CHECK(tuning.warnings().size() == 1);
    CHECK(tuning.entry_text() == good);
  }
}

TEST_CASE("tuner: an entry of another epoch is a miss without a warning") {
  const Place place;
  (void)place.sweep(kFast);
  Tuning tuning(place.options());
  FakeTimer timer(kWide);
  const auto next = toy_key(toy_sizes(1, 100, 32, 60), {DType::bf16, DType::bf16}, kToyOfNextEpoch);
  CHECK(tuning.resolve(next, timer).configs.config == kWide);
  CHECK(tuning.counters.sweeps == 1);
  CHECK(tuning.warnings().empty());
}

TEST_CASE("tuner: a config that the device or the space does not admit any more is never used") {
  const Place place;
  (void)place.sweep(kFast);
  {
    // The same environment, but a device that path `fast` does not run on.
    cuda::DeviceInfo device = toy_device();
    device.limits.compute_capability = 100;
    Tuning tuning(place.options(TuneMode::cached));
    FakeTimer timer;
    const auto found = tuning.resolve(toy_key(), timer, true, device);
    CHECK(found.source == Source::fallback);
    CHECK(found.configs.config == kDefault);
    REQUIRE(tuning.warnings().size() == 1);
    CHECK(tuning.warnings()[0].find("compute capability 90 to 90, not 100") != std::string::npos);
  }
  auto options = place.options();
  const std::string smaller = R"({"version": 4, "candidates": [
    {"path": "simple", "tunables": {"block": 64, "stages": 2}, "layouts": ["aligned16", "any"]}]})";
  options.configs["spaces/toy.json"] = smaller;
  Tuning tuning(options);
  FakeTimer timer;
  CHECK(tuning.resolve(toy_key(), timer).configs.config == kDefault);
  CHECK(tuning.counters.sweeps == 1);
  REQUIRE(tuning.warnings().size() == 1);
  CHECK(tuning.warnings()[0].find("fast block=128 stages=4") != std::string::npos);
}

TEST_CASE("tuner: no admissible candidate is an error with reasons, and nothing is compiled") {
  const Place place;
  Tuning tuning(place.options());
  FakeTimer timer;
  cuda::DeviceInfo small = toy_device();
  small.limits.shared_bytes_per_block = 1024;
  try {
    (void)tuning.resolve(toy_key(), timer, true, small);
    FAIL("resolved");
  } catch (const Error &error) {
    CHECK(error.status() == MSJ_ERROR_UNSUPPORTED);
  }
  CHECK(tuning.counters.nvrtc_invocations == 0);
}

TEST_CASE("tuner: a candidate that fails to compile or to run is left out, and the entry says why") {
  Place place;
  place.kernels.write("fast", "this is no C++;");
  Tuning tuning(place.options());
  FakeTimer timer(kFast);
  timer.errors[kDefault] = "it can't launch";
  const auto found = tuning.resolve(toy_key(), timer);
  CHECK(found.configs.config == kWide);
  CHECK(tuning.counters.candidates_timed == 3);
  CHECK(tuning.warnings().size() == 1);
  std::string why;
  const auto entry = tune::parse_entry(tuning.entry_text(), toy_key(), toy_device().environment(), why);
  REQUIRE(entry);
  CHECK(std::count_if(entry->candidates.begin(), entry->candidates.end(),
                      [](const auto &record) { return record.rejected.empty(); }) == 3);
  CHECK(entry->candidates.size() == kToyPairs + 1);
}

TEST_CASE("tuner: a sweep that fails leaves no entry, and the next call tries again") {
  const Place place;
  Tuning tuning(place.options());
  FakeTimer timer;
  for (const TileConfig &config : {kDefault, kFast, kWide}) timer.errors[config] = "no";
  CHECK_THROWS_AS((void)tuning.resolve(toy_key(), timer), Error);
  CHECK(entry_files(place.cache.path()).empty());
  CHECK(tuning.counters.sweeps == 0);
  timer.errors.clear();
  CHECK(tuning.resolve(toy_key(), timer).source == Source::tuned);
}

TEST_CASE("tuner: the entry says where it came from, and two clocks that agree write the same bytes but for the date") {
  const Place first;
  const Place second;
  const std::string text = first.sweep(kFast);
  auto options = second.options();
  options.date = "2027-01-02T03:04:05Z";
  Tuning tuning(options);
  FakeTimer timer(kFast);
  (void)tuning.resolve(toy_key(toy_sizes(1, 3, 20, 7)), timer);
  std::string other = tuning.entry_text();
  const auto provenance = tune::parse_entry(other, toy_key(), toy_device().environment(), other)->provenance;
  other = tuning.entry_text();
  CHECK(provenance.date == options.date);
  CHECK(provenance.driver_version == 13000);
  CHECK(provenance.nvrtc_version == tuning.nvrtc.get()->version());
  CHECK(provenance.library_version == "0.1.0");
  CHECK(provenance.source_hash.size() == 32);
  other.replace(other.find("2027"), 4, "2026");
  CHECK(other == text);
}

TEST_CASE("tuner: sixteen threads, one sweep") {
  const Place place;
  Tuning tuning(place.options());
  FakeTimer timer(kFast);
  timer.takes = std::chrono::milliseconds(50);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 16; ++i) {
      threads.emplace_back([&] { CHECK(tuning.resolve(toy_key(), timer).configs.config == kFast); });
    }
  }
  CHECK(tuning.counters.sweeps == 1);
  CHECK(tuning.counters.nvrtc_invocations == kToyPairs);
  CHECK(tuning.counters.autotune_hits == 15);
}

TEST_CASE("tuner: a call that may not sweep does not wait for one that does") {
  const Place place;
  Tuning tuning(place.options());
  FakeTimer timer(kFast);
  timer.takes = std::chrono::milliseconds(400);
  std::jthread sweeper([&] { (void)tuning.resolve(toy_key(), timer); });
  while (tuning.counters.nvrtc_invocations == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK_THROWS_AS((void)tuning.resolve(toy_key(), timer, false), Error);
  CHECK(timer.calls == 0);
}

TEST_CASE("tuner: two keys of one GPU are never timed at once, with a lock file or without") {
  for (const bool has_cache : {true, false}) {
    const Place place;
    auto options = place.options();
    if (!has_cache) options.cache.clear();
    Tuning tuning(options);
    FakeTimer timer;
    timer.takes = std::chrono::milliseconds(50);
    {
      std::vector<std::jthread> threads;
      for (const std::int64_t nq : {1, 2, 9, 65}) {
        threads.emplace_back([&, nq] { (void)tuning.resolve(toy_key(toy_sizes(nq, 9, 9, 9)), timer); });
      }
    }
    CHECK(tuning.counters.sweeps == 4);
    CHECK_FALSE(timer.overlapped);
    CHECK(tuning.warnings().empty());
  }
}

TEST_CASE("tuner: two contexts on one cache, one sweep") {
  const Place place;
  Tuning first(place.options());
  Tuning second(place.options());
  FakeTimer timer(kFast);
  timer.takes = std::chrono::milliseconds(100);
  {
    std::jthread one([&] { (void)first.resolve(toy_key(), timer); });
    std::jthread two([&] { (void)second.resolve(toy_key(), timer); });
  }
  CHECK(first.counters.sweeps + second.counters.sweeps == 1);
  CHECK(first.counters.autotune_hits + second.counters.autotune_hits == 1);
  CHECK(first.counters.nvrtc_invocations + second.counters.nvrtc_invocations == kToyPairs);
}

TEST_CASE("tuner: a waiter that times out goes on alone") {
  const Place place;
  auto options = place.options();
  options.lock_timeout = 0.2;
  Tuning holder(place.options());
  const auto held = holder.root.lock("sweep-" + toy_device().uuid, std::chrono::seconds(1));
  REQUIRE(held);
  Tuning tuning(options);
  FakeTimer timer(kFast);
  CHECK(tuning.resolve(toy_key(), timer).configs.config == kFast);
  CHECK(tuning.counters.sweeps == 1);
  REQUIRE(tuning.warnings().size() == 1);
  CHECK(tuning.warnings()[0].find("another sweep") != std::string::npos);
}

TEST_CASE("tuner: without a directory that can be written it goes on in memory") {
  const Place place;
  const ScratchDirectory other;
  write_text(other / "file", "not a directory");
  for (const std::string &cache : {std::string(), other / "file"}) {
    auto options = place.options();
    options.cache = cache;
    Tuning tuning(options);
    FakeTimer timer(kFast);
    CHECK(tuning.resolve(toy_key(), timer).configs.config == kFast);
    CHECK(tuning.resolve(toy_key(), timer).configs.config == kFast);
    CHECK(tuning.counters.sweeps == 1);
    CHECK(tuning.warnings().size() == (cache.empty() ? 0 : 1));
  }
}

TEST_CASE("tuner: an entry of a read-only layer is as good; a damaged one above does not hide it") {
  const Place place;
  (void)place.sweep(kFast);
  const Place upper;
  auto options = upper.options();
  options.read_only = {place.cache.path()};
  FakeTimer timer(kWide);
  {
    Tuning tuning(options);
    CHECK(tuning.resolve(toy_key(), timer).configs.config == kFast);
    CHECK(tuning.counters.sweeps == 0);
  }
  (void)upper.sweep(kWide);
  write_text(entry_files(upper.cache.path()).front(), "{}");
  Tuning tuning(options);
  CHECK(tuning.resolve(toy_key(), timer).configs.config == kFast);
  CHECK(tuning.warnings().size() == 1);
  CHECK(timer.calls == 0);
}

// ---- two processes -------------------------------------------------------------------------------------------------

TEST_CASE("child of tuner" * doctest::skip()) {
  const std::string cache = std::getenv("MSJ_TEST_CACHE");
  const std::string report = std::getenv("MSJ_TEST_REPORT");
  Tuning tuning({.cache = cache, .kernels = std::getenv("MSJ_TEST_KERNELS")});
  FakeTimer timer(kFast);
  timer.takes = std::chrono::milliseconds(200);
  while (!std::filesystem::exists(std::getenv("MSJ_TEST_START"))) std::this_thread::yield();
  REQUIRE(tuning.resolve(toy_key(), timer).configs.config == kFast);
  write_text(report, fmt::format("{} {} {}", tuning.counters.sweeps.load(), tuning.counters.nvrtc_invocations.load(),
                                 tuning.entry_text()));
}

TEST_CASE("tuner: two processes on one cache, one sweep and the same bytes") {
  const Place place;
  const ScratchDirectory reports;
  std::int64_t sweeps = 0;
  std::int64_t compiles = 0;
  std::vector<std::string> texts;
  {
    const auto child = [&](const std::string &name) {
      return std::make_unique<ChildProcess>(
          "child of tuner", std::map<std::string, std::string>{{"MSJ_TEST_CACHE", place.cache.path()},
                                                               {"MSJ_TEST_KERNELS", place.kernels.folder()},
                                                               {"MSJ_TEST_REPORT", reports / name},
                                                               {"MSJ_TEST_START", reports / "start"}});
    };
    const auto one = child("one");
    const auto two = child("two");
    write_text(reports / "start", "");
    CHECK(one->wait() == 0);
    CHECK(two->wait() == 0);
  }
  for (const char *name : {"one", "two"}) {
    std::istringstream report(read_text(reports / name));
    std::int64_t swept = 0;
    std::int64_t compiled = 0;
    report >> swept >> compiled;
    sweeps += swept;
    compiles += compiled;
    std::string rest;
    std::getline(report, rest, '\0');
    texts.push_back(rest);
  }
  CHECK(sweeps == 1);
  CHECK(compiles == kToyPairs);
  CHECK(texts[0] == texts[1]);
}

namespace {

// Ceilings of its own, or none.
class CeilingTimer : public FakeTimer {
 public:
  explicit CeilingTimer(bool fails) : fails_(fails) {}
  [[nodiscard]] tune::Ceilings ceilings(const tune::SweepProblem &problem, std::string_view cubin) override {
    CHECK(problem.compute_capability == 90);
    CHECK(cubin.substr(1, 3) == "ELF");
    ++ceiling_calls;
    if (fails_) throw_error(MSJ_ERROR_OUT_OF_MEMORY, "no room for them");
    return {.empty_ms = 0.25, .loads_ms = 2, .read_bytes = 64};
  }
  int ceiling_calls = 0;

 private:
  bool fails_;
};

tune::Tuner::MeasuredCandidates measured(Tuning &tuning, tune::Timer &timer, bool ceilings) {
  const tune::Tuner::MeasuredCall call = {toy_sizes(1, 100, 17, 64), 0, Layout::any, {30, kWide}, ceilings};
  return tuning.tuner.measure(toy_key(), call, toy_device(), timer);
}

}  // namespace

TEST_CASE("tuner: a measurement times ceilings where they are asked for, with a cubin from the cache") {
  const Place place;
  write_text(place.kernels.folder() + "/ceilings.cu", "extern \"C\" __global__ void empty_launch() {}\n");
  CeilingTimer timer(false);
  {
    Tuning tuning(place.options());
    CHECK_FALSE(measured(tuning, timer, false).ceilings);
    CHECK(timer.ceiling_calls == 0);
    const auto candidates = tuning.counters.nvrtc_invocations.load();
    CHECK(measured(tuning, timer, true).ceilings.value().empty_ms == 0.25);
    CHECK(measured(tuning, timer, true).ceilings.value().read_ms() == 2);
    CHECK(tuning.counters.nvrtc_invocations == candidates + 1);
    REQUIRE(timer.problems.back().measuring);
    CHECK(timer.problems.back().measuring->least_rounds == 30);
    CHECK(timer.problems.back().measuring->launched == kWide);
  }
  auto options = place.options();
  options.libnvrtc = "/nowhere/libnvrtc.so";
  Tuning again(options);
  CHECK(measured(again, timer, true).ceilings);
  CHECK(again.counters.nvrtc_invocations == 0);
  CHECK(again.warnings().empty());
}

TEST_CASE("tuner: ceilings that can't be timed lose no candidate's time") {
  const Place place;
  Tuning tuning(place.options());
  CeilingTimer timer(true);
  const auto without_source = measured(tuning, timer, true);  // no ceilings.cu
  CHECK_FALSE(without_source.ceilings);
  CHECK(without_source.candidates.front().timing.median_ms > 0);
  CHECK(timer.ceiling_calls == 0);
  REQUIRE(tuning.warnings().size() == 1);
  CHECK(tuning.warnings()[0].find("the ceilings of toy are not timed: kernel source") == 0);
  write_text(place.kernels.folder() + "/ceilings.cu", "");
  Tuning other(place.options());
  const auto failed = measured(other, timer, true);
  CHECK_FALSE(failed.ceilings);
  CHECK(failed.candidates.front().timing.median_ms > 0);
  CHECK(timer.ceiling_calls == 1);
  REQUIRE(other.warnings().size() == 1);
  CHECK(other.warnings()[0] == "the ceilings of toy are not timed: no room for them");
}
