// Plans: the hot path's handle. One made for another kind of call is refused by name.
#include <doctest/doctest.h>

#include <memory>

#include "support/session.h"
#include "support/tiny_kernels.h"

using namespace msj;
using namespace msj::testing;

namespace {

using Plan = std::unique_ptr<msj_plan, msj_status (*)(msj_plan *)>;

Plan prepare(Session &session, const CallShape &shape, std::int32_t layout = MSJ_LAYOUT_OF_CALL) {
  OpCall call(shape);
  msj_prepare_options options{};
  options.struct_size = sizeof options;
  options.layout = layout;
  msj_plan *plan = nullptr;
  const msj_status status = msj_prepare(session.get(), &call.call(), &options, &plan);
  INFO(msj_last_error());
  REQUIRE(status == MSJ_OK);
  REQUIRE(plan != nullptr);
  return {plan, msj_plan_destroy};
}

msj_status run_with(Session &session, const Plan &plan, const CallShape &shape, std::int32_t device = 0,
                    void *stream = nullptr) {
  OpCall call(shape);
  call.call().plan = plan.get();
  call.call().device = device;
  call.call().stream = stream;
  return session.run(call);
}

void check_mismatch(msj_status status, const std::string &words) {
  const std::string sentence = msj_last_error();
  CAPTURE(sentence);
  CHECK(status == MSJ_ERROR_PLAN_MISMATCH);
  CHECK(sentence.find(words) != std::string::npos);
}

// What a plan of dense_forward for `shape`, of one kind of feature, dtype, static size and bucket, says to others.
void check_other_calls(Session &session, const Plan &plan, const CallShape &shape) {
  CallShape other = shape;
  other.features = 0b0101;
  check_mismatch(run_with(session, plan, other), "features [], the call has [q_mask, normalize]");
  other = shape;
  other.own = {DType::f16};
  check_mismatch(run_with(session, plan, other), "q of bf16, the call has f16");
  other = shape;
  other.sizes[4] = 144;
  check_mismatch(run_with(session, plan, other), "static size d 128, the call's is 144");
  other = shape;
  other.sizes[2] = 65;
  check_mismatch(run_with(session, plan, other), "bucket Lq 64, the call's is 128");
  check_mismatch(run_with(session, plan, shape, 1), "device 0, the call has 1");
}

}  // namespace

TEST_CASE("a plan serves every call of its kind, and asks for nothing more") {
  const TinyKernels kernels;
  for (const ops::Op &op : ops::all_ops()) {
    CAPTURE(op.spec->name);
    FakeGpu gpu;
    const ScratchDirectory cache;
    Session session(cache.path());
    CallShape shape = small_call(*op.spec, op.spec->all_features());
    const Plan plan = prepare(session, shape);
    CHECK(gpu->launch_count() == 0);
    REQUIRE(msj_freeze(session.get(), 1) == MSJ_OK);
    const msj_counters before = session.stats();
    CHECK(run_with(session, plan, shape) == MSJ_OK);
    for (std::size_t i = 0; i < op.spec->sizes.size(); ++i) {  // elsewhere in the bucket
      const SizeSpec &size = op.spec->sizes[i];                // a default may be an edge
      if (!size.is_static) shape.sizes[i] += size.default_value != 0 ? -1 : 1;
    }
    shape.alternative = 2;
    shape.others = Strides::inner_two;
    shape.featureless = true;
    CHECK(run_with(session, plan, shape) == MSJ_OK);
    const msj_counters after = session.stats();
    CHECK(after.launches == before.launches + 2);
    CHECK(after.module_loads == before.module_loads);
    CHECK(after.nvrtc_invocations == before.nvrtc_invocations);
  }
}

