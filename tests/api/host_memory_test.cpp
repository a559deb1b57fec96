// Host memory where device memory is meant: said before a kernel meets it, which would end the caller's CUDA context.
#include <doctest/doctest.h>

#include <array>

#include "support/sentences.h"
#include "support/session.h"
#include "support/tiny_kernels.h"

using namespace msj;
using namespace msj::testing;

namespace {

constexpr auto kInvalid = MSJ_ERROR_INVALID_ARGUMENT;

const OpSpec &dense() { return *ops::find_op("dense_forward")->spec; }

}  // namespace

TEST_CASE("host memory of any operand is refused by its name") {
  const TinyKernels kernels;
  FakeGpu gpu;
  const ScratchDirectory cache;
  Session session(cache.path(), "off");
  alignas(16) static std::array<std::byte, 64> host{};
  CallShape shape = small_call(dense(), dense().all_features());
  shape.featureless = true;
  for (const OperandSpec &operand : dense().operands) {
    OpCall call(shape);
    call.tensor(operand.name).data = host.data();
    check_sentence(session.run(call), kInvalid,
                   {std::string(operand.name) + " is at 0x", "device 0 can't reach", "MSJ_DEVICE_CPU"});
  }
  CHECK(gpu->launch_count() == 0);
  session.must_run(shape);
  CHECK(gpu->launch_count() == 1);
}

TEST_CASE("where the GPU shares the host's page tables, host memory is in reach") {
  const TinyKernels kernels;
  FakeGpu gpu;
  gpu->set_pageable_access(true);
  const ScratchDirectory cache;
  Session session(cache.path(), "off");
  alignas(16) static std::array<std::byte, 64> host{};
  OpCall call(small_call(dense()));
  call.tensor("q").data = host.data();
  CHECK(session.run(call) == MSJ_OK);
  CHECK(gpu->launch_count() == 1);
}

TEST_CASE("a call with a plan does not ask, and tensors without elements are not asked about") {
  const TinyKernels kernels;
  FakeGpu gpu;
  const ScratchDirectory cache;
  Session session(cache.path(), "off");
  OpCall call(small_call(dense()));
  msj_plan *plan = nullptr;
  REQUIRE(msj_prepare(session.get(), &call.call(), nullptr, &plan) == MSJ_OK);
  CHECK(gpu->calls("cuPointerGetAttribute") == 0);
  call.call().plan = plan;
  CHECK(session.run(call) == MSJ_OK);
  CHECK(gpu->calls("cuPointerGetAttribute") == 0);
  call.call().plan = nullptr;
  CHECK(session.run(call) == MSJ_OK);
  CHECK(gpu->calls("cuPointerGetAttribute") == 3);  // q, d, scores
  CHECK(msj_plan_destroy(plan) == MSJ_OK);

  CallShape empty = small_call(dense());
  empty.sizes[static_cast<std::size_t>(find_named(dense().sizes, "Ld"))] = 0;
  OpCall without_tokens(empty);
  without_tokens.tensor("d").data = nullptr;
  CHECK(session.run(without_tokens) == MSJ_OK);
  CHECK(gpu->calls("cuPointerGetAttribute") == 5);  // q, scores
}

TEST_CASE("device memory functions name what is wrong") {
  FakeGpu gpu;
  const ScratchDirectory cache;
  Session session(cache.path(), "off");
  msj_context *context = session.get();
  std::array<std::byte, 64> host{};
  void *memory = nullptr;
  check_sentence(msj_device_alloc(context, 0, 64, nullptr), kInvalid, {"memory is null"});
  check_sentence(msj_device_alloc(context, 5, 64, &memory), kInvalid, {"device is 5"});
  check_sentence(msj_device_alloc(context, -1, 64, &memory), kInvalid, {"device is -1"});
  check_sentence(msj_device_alloc(context, 0, std::size_t{1} << 60, &memory), MSJ_ERROR_OUT_OF_MEMORY,
                 {"bytes is 1152921504606846976", "device 0 has", "bytes free"});
  check_sentence(msj_device_alloc(context, 0, static_cast<std::size_t>(-64), &memory), kInvalid,
                 {"bytes is 18446744073709551552", "-64", "at most 9223372036854775807 is accepted"});
  check_sentence(msj_device_copy(context, 0, &memory, host.data(), static_cast<std::size_t>(-1), MSJ_COPY_TO_DEVICE),
                 kInvalid, {"bytes is 18446744073709551615", "-1"});
  CHECK(memory == nullptr);
  REQUIRE(msj_device_alloc(context, 0, 64, &memory) == MSJ_OK);
  const auto copy = [&](void *to, const void *from, std::int32_t direction) {
    return msj_device_copy(context, 0, to, from, 64, direction);
  };
  check_sentence(copy(memory, host.data(), 2), kInvalid, {"direction is 2", "MSJ_COPY_*"});
  check_sentence(copy(nullptr, host.data(), MSJ_COPY_TO_DEVICE), kInvalid, {"to is null"});
  check_sentence(copy(memory, nullptr, MSJ_COPY_TO_DEVICE), kInvalid, {"from is null", "64 bytes"});
  check_sentence(copy(host.data(), host.data(), MSJ_COPY_TO_DEVICE), kInvalid, {"to is at 0x", "can't reach"});
  check_sentence(copy(host.data(), host.data(), MSJ_COPY_TO_HOST), kInvalid, {"from is at 0x", "can't reach"});
  CHECK(copy(memory, host.data(), MSJ_COPY_TO_DEVICE) == MSJ_OK);
  CHECK(copy(host.data(), memory, MSJ_COPY_TO_HOST) == MSJ_OK);
  check_sentence(msj_device_free(context, 0, host.data()), kInvalid, {"memory is at 0x", "can't reach"});
  CHECK(msj_device_free(context, 0, nullptr) == MSJ_OK);
  CHECK(msj_device_free(context, 0, memory) == MSJ_OK);
  check_sentence(msj_device_free(context, 0, memory), kInvalid, {"memory is at 0x"});  // freed already
}
