// msj_prepare ahead of time: without a driver it compiles what a GPU would start with, and writes no autotune entry.
#include <doctest/doctest.h>

#include "support/session.h"
#include "support/tiny_kernels.h"

using namespace msj;
using namespace msj::testing;

namespace {

msj_status prepare_ahead(Session &session, const CallShape &shape, const char *arch, std::int32_t layout) {
  OpCall call(shape);
  for (std::size_t i = 0; i < shape.op->operands.size(); ++i) call.tensor(i).data = nullptr;
  msj_prepare_options options{};
  options.struct_size = sizeof options;
  options.arch = arch;
  options.layout = layout;
  return msj_prepare(session.get(), &call.call(), &options, nullptr);
}

}  // namespace

TEST_CASE("warmed without a GPU, a GPU's first call compiles nothing") {
  const TinyKernels kernels;
  for (const ops::Op &op : ops::all_ops()) {
    CAPTURE(op.spec->name);
    const ScratchDirectory cache;
    const auto sets = all_feature_sets(*op.spec);
    {
      const ScopedEnvironment no_driver("MAXSIM_JIT_LIBCUDA", "/nowhere/libcuda.so");
      Session session(cache.path());
      for (const FeatureSet set : sets) {
        const msj_status status = prepare_ahead(session, small_call(*op.spec, set), "sm_90a", MSJ_LAYOUT_BOTH);
        INFO(msj_last_error());
        REQUIRE(status == MSJ_OK);
      }
      const msj_counters stats = session.stats();
      CHECK(stats.nvrtc_invocations == 2 * static_cast<std::int64_t>(sets.size()));
      CHECK(stats.sweeps == 0);
      CHECK(stats.module_loads == 0);
      CHECK(entry_files(cache.path()).empty());
    }
    FakeGpu gpu;
    for (const char *tune : {"off", "cached"}) {
      Session session(cache.path(), tune);
      for (const FeatureSet set : sets) {
        session.must_run(small_call(*op.spec, set));
        session.must_run(small_call(*op.spec, set, Strides::odd_rows));
      }
      CHECK(session.stats().nvrtc_invocations == 0);
    }
  }
}

TEST_CASE("layout of a prepare: the call's own, or the one that is asked for") {
  const TinyKernels kernels;
  const OpSpec &op = *ops::all_ops().front().spec;
  const ScopedEnvironment no_driver("MAXSIM_JIT_LIBCUDA", "/nowhere/libcuda.so");
  const auto invocations = [&](std::initializer_list<std::int32_t> layouts) {
    const ScratchDirectory cache;
    Session session(cache.path());
    for (const std::int32_t layout : layouts) {
      REQUIRE(prepare_ahead(session, small_call(op), "sm_80", layout) == MSJ_OK);
    }
    return session.stats().nvrtc_invocations;
  };
  CHECK(invocations({MSJ_LAYOUT_OF_CALL}) == 1);
  CHECK(invocations({MSJ_LAYOUT_OF_CALL, MSJ_LAYOUT_ALIGNED16}) == 1);
  CHECK(invocations({MSJ_LAYOUT_OF_CALL, MSJ_LAYOUT_ANY}) == 2);
  CHECK(invocations({MSJ_LAYOUT_ALIGNED16, MSJ_LAYOUT_ANY, MSJ_LAYOUT_BOTH}) == 2);
}

TEST_CASE("workspace size: a pure function, which tunes and compiles nothing") {
  for (const ops::Op &op : ops::all_ops()) {
    CAPTURE(op.spec->name);
    FakeGpu gpu;
    const ScratchDirectory cache;
    Session session(cache.path());
    for (const FeatureSet set : all_feature_sets(*op.spec)) {
      std::size_t first = 1;
      std::size_t second = 2;
      OpCall call(small_call(*op.spec, set));
      CHECK(msj_workspace_size(session.get(), &call.call(), &first) == MSJ_OK);
      CHECK(msj_workspace_size(session.get(), &call.call(), &second) == MSJ_OK);
      CHECK(first == second);
      call.call().device = MSJ_DEVICE_CPU;
      CHECK(msj_workspace_size(session.get(), &call.call(), &first) == MSJ_OK);
      CHECK(first == 0);
    }
    CHECK(session.stats().nvrtc_invocations == 0);
    CHECK(session.stats().sweeps == 0);
  }
}