TEST_CASE("prepare reads no data, and can be asked for a layout class") {
  const TinyKernels kernels;
  for (const ops::Op &op : ops::all_ops()) {
    FakeGpu gpu;
    const ScratchDirectory cache;
    Session session(cache.path());
    const CallShape contiguous = small_call(*op.spec);
    const CallShape offset = small_call(*op.spec, 0, Strides::offset_by_one);
    OpCall call(contiguous);
    for (std::size_t i = 0; i < op.spec->operands.size(); ++i) call.tensor(i).data = nullptr;
    CHECK(msj_prepare(session.get(), &call.call(), nullptr, nullptr) == MSJ_OK);
    const Plan any = prepare(session, contiguous, MSJ_LAYOUT_ANY);
    const Plan aligned = prepare(session, contiguous, MSJ_LAYOUT_ALIGNED16);
    REQUIRE(msj_freeze(session.get(), 1) == MSJ_OK);
    CHECK(run_with(session, any, offset) == MSJ_OK);
    CHECK(run_with(session, aligned, contiguous) == MSJ_OK);
    check_mismatch(run_with(session, any, contiguous), "layout class any, the call's is aligned16");
    check_mismatch(run_with(session, aligned, offset), "layout class aligned16, the call's is any");
  }
}

TEST_CASE("each mismatch has its name") {
  const TinyKernels kernels;
  const OpSpec &op = *ops::find_op("dense_forward")->spec;
  FakeGpu gpu;
  gpu->add_device("NVIDIA H200", 90, 132, 232448, std::size_t{140} << 30);
  const ScratchDirectory cache;
  Session session(cache.path());
  const CallShape shape = small_call(op);
  const Plan plan = prepare(session, shape);
  CHECK(run_with(session, plan, shape) == MSJ_OK);
  const msj_counters before = session.stats();

  check_other_calls(session, plan, shape);
  CallShape other = shape;
  other.streamed = Strides::odd_rows;
  check_mismatch(run_with(session, plan, other), "layout class aligned16, the call's is any");
  other = shape;
  other.sizes[1] = 100'000;
  check_mismatch(run_with(session, plan, other), "bucket Nd 128, the call's is more");
  CUstream elsewhere = gpu->create_stream(gpu->create_context(0), CU_STREAM_NON_BLOCKING);
  check_mismatch(run_with(session, plan, shape, 0, elsewhere), "another CUDA context");
  check_mismatch(run_with(session, plan, shape, MSJ_DEVICE_CPU), "MSJ_DEVICE_CPU runs without one");
  Session stranger(cache.path());
  check_mismatch(run_with(stranger, plan, shape), "another context");

  const msj_counters after = session.stats();
  CHECK(after.launches == before.launches);
  CHECK(after.nvrtc_invocations == before.nvrtc_invocations);
  CHECK(after.module_loads == before.module_loads);
}

TEST_CASE("an empty call asks its plan for all that it has itself: not for a bucket of sizes that are 0") {
  const TinyKernels kernels;
  const OpSpec &op = *ops::find_op("dense_forward")->spec;
  FakeGpu gpu;
  const ScratchDirectory cache;
  Session session(cache.path());
  CallShape shape = small_call(op);
  shape.sizes[1] = 100'000;
  const Plan plan = prepare(session, shape);
  shape.sizes[1] = 0;
  CHECK(run_with(session, plan, shape) == MSJ_OK);
  check_other_calls(session, plan, shape);
  CHECK(gpu->launch_count() == 0);
}

TEST_CASE("a plan that was destroyed is refused where it can be seen, and preparing twice costs nothing") {
  const TinyKernels kernels;
  const OpSpec &op = *ops::all_ops().front().spec;
  FakeGpu gpu;
  const ScratchDirectory cache;
  Session session(cache.path());
  const CallShape shape = small_call(op);
  const Plan first = prepare(session, shape);
  const msj_counters before = session.stats();
  const Plan second = prepare(session, shape);
  CHECK(session.stats().module_loads == before.module_loads);
  CHECK(run_with(session, first, shape) == MSJ_OK);
  CHECK(run_with(session, second, shape) == MSJ_OK);
  alignas(8) std::array<std::byte, 64> no_plan{};
  OpCall call(shape);
  call.call().plan = reinterpret_cast<const msj_plan *>(no_plan.data());
  CHECK(session.run(call) == MSJ_ERROR_INVALID_ARGUMENT);
  CHECK(std::string(msj_last_error()).find("plan is no live msj_plan") != std::string::npos);
}
