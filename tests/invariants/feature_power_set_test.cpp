// DESIGN, invariants 2 and 3: over the power set of an op's features there is one sweep, and each feature set costs one
// compile per layout class; what was done once is never done again, in this process or another. NVRTC is real, the
// kernels are tiny: feature_code_test shows that the real ones differ with the features, and gpu/op_counting does all
// of this with them on a GPU.
#include <doctest/doctest.h>

#include <filesystem>

#include "support/child_task.h"
#include "support/session.h"
#include "support/tiny_kernels.h"

using namespace msj;
using namespace msj::testing;

namespace {

struct Case {
  const OpSpec &op;
  CallShape shape;
  std::int64_t sets;            // 2^n
  std::int64_t sweep_compiles;  // from the space alone
};

Case case_of(const OpSpec &op, FakeGpu &) {
  const ScratchDirectory nowhere;
  Session session(nowhere.path(), "off");
  const CallShape shape = small_call(op);
  return {op, shape, std::int64_t{1} << op.features.size(), session.sweep_compiles(shape)};
}

void run_sets(Session &session, FakeGpu &gpu, CallShape shape, const std::vector<FeatureSet> &sets, Strides streamed) {
  shape.streamed = streamed;
  for (const FeatureSet set : sets) {
    shape.features = set;
    const std::size_t before = gpu->launch_count();
    session.must_run(shape);
    CHECK(gpu->launch_count() == before + session.kernels_of(shape));
  }
}

// Both classes from an empty cache, and a second pass.
void check_cold_then_warm(const Case &c, const std::string &cache, FakeGpu &gpu) {
  Session session(cache);
  const auto sets = all_feature_sets(c.op);
  CHECK(gpu->launch_count() == 0);

  run_sets(session, gpu, c.shape, sets, Strides::contiguous);
  msj_counters stats = session.stats();
  CHECK(stats.sweeps == 1);
  CHECK(entry_files(cache).size() == 1);
  CHECK(stats.nvrtc_invocations == c.sweep_compiles + c.sets - 1);
  CHECK(static_cast<std::int64_t>(cubin_files(cache).size()) == stats.nvrtc_invocations);
  CHECK(stats.candidates_timed == c.sweep_compiles);
  CHECK(stats.launches == c.sets);
  CHECK(stats.module_loads == c.sets);

  run_sets(session, gpu, c.shape, sets, Strides::offset_by_one);
  stats = session.stats();
  CHECK(stats.sweeps == 1);
  CHECK(entry_files(cache).size() == 1);
  CHECK(stats.nvrtc_invocations == c.sweep_compiles + 2 * (c.sets - 1));
  CHECK(static_cast<std::int64_t>(cubin_files(cache).size()) == stats.nvrtc_invocations);

  run_sets(session, gpu, c.shape, sets, Strides::contiguous);
  run_sets(session, gpu, c.shape, sets, Strides::offset_by_one);
  const msj_counters after = session.stats();
  CHECK(after.nvrtc_invocations == stats.nvrtc_invocations);
  CHECK(after.sweeps == 1);
  CHECK(after.module_loads == stats.module_loads);
  CHECK(after.launches == 4 * c.sets);
  CHECK(session.complaints().empty());
}

void check_second_context(const Case &c, const std::string &cache, FakeGpu &gpu) {
  Session session(cache);
  run_sets(session, gpu, c.shape, all_feature_sets(c.op), Strides::contiguous);
  const msj_counters stats = session.stats();
  CHECK(stats.nvrtc_invocations == 0);
  CHECK(stats.sweeps == 0);
  CHECK(stats.cubin_hits_disk == c.sets);
  CHECK(stats.autotune_hits >= 1);
}

void check_second_process(const Case &c, const std::string &cache, Strides streamed) {
  const ScratchDirectory scratch;
  ChildTask task{c.shape, all_feature_sets(c.op), cache, scratch / "report"};
  task.shape.streamed = streamed;
  const ChildReport report = ChildRun("child of feature_power_set", task).wait();
  REQUIRE(report.status == 0);
  CHECK(report.nvrtc_invocations == 0);
  CHECK(report.sweeps == 0);
  CHECK(report.launches == c.sets);
  CHECK_FALSE(report.nvrtc_mapped);
}

// From an empty autotune cache, in another order of the feature sets: the same bytes.
std::string entry_in_order(const Case &c, const std::string &cache, FakeGpu &gpu,
                           const std::vector<FeatureSet> &order) {
  for (const auto &path : entry_files(cache)) std::filesystem::remove(path);
  Session session(cache);
  run_sets(session, gpu, c.shape, order, Strides::contiguous);
  const msj_counters stats = session.stats();
  CHECK(stats.sweeps == 1);
  CHECK(stats.nvrtc_invocations == 0);
  REQUIRE(entry_files(cache).size() == 1);
  return read_text(entry_files(cache).front());
}

void check_orders(const Case &c, const std::string &cache, FakeGpu &gpu) {
  auto order = all_feature_sets(c.op);
  REQUIRE(entry_files(cache).size() == 1);
  const std::string first = read_text(entry_files(cache).front());
  std::reverse(order.begin(), order.end());
  CHECK(entry_in_order(c, cache, gpu, order) == first);
  std::uint32_t seed = 20'231;
  for (std::size_t i = order.size(); i > 1; --i) {
    seed = seed * 1'664'525U + 1'013'904'223U;
    std::swap(order[i - 1], order[seed % i]);
  }
  CHECK(entry_in_order(c, cache, gpu, order) == first);
}

}  // namespace

TEST_CASE("child of feature_power_set" * doctest::skip()) { run_child_task(); }

TEST_CASE("toggling features costs compiles, never a sweep") {
  for (const ops::Op &op : ops::all_ops()) {
    CAPTURE(op.spec->name);
    const TinyKernels kernels;
    FakeGpu gpu;
    const ScratchDirectory cache;
    const Case c = case_of(*op.spec, gpu);
    REQUIRE(c.sweep_compiles >= 2);
    check_cold_then_warm(c, cache.path(), gpu);
    check_second_context(c, cache.path(), gpu);
    check_second_process(c, cache.path(), Strides::contiguous);
    check_second_process(c, cache.path(), Strides::odd_rows);
    check_orders(c, cache.path(), gpu);
  }
}
