// DESIGN, invariant 2: from an empty cache, in any order of the feature sets, the counts and the entry are the same.
// The kernels are tiny, so that every order starts from nothing.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "support/remembered_compiles.h"
#include "support/session.h"
#include "support/tiny_kernels.h"

using namespace msj;
using namespace msj::testing;

namespace {

std::string entry_of_order(const OpSpec &op, const std::vector<FeatureSet> &order, Strides streamed,
                           bool featureless = false) {
  const ScratchDirectory cache;
  Session session(cache.path());
  CallShape shape = small_call(op, 0, streamed);
  shape.featureless = featureless;
  for (const FeatureSet set : order) {
    shape.features = set;
    session.must_run(shape);
  }
  const auto sets = static_cast<std::int64_t>(order.size());
  const msj_counters stats = session.stats();
  CHECK(stats.sweeps == 1);
  CHECK(stats.nvrtc_invocations == session.sweep_compiles(shape) + sets - 1);
  CHECK(stats.launches == sets);
  REQUIRE(entry_files(cache.path()).size() == 1);
  return read_text(entry_files(cache.path()).front());
}

}  // namespace

TEST_CASE("the order of the feature sets leaves no trace") {
  const TinyKernels kernels;
  const RememberedCompiles remembered;
  for (const ops::Op &op : ops::all_ops()) {
    CAPTURE(op.spec->name);
    FakeGpu gpu;
    const auto ascending = all_feature_sets(*op.spec);
    auto descending = ascending;
    std::reverse(descending.begin(), descending.end());
    auto shuffled = ascending;
    std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937(4));
    const std::string entry = entry_of_order(*op.spec, ascending, Strides::contiguous);
    CHECK(entry_of_order(*op.spec, descending, Strides::contiguous) == entry);
    CHECK(entry_of_order(*op.spec, shuffled, Strides::contiguous) == entry);
    CHECK(entry_of_order(*op.spec, ascending, Strides::offset_by_one) == entry);  // nor does the first layout class
    // Nor do operands that are no feature.
    CHECK(entry_of_order(*op.spec, ascending, Strides::contiguous, true) == entry);
  }
}
