// DESIGN, invariant 7: the layout class belongs to the specialization, not to the key. Every feature set launches in
// every layout, without a sweep of its own, and no operand but the streamed ones decides the class.
#include <doctest/doctest.h>

#include "ops/bind.h"
#include "support/remembered_compiles.h"
#include "support/session.h"
#include "support/tiny_kernels.h"

using namespace msj;
using namespace msj::testing;

TEST_CASE("every feature set launches in every layout after one sweep") {
  const TinyKernels kernels;
  const RememberedCompiles remembered;
  for (const ops::Op &op : ops::all_ops()) {
    CAPTURE(op.spec->name);
    FakeGpu gpu;
    const ScratchDirectory cache;
    Session session(cache.path());
    for (const auto &own : own_dtypes(*op.spec)) {
      CallShape shape = small_call(*op.spec);
      shape.own = own;
      const msj_counters before = session.stats();
      const auto sets = all_feature_sets(*op.spec);
      for (const Strides streamed : kStrides) {
        CAPTURE(name(streamed));
        shape.streamed = streamed;
        for (const FeatureSet set : sets) {
          shape.features = set;
          session.must_run(shape);
        }
      }
      const msj_counters after = session.stats();
      CHECK(after.sweeps == before.sweeps + 1);
      CHECK(after.launches == before.launches + static_cast<std::int64_t>(kStrides.size() * sets.size()));
      // Two classes, however many layouts.
      CHECK(after.nvrtc_invocations == before.nvrtc_invocations + session.sweep_compiles(shape) +
                                           2 * (static_cast<std::int64_t>(sets.size()) - 1));
    }
  }
}

TEST_CASE("masks, lengths and results never change the layout class") {
  const TinyKernels kernels;
  const RememberedCompiles remembered;
  for (const ops::Op &op : ops::all_ops()) {
    CAPTURE(op.spec->name);
    FakeGpu gpu;
    const ScratchDirectory cache;
    Session session(cache.path());
    CallShape shape = small_call(*op.spec);
    const auto set_size = [&](std::string_view size, std::int64_t value) {
      const int index = find_named(op.spec->sizes, size);
      if (index >= 0) shape.sizes[static_cast<std::size_t>(index)] = value;
    };
    set_size("Ld", 300);
    set_size("Lq", 5);
    const auto sets = all_feature_sets(*op.spec);
    const auto run_all = [&](Strides streamed, Strides others, bool featureless) {
      shape.streamed = streamed;
      shape.others = others;
      shape.featureless = featureless;
      for (const FeatureSet set : sets) {
        shape.features = set;
        OpCall call(shape);
        CAPTURE(name(others));
        CHECK(ops::bind(call.call(), ops::DataRule::needed).layout == layout_of(streamed));
        CHECK(session.run(call) == MSJ_OK);
      }
    };
    run_all(Strides::contiguous, Strides::contiguous, false);
    run_all(Strides::odd_rows, Strides::contiguous, false);
    const msj_counters before = session.stats();
    for (const Strides streamed : {Strides::contiguous, Strides::odd_rows}) {
      for (const Strides others : kStrides) run_all(streamed, others, true);
    }
    const msj_counters after = session.stats();
    CHECK(after.nvrtc_invocations == before.nvrtc_invocations);
    CHECK(after.module_loads == before.module_loads);
    CHECK(after.sweeps == 1);
  }
}

TEST_CASE("the stride of a dimension of size 1 does not count") {
  for (const ops::Op &op : ops::all_ops()) {
    for (std::size_t i = 0; i < op.spec->operands.size(); ++i) {
      const OperandSpec &operand = op.spec->operands[i];
      // (An operand that is not streamed may have dims that no size gives.)
      if (!operand.streamed || operand.rank < 2) continue;
      if (op.spec->sizes[static_cast<std::size_t>(operand.dims[0])].is_static) continue;
      CAPTURE(operand.name);
      CallShape shape = small_call(*op.spec);
      shape.sizes[static_cast<std::size_t>(operand.dims[0])] = 1;
      OpCall call(shape);
      call.tensor(i).strides[0] = 1;
      CHECK(ops::bind(call.call(), ops::DataRule::needed).layout == Layout::aligned16);
      shape.sizes[static_cast<std::size_t>(operand.dims[0])] = 2;
      OpCall two(shape);
      two.tensor(i).strides[0] += 1;
      CHECK(ops::bind(two.call(), ops::DataRule::needed).layout == Layout::any);
    }
  }
}
