// DESIGN, invariants 2 and 3 with the real timer and the real kernels, for every op of the registry: the power set of
// an op's features costs one sweep and one compile a set, in the sweep's layout class and, without a sweep, in the
// other; a second context on the same cache compiles and tunes nothing.
#include <doctest/doctest.h>

#include <chrono>

#include "gpu/op_candidates.h"
#include "gpu/op_instance.h"
#include "support/op_calls.h"

using namespace msj;
using namespace msj::gpu;

namespace {

// Every feature set of one small shape. Static sizes are multiples of 64, so that contiguous tensors are aligned.
std::vector<OpProblem> power_set(const OpSpec &op, Placing placing) {
  OpProblem p;
  p.op = &op;
  p.own = testing::own_dtypes(op).front();
  p.sizes = testing::small_sizes(op);
  if (find_named(op.sizes, "K") >= 0) p.resize({{"K", 100}, {"N", 700}});
  p.extras = true;
  p.singles = true;
  p.streamed = placing;
  std::vector<OpProblem> all;
  for (p.features = 0; p.features <= op.all_features(); ++p.features) all.push_back(p);
  return all;
}

// Prepared on all cores, then run one by one; seconds until all were ready.
double run_all(const maxsim_jit::Context &context, const std::vector<OpProblem> &all) {
  const auto start = std::chrono::steady_clock::now();
  in_parallel(all.size(), [&](std::size_t i) { maxsim_jit::prepare(context, all[i].call_to_prepare()); });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  for (const OpProblem &p : all) (void)OpInstance(p).run(context.get());
  return seconds.count();
}

void check_op(const OpSpec &op) {
  const testing::ScratchDirectory cache;
  const std::vector<OpProblem> aligned = power_set(op, Placing::contiguous);
  const std::vector<OpProblem> shifted = power_set(op, Placing::offset_one);
  REQUIRE(layout_of(aligned.front()) == Layout::aligned16);
  REQUIRE(layout_of(shifted.front()) == Layout::any);
  const auto sets = static_cast<std::int64_t>(aligned.size());
  REQUIRE(sets == std::int64_t{1} << op.feature_count());
  const auto pairs = static_cast<std::int64_t>(admission_of(aligned.front()).admitted.size());
  double seconds = 0;
  {
    const maxsim_jit::Context context({.cache_dir = cache.path(), .tune = "on"});
    seconds = run_all(context, aligned);
    CHECK(context.stats().sweeps == 1);
    CHECK(context.stats().candidates_timed == pairs);
    CHECK(context.stats().nvrtc_invocations == pairs + sets - 1);
    CHECK(testing::entry_files(cache.path()).size() == 1);
    run_all(context, shifted);
    CHECK(context.stats().sweeps == 1);
    CHECK(context.stats().nvrtc_invocations == pairs + 2 * (sets - 1));
    CHECK(testing::entry_files(cache.path()).size() == 1);
  }
  const maxsim_jit::Context second({.cache_dir = cache.path(), .tune = "on"});
  const double again = run_all(second, aligned) + run_all(second, shifted);
  CHECK(second.stats().sweeps == 0);
  CHECK(second.stats().nvrtc_invocations == 0);
  CHECK(second.stats().module_loads == 2 * sets);
  fmt::print("counting: {}: {} feature sets, {} pairs in 1 sweep: {:.2f} s; again, both layout classes: {:.2f} s\n",
             op.name, sets, pairs, seconds, again);
}

}  // namespace

TEST_CASE("one sweep for the power set of every op's features, none for what was done before") {
  for (const ops::Op &op : ops::all_ops()) {
    CAPTURE(std::string(op.spec->name));
    check_op(*op.spec);
  }
}
