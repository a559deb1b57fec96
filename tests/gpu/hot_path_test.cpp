// The host's own time in a ready call: from msj_run to the driver's cuLaunchKernel, over 100,000 calls. At most 1.5 us
// through a plan with pointers that were seen before, 4 us with new ones (whose tensor maps are then encoded).
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "cuda/buffer.h"
#include "gpu/instance.h"
#include "support/own_time.h"
#include "support/scratch.h"

using namespace msj;
using namespace msj::gpu;

namespace {

constexpr int kCalls = 100'000;

}  // namespace

TEST_CASE("the library's own time before a launch") {
  const testing::ScratchDirectory cache;
  const maxsim_jit::Context context({.cache_dir = cache.path(), .tune = "off"});
  Problem p;
  p.Nq = 1, p.Nd = 1, p.Lq = 8, p.Ld = 8, p.d = 128;
  const Instance instance(p);
  auto call = instance.call();
  const maxsim_jit::Plan plan = maxsim_jit::prepare_plan(context, call);
  const Current current;
  const testing::OwnTime notes(*context.get());
  const auto wait = [] { Gpu::get().synchronize(); };
  const auto same = [&](int) { return call.get(); };

  // Documents in one buffer, each call's 128 bytes further on: no two calls of 4,096 have the same pointer.
  constexpr std::int64_t kPlaces = 4096, kStep = 128;
  const std::int64_t bytes = p.Nd * p.Ld * p.d * 2;
  const cuda::Buffer documents(Gpu::get().shared_driver(), static_cast<std::size_t>(bytes + kPlaces * kStep));
  const auto moved = [&](int i) {
    void *place = reinterpret_cast<void *>(documents.get() + static_cast<CUdeviceptr>(i % kPlaces * kStep));
    call.operand(MSJ_DENSE_FORWARD_D, maxsim_jit::Tensor(place, maxsim_jit::DType::bf16, {p.Nd, p.Ld, p.d}));
    return call.get();
  };

  const double unplanned = testing::OwnTime::microseconds(context.get(), kCalls, same, wait);
  maxsim_jit::Launch launch;
  launch.plan = &plan;
  call.launch(launch);
  const double known = testing::OwnTime::microseconds(context.get(), kCalls, same, wait);
  const double renewed = testing::OwnTime::microseconds(context.get(), kCalls, moved, wait);
  fmt::print(
      "hot_path: own time of a call: {:.2f} us through a plan, {:.2f} us with new pointers, {:.2f} us without a "
      "plan\n",
      known, renewed, unplanned);
  CHECK(known <= 1.5);
  CHECK(renewed <= 4);
  CHECK(unplanned <= 4);
}
