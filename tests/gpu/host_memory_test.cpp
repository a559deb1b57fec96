// Memory that a kernel can't reach is refused before the launch, and the caller's CUDA context lives on; pinned memory
// is in reach. (tests/api has the same on the driver that only records launches; a capture of a call without a plan is
// streams_test's.)
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <vector>

#include "gpu/instance.h"
#include "support/scratch.h"

using namespace msj;
using namespace msj::gpu;

namespace {

Problem small() {
  Problem p;
  p.Nq = 3, p.Nd = 21, p.Lq = 37, p.Ld = 150, p.d = 128;
  p.features = kAllFeatures;
  p.d_lengths = true;
  return p;
}

bool shares_page_tables() {
  int shares = 0;
  Gpu::get().check(Gpu::get().driver().DeviceGetAttribute(&shares, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0),
                   "cuDeviceGetAttribute");
  return shares != 0;
}

// Microseconds of the host for one of many calls.
double host_microseconds(msj_context *context, const msj_call *call) {
  constexpr int kCalls = 20'000;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) {
    if (msj_run(context, call) != MSJ_OK) throw std::runtime_error(msj_last_error());
    if (i % 500 == 499) Gpu::get().synchronize();  // the queue of launches is never full
  }
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / kCalls;
}

}  // namespace

TEST_CASE("host memory of any operand is refused and spoils nothing") {
  const testing::ScratchDirectory cache;
  const maxsim_jit::Context context({.cache_dir = cache.path(), .tune = "off"});
  const Instance instance(small());
  run(context.get(), instance.call());
  const auto expected = instance.results();
  const bool shares = shares_page_tables();
  fmt::print("host_memory: kernels {} plain host memory here\n", shares ? "reach" : "can't reach");
  for (std::size_t i = 0; i < MSJ_DENSE_FORWARD_OPERANDS; ++i) {
    std::vector<char> host = instance.operand(i).download();
    auto call = instance.call();
    const maxsim_jit::Tensor tensor = instance.operand(i).tensor_in(host);
    call.operand(i, tensor);
    const msj_status status = msj_run(context.get(), call.get());
    CAPTURE(i);
    CHECK(status == (shares ? MSJ_OK : MSJ_ERROR_INVALID_ARGUMENT));
    Gpu::get().synchronize();
  }
  instance.poison();
  run(context.get(), instance.call());
  const auto again = instance.results();
  CHECK(std::memcmp(again.scores.data(), expected.scores.data(), expected.scores.size() * sizeof(float)) == 0);
  CHECK(again.argmax == expected.argmax);
}

TEST_CASE("pinned memory is in reach") {
  const testing::ScratchDirectory cache;
  const maxsim_jit::Context context({.cache_dir = cache.path(), .tune = "off"});
  const Instance instance(small());
  run(context.get(), instance.call());
  const auto expected = instance.scores();
  const Current current;
  void *pinned = nullptr;
  Gpu::get().check(Gpu::get().MemHostAlloc(&pinned, expected.size() * sizeof(float), 0), "cuMemHostAlloc");
  std::memset(pinned, 0xA5, expected.size() * sizeof(float));
  auto call = instance.call();
  const maxsim_jit::Tensor scores(pinned, maxsim_jit::DType::f32, {small().Nq, small().Nd});
  call.operand(MSJ_DENSE_FORWARD_SCORES, scores);
  run(context.get(), call);
  Gpu::get().synchronize();
  CHECK(std::memcmp(pinned, expected.data(), expected.size() * sizeof(float)) == 0);
  Gpu::get().check(Gpu::get().MemFreeHost(pinned), "cuMemFreeHost");
}

TEST_CASE("what the check costs the host") {
  const testing::ScratchDirectory cache;
  const maxsim_jit::Context context({.cache_dir = cache.path(), .tune = "off"});
  Problem p;
  p.Nq = 1, p.Nd = 1, p.Lq = 8, p.Ld = 8, p.d = 128;
  const Instance instance(p);
  const maxsim_jit::Plan plan = maxsim_jit::prepare_plan(context, instance.call());
  const auto without = instance.call();
  maxsim_jit::Launch launch;
  launch.plan = &plan;
  auto with = instance.call();
  with.launch(launch);
  (void)host_microseconds(context.get(), without.get());
  const double slow = host_microseconds(context.get(), without.get());
  const double fast = host_microseconds(context.get(), with.get());
  fmt::print(
      "host_memory: msj_run of an empty-like problem: {:.2f} us without a plan (3 pointers asked about), {:.2f} us "
      "with one\n",
      slow, fast);
  CHECK(slow < 100);
}
