// A ready call asks the driver for its context and launches: nothing else. (Its time is tests/gpu's.)
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "support/own_time.h"
#include "support/session.h"
#include "support/tiny_kernels.h"

using namespace msj;
using namespace msj::testing;

namespace {

using Plan = std::unique_ptr<msj_plan, msj_status (*)(msj_plan *)>;

Plan plan_of(Session &session, OpCall &call) {
  msj_plan *plan = nullptr;
  REQUIRE(msj_prepare(session.get(), &call.call(), nullptr, &plan) == MSJ_OK);
  return {plan, msj_plan_destroy};
}

struct Prepared {
  FakeGpu gpu;
  ScratchDirectory cache;
  Session session{cache.path(), "off"};
  OpCall call{small_call(*ops::find_op(MSJ_DENSE_FORWARD)->spec, 0)};
  Plan plan = plan_of(session, call);
};

// Every driver function that a launch could ask, and how often one of these calls asked it.
std::string calls_of(FakeGpu &gpu, msj_context *context, const msj_call &call, int repeats) {
  constexpr const char *kAsked[] = {"cuDeviceGet",        "cuCtxGetCurrent",      "cuCtxPushCurrent_v2",
                                    "cuCtxPopCurrent_v2", "cuCtxGetDevice",       "cuCtxGetId",
                                    "cuStreamGetCtx",     "cuStreamIsCapturing",  "cuPointerGetAttribute",
                                    "cuLaunchKernel",     "cuDeviceGetAttribute", "cuFuncGetAttribute"};
  std::vector<std::size_t> before;
  for (const char *symbol : kAsked) before.push_back(gpu->calls(symbol));
  for (int i = 0; i < repeats; ++i) REQUIRE(msj_run(context, &call) == MSJ_OK);
  std::string text;
  for (std::size_t i = 0; i < std::size(kAsked); ++i) {
    const std::size_t asked = gpu->calls(kAsked[i]) - before[i];
    if (asked == 0) continue;
    CHECK(asked % static_cast<std::size_t>(repeats) == 0);
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", kAsked[i], asked / static_cast<std::size_t>(repeats));
  }
  return text;
}

}  // namespace

TEST_CASE("a ready call through a plan asks the driver for nothing but its context") {
  Prepared ready;
  auto &[gpu, cache, session, call, plan] = ready;
  const auto own = gpu->create_context(0);
  SUBCASE("a stream of the current context") {
    const cuda::ContextGuard current(*session.pipeline().driver(), own);
    call.call().stream = gpu->create_stream(own, 0);
    REQUIRE(session.run(call) == MSJ_OK);  // this context's own
    CHECK(calls_of(gpu, session.get(), call.call(), 3) ==
          "cuCtxGetCurrent 1, cuCtxGetId 1, cuStreamGetCtx 1, cuPointerGetAttribute 3, cuLaunchKernel 1");
  }
  SUBCASE("the default stream, with a plan") {
    const cuda::ContextGuard current(*session.pipeline().driver(), session.pipeline().primary_context(0));
    call.call().plan = plan.get();
    CHECK(calls_of(gpu, session.get(), call.call(), 3) == "cuCtxGetCurrent 2, cuCtxGetId 1, cuLaunchKernel 1");
  }
  SUBCASE("from a thread without a context, with a plan") {
    call.call().plan = plan.get();
    CHECK(calls_of(gpu, session.get(), call.call(), 3) ==
          "cuCtxGetCurrent 2, cuCtxPushCurrent_v2 1, cuCtxPopCurrent_v2 1, cuCtxGetId 1, cuLaunchKernel 1");
  }
}

TEST_CASE("what the library itself takes before a launch, on the driver that only records") {
  Prepared ready;
  auto &[gpu, cache, session, call, plan] = ready;
  const OwnTime notes(*session.get());
  const auto next = [&](int) { return &call.call(); };
  const auto wait = [] {};
  const double without = OwnTime::microseconds(session.get(), 4000, next, wait);
  call.call().plan = plan.get();
  const double with = OwnTime::microseconds(session.get(), 4000, next, wait);
  fmt::print("hot_path: {:.2f} us without a plan, {:.2f} us with one\n", without, with);
  CHECK(with < 100);  // of a busy machine
}
