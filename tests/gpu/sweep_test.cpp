// Real sweeps over the buckets of DESIGN section 8's shapes, of every op: the winners, and that they differ. With
// MSJ_GPU_CACHE the entries are kept, for the benchmark and to be shipped.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/cases.h"
#include "gpu/problem.h"
#include "support/scratch.h"

using namespace msj;
using namespace msj::gpu;

namespace {

std::string config_text(const nlohmann::json &config) {
  std::string text = config.at("path").get<std::string>();
  for (const auto &[name, value] : config.at("tunables").items()) text += fmt::format(" {}={}", name, value.dump());
  return text;
}

// The candidates of one layout class, fastest first.
void print_timings(const nlohmann::json &entry, const std::string &layout) {
  std::vector<const nlohmann::json *> timed;
  for (const auto &candidate : entry.at("timings")) {
    if (candidate.at("layout") == layout && !candidate.contains("rejected")) timed.push_back(&candidate);
  }
  std::sort(timed.begin(), timed.end(), [](const auto *a, const auto *b) {
    return a->at("median_ms").template get<double>() < b->at("median_ms").template get<double>();
  });
  for (const auto *candidate : timed) {
    fmt::print("sweep:     {:<9} {:9.4f} ms +- {:.1f} % ({} rounds) {}\n", layout,
               candidate->at("median_ms").get<double>(), 100 * candidate->at("dispersion").get<double>(),
               candidate->at("rounds").get<int>(), config_text(candidate->at("config")));
  }
}

}  // namespace

TEST_CASE("the sweeps of the measured shapes, some of them shipped, find different winners") {
  const testing::ScratchDirectory scratch;
  const char *kept = std::getenv("MSJ_GPU_CACHE");
  const std::string cache = kept == nullptr ? scratch.path() : std::string(kept) + "/tuned";
  const maxsim_jit::Context context({.cache_dir = cache, .tune = "on"});
  for (const bench::Case &c : bench::read_cases(bench::kShapesFile, {}, {}, is_quick())) {
    if (c.problem.features == c.problem.op->all_features()) continue;  // another compile, the same entry
    const maxsim_jit::Call call = c.problem.call_to_prepare();
    maxsim_jit::prepare(context, call);
  }
  const auto entries = nlohmann::json::parse(context.inspect()).at("entries");
  std::set<std::string> winners;
  for (const auto &entry : entries) {
    // Swept now, or once on such a GPU and shipped.
    if (entry.at("environment") != Gpu::get().info().environment()) continue;
    winners.insert(entry.at("op").get<std::string>() + " " + config_text(entry.at("config")));
    fmt::print("sweep: {} bucket {} timed at {}\n", entry.at("op").get<std::string>(), entry.at("bucket").dump(),
               entry.at("sizes").dump());
    fmt::print("sweep:   winner     {}\n", config_text(entry.at("config")));
    fmt::print("sweep:   winner any {}\n", config_text(entry.at("config_any")));
    print_timings(entry, "aligned16");
    print_timings(entry, "any");
  }
  const msj_counters stats = context.stats();
  fmt::print("sweep: {} entries, {} sweeps, {} timed, {} compiles ({:.1f} s over threads), {} distinct winners\n",
             entries.size(), stats.sweeps, stats.candidates_timed, stats.nvrtc_invocations, stats.nvrtc_seconds,
             winners.size());
  CHECK(winners.size() >= (is_quick() ? 2 : 6));
}
