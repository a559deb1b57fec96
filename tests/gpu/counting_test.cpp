// DESIGN, invariants 2, 3 and 5 with the real timer: the power set of the features costs one sweep and one compile a
// set; a second pass and a second process cost nothing; what a process asks for has no influence on what it tunes.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "gpu/instance.h"
#include "ops/dense_forward.h"
#include "support/child_process.h"
#include "support/scratch.h"
#include "tune/space.h"

using namespace msj;
using namespace msj::gpu;

namespace {

constexpr std::int64_t kSets = kAllFeatures + 1;

// Two queries: with one, an entry is shipped for this GPU and nothing is swept.
Problem shape_of(std::int64_t Nq, std::int64_t Nd, std::int64_t Lq, std::int64_t Ld) {
  Problem p;
  p.Nq = Nq, p.Nd = Nd, p.Lq = Lq, p.Ld = Ld, p.d = 128;
  p.values = Values::untouched;  // NVRTC must stay out of processes that compile nothing
  return p;
}

// (candidate, layout class) pairs, counted from the space itself.
std::int64_t sweep_compiles(const Problem &p) {
  const OpSpec &op = ops::dense_forward_spec();
  const auto rules = tune::BucketRules::parse(tune::BucketRules::embedded());
  const std::array<DType, 1> own = {p.dtype};
  const tune::AutotuneKey key(op, rules.bucket(op, {p.Nq, p.Nd, p.Lq, p.Ld, p.d}), tune::DtypeTuple(op, own));
  const auto admission = tune::admit(tune::CandidateSpace::embedded(op), key, Gpu::get().info().limits);
  return static_cast<std::int64_t>(admission.admitted.size());
}

void run_sets(const maxsim_jit::Context &context, Problem problem, Placing placing) {
  problem.q = problem.documents = placing;
  for (FeatureSet features = 0; features <= kAllFeatures; ++features) {
    problem.features = features;
    const Instance instance(problem);
    run(context.get(), instance.call());
    Gpu::get().synchronize();
  }
}

// ---- another process ----------------------------------------------------------------------------------------------

struct Report {
  std::int64_t nvrtc_invocations = -1;
  std::int64_t sweeps = -1;
  std::int64_t launches = -1;
  bool nvrtc_mapped = true;
};

Report run_child(const std::string &cache, const Problem &p) {
  const testing::ScratchDirectory folder;
  const nlohmann::json task = {{"cache", cache}, {"report", folder / "report"}, {"sizes", {p.Nq, p.Nd, p.Lq, p.Ld}}};
  REQUIRE(testing::ChildProcess("child of gpu counting", {{"MSJ_TEST_TASK", task.dump()}}).wait() == 0);
  const auto json = nlohmann::json::parse(testing::read_text(folder / "report"));
  return {json["nvrtc_invocations"], json["sweeps"], json["launches"], json["nvrtc_mapped"]};
}

nlohmann::json the_entry(const std::string &cache) {
  const auto files = testing::entry_files(cache);
  REQUIRE(files.size() == 1);
  auto json = nlohmann::json::parse(testing::read_text(files.front()));
  json["file"] = files.front().filename().string();
  return json;
}

}  // namespace

TEST_CASE("child of gpu counting" * doctest::skip()) {
  const char *text = std::getenv("MSJ_TEST_TASK");
  REQUIRE(text != nullptr);
  const auto task = nlohmann::json::parse(text);
  const auto sizes = task["sizes"].get<std::vector<std::int64_t>>();
  const maxsim_jit::Context context({.cache_dir = task["cache"], .tune = "on"});
  run_sets(context, shape_of(sizes.at(0), sizes.at(1), sizes.at(2), sizes.at(3)), Placing::contiguous);
  const msj_counters stats = context.stats();
  const bool mapped = testing::read_text("/proc/self/maps").find("libnvrtc") != std::string::npos;
  testing::write_text(task["report"].get<std::string>(), nlohmann::json({{"nvrtc_invocations", stats.nvrtc_invocations},
                                                                         {"sweeps", stats.sweeps},
                                                                         {"launches", stats.launches},
                                                                         {"nvrtc_mapped", mapped}})
                                                             .dump());
}

TEST_CASE("one sweep for the power set of features, none for what was done before") {
  const testing::ScratchDirectory cache;
  const Problem problem = shape_of(2, 1'000, 32, 300);
  const std::int64_t compiles = sweep_compiles(problem);
  const auto start = std::chrono::steady_clock::now();
  {
    const maxsim_jit::Context context({.cache_dir = cache.path(), .tune = "on"});
    run_sets(context, problem, Placing::contiguous);
    CHECK(context.stats().sweeps == 1);
    CHECK(context.stats().candidates_timed == compiles);
    CHECK(context.stats().nvrtc_invocations == compiles + kSets - 1);
    CHECK(testing::entry_files(cache.path()).size() == 1);
    run_sets(context, problem, Placing::offset_one);
    CHECK(context.stats().sweeps == 1);
    CHECK(context.stats().nvrtc_invocations == compiles + 2 * (kSets - 1));
    const auto before = context.stats();
    run_sets(context, problem, Placing::contiguous);
    run_sets(context, problem, Placing::offset_one);
    CHECK(context.stats().nvrtc_invocations == before.nvrtc_invocations);
    CHECK(context.stats().module_loads == before.module_loads);
    CHECK(context.stats().launches == 4 * kSets);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const Report child = run_child(cache.path(), problem);
  CHECK(child.nvrtc_invocations == 0);
  CHECK(child.sweeps == 0);
  CHECK(child.launches == kSets);
  CHECK_FALSE(child.nvrtc_mapped);
  fmt::print("counting: {} pairs in the sweep, 2 x {} feature sets, {:.1f} s\n", compiles, kSets, seconds.count());
}

TEST_CASE("another dtype or bucket is another entry") {
  const testing::ScratchDirectory cache;
  const maxsim_jit::Context context({.cache_dir = cache.path(), .tune = "on"});
  Problem problem = shape_of(2, 1'000, 32, 300);
  const auto entries_after = [&](const Problem &p) {
    maxsim_jit::prepare(context, p.call_to_prepare());
    return testing::entry_files(cache.path()).size();
  };
  CHECK(entries_after(problem) == 1);
  problem.Nd = 1'024;
  CHECK(entries_after(problem) == 1);
  problem.Nd = 1'025;
  CHECK(entries_after(problem) == 2);
  problem.dtype = DType::f16;
  CHECK(entries_after(problem) == 3);
  CHECK(context.stats().sweeps == 3);
}

TEST_CASE("two processes that start at opposite ends of a bucket tune the same problem") {
  const testing::ScratchDirectory low;
  const testing::ScratchDirectory high;
  CHECK(run_child(low.path(), shape_of(2, 129, 17, 257)).sweeps == 1);
  CHECK(run_child(high.path(), shape_of(8, 1'024, 32, 1'024)).sweeps == 1);
  const auto a = the_entry(low.path());
  const auto b = the_entry(high.path());
  for (const char *field : {"file", "schema", "key", "environment", "sizes"}) {
    CAPTURE(field);
    CHECK(a.at(field) == b.at(field));
  }
  // Timings differ by noise; what was timed does not.
  REQUIRE(a.at("candidates").size() == b.at("candidates").size());
  for (std::size_t i = 0; i < a.at("candidates").size(); ++i) {
    CHECK(a.at("candidates").at(i).at("config") == b.at("candidates").at(i).at("config"));
    CHECK(a.at("candidates").at(i).at("layout") == b.at("candidates").at(i).at("layout"));
  }
  fmt::print("counting: winners from opposite ends: {} / {}\n", a.at("config").dump(), b.at("config").dump());
}
