// Any thread, any stream, several devices, primary or own contexts; the caller's current context stays what it was.
#include <doctest/doctest.h>

#include <cstring>
#include <thread>

#include "support/session.h"
#include "support/tiny_kernels.h"

using namespace msj;
using namespace msj::testing;

namespace {

unsigned long long id_of(FakeGpu &gpu, CUcontext context) {
  unsigned long long id = 0;
  REQUIRE(gpu->symbol<decltype(&cuCtxGetId)>("cuCtxGetId")(context, &id) == CUDA_SUCCESS);
  return id;
}

CUcontext current(FakeGpu &gpu) {
  CUcontext context = nullptr;
  REQUIRE(gpu->symbol<decltype(&cuCtxGetCurrent)>("cuCtxGetCurrent")(&context) == CUDA_SUCCESS);
  return context;
}

msj_status run_on(Session &session, void *stream, std::int32_t device = 0) {
  OpCall call(small_call(*ops::all_ops().front().spec));
  call.call().stream = stream;
  call.call().device = device;
  return session.run(call);
}

}  // namespace

TEST_CASE("the first use may come from a fresh thread, without a current context") {
  const TinyKernels kernels;
  FakeGpu gpu;
  const ScratchDirectory cache;
  Session session(cache.path());
  msj_status status = MSJ_ERROR_INTERNAL;
  std::size_t depth = 1;
  std::thread([&] {
    status = run_on(session, nullptr);
    depth = gpu->stack_depth();
  }).join();
  CHECK(status == MSJ_OK);
  CHECK(depth == 0);
  CHECK(gpu->primary_references(0) == 1);
  std::thread([&] { status = run_on(session, nullptr); }).join();
  CHECK(status == MSJ_OK);
  CHECK(gpu->primary_references(0) == 1);
}

TEST_CASE("a stream's own context is used, whatever is current, and is not changed") {
  const TinyKernels kernels;
  FakeGpu gpu;
  const ScratchDirectory cache;
  Session session(cache.path());
  const CUcontext own = gpu->create_context(0);
  const CUcontext other = gpu->create_context(0);
  const CUstream stream = gpu->create_stream(own, CU_STREAM_NON_BLOCKING);
  REQUIRE(gpu->symbol<decltype(&cuCtxPushCurrent_v2)>("cuCtxPushCurrent_v2")(other) == CUDA_SUCCESS);
  CHECK(run_on(session, stream) == MSJ_OK);
  CHECK(gpu.last_launch().context_id == id_of(gpu, own));
  CHECK(gpu.last_launch().stream == stream);
  CHECK(current(gpu) == other);
  for (void *default_stream : {static_cast<void *>(nullptr), reinterpret_cast<void *>(CU_STREAM_LEGACY),
                               reinterpret_cast<void *>(CU_STREAM_PER_THREAD)}) {
    CHECK(run_on(session, default_stream) == MSJ_OK);
    CHECK(gpu.last_launch().context_id == id_of(gpu, other));
    CHECK(gpu.last_launch().stream == static_cast<CUstream>(default_stream));
  }
  CHECK(gpu->stack_depth() == 1);
  // Two contexts of one device: one cubin, compiled and loaded once.
  CHECK(session.stats().module_loads == 1);
  CHECK(session.stats().sweeps == 1);
  CHECK(gpu->primary_references(0) == 0);
}

TEST_CASE("a context that died with its stream is an error by name, and another one works") {
  const TinyKernels kernels;
  FakeGpu gpu;
  const ScratchDirectory cache;
  Session session(cache.path());
  const CUcontext first = gpu->create_context(0);
  const CUstream stream = gpu->create_stream(first, CU_STREAM_NON_BLOCKING);
  CHECK(run_on(session, stream) == MSJ_OK);
  gpu->destroy_context(first);
  CHECK(run_on(session, stream) == MSJ_ERROR_INVALID_ARGUMENT);
  CHECK(std::string(msj_last_error()).find("stream is") != std::string::npos);
  CHECK(run_on(session, gpu->create_stream(gpu->create_context(0), CU_STREAM_NON_BLOCKING)) == MSJ_OK);
  CHECK(session.stats().module_loads == 1);
}

TEST_CASE("several devices: each has its entry, equal ones share it and the cubins") {
  const TinyKernels kernels;
  FakeGpu gpu;
  gpu->add_device("NVIDIA H200", 90, 132, 232448, std::size_t{140} << 30);
  gpu->add_device("NVIDIA A100-SXM4-80GB", 80, 108, 163 * 1024, std::size_t{80} << 30);
  const ScratchDirectory cache;
  Session session(cache.path());
  CHECK(run_on(session, nullptr, 0) == MSJ_OK);
  const msj_counters first = session.stats();
  CHECK(run_on(session, nullptr, 1) == MSJ_OK);
  const msj_counters second = session.stats();
  CHECK(second.sweeps == 1);
  CHECK(second.nvrtc_invocations == first.nvrtc_invocations);
  CHECK(run_on(session, nullptr, 2) == MSJ_OK);
  CHECK(session.stats().sweeps == 2);
  CHECK(entry_files(cache.path()).size() == 2);

  const CUstream of_another = gpu->create_stream(gpu->create_context(1), CU_STREAM_NON_BLOCKING);
  CHECK(run_on(session, of_another, 0) == MSJ_ERROR_INVALID_ARGUMENT);
  CHECK(std::string(msj_last_error()).find("device 1, but device is 0") != std::string::npos);
}

TEST_CASE("a GPU that is too old, and no driver at all, are errors by name") {
  FakeGpu gpu;
  const ScratchDirectory cache;
  {
    gpu->clear_devices();
    gpu->add_device("Tesla V100", 70, 80, 96 * 1024, std::size_t{16} << 30);
    Session session(cache.path());
    CHECK(run_on(session, nullptr) == MSJ_ERROR_UNSUPPORTED);
    CHECK(std::string(msj_last_error()).find("Tesla V100") != std::string::npos);
  }
  const ScopedEnvironment nowhere("MAXSIM_JIT_LIBCUDA", "/nowhere/libcuda.so");
  Session session(cache.path());
  CHECK(run_on(session, nullptr) == MSJ_ERROR_NO_DRIVER);
  CHECK(std::string(msj_last_error()).find("/nowhere/libcuda.so") != std::string::npos);
  CHECK(std::string(msj_last_error()).find("MAXSIM_JIT_LIBCUDA") != std::string::npos);
}

TEST_CASE("what a kernel is given is what the caller gave, in the order of the table") {
  const TinyKernels kernels;
  for (const ops::Op &op : ops::all_ops()) {
    CAPTURE(op.spec->name);
    FakeGpu gpu;
    const ScratchDirectory cache;
    Session session(cache.path(), "off");
    for (const FeatureSet set : {FeatureSet{0}, op.spec->all_features()}) {
      CallShape shape = small_call(*op.spec, set, Strides::odd_rows);
      shape.others = Strides::inner_two;
      OpCall call(shape);
      call.call().workspace = reinterpret_cast<void *>(std::uintptr_t{1} << 20);
      call.call().workspace_size = std::size_t{1} << 30;
      REQUIRE(session.run(call) == MSJ_OK);
      std::vector<std::uint64_t> expected;
      for (std::size_t i = 0; i < op.spec->operands.size(); ++i) {
        const msj_tensor &tensor = call.tensor(i);  // zero where it is absent
        expected.push_back(reinterpret_cast<std::uintptr_t>(tensor.data));
        for (int r = 0; r < op.spec->operands[i].rank; ++r) {
          const bool single = tensor.data != nullptr && tensor.rank != op.spec->operands[i].rank;  // one value for all
          expected.push_back(single ? 0 : static_cast<std::uint64_t>(tensor.strides[r]));
        }
      }
      for (std::size_t i = 0; i < op.spec->sizes.size(); ++i) {
        expected.push_back(call.gives(static_cast<int>(i)) ? static_cast<std::uint64_t>(shape.sizes[i]) : 0);
      }
      for (const ParamSpec &param : op.spec->params) {
        const std::int64_t given =
            param.size >= 0 ? shape.sizes[static_cast<std::size_t>(param.size)] : param.default_int;
        expected.push_back(static_cast<std::uint64_t>(given));
      }
      for (std::size_t i = 0; i < op.spec->operands.size(); ++i) {
        const OperandSpec &operand = op.spec->operands[i];
        if (!has_run_time_dtype(operand)) continue;
        const bool present = call.tensor(i).data != nullptr;  // absent: as the operand that it follows
        const auto giver = present ? i : static_cast<std::size_t>(operand.dtype.follows);
        expected.push_back(static_cast<std::uint64_t>(call.tensor(giver).dtype));
      }
      expected.push_back(std::uintptr_t{1} << 20);
      if (op.spec->in_rounds) expected.push_back(0);
      const fake::Launch launch = gpu.last_launch();
      REQUIRE(launch.parameter_bytes == expected.size() * sizeof(std::uint64_t));
      CHECK(std::memcmp(launch.parameters, expected.data(), launch.parameter_bytes) == 0);
    }
  }
}

TEST_CASE("a launch that the driver refuses is MSJ_ERROR_CUDA, and the next call works") {
  const TinyKernels kernels;
  FakeGpu gpu;
  const ScratchDirectory cache;
  Session session(cache.path(), "off");
  CHECK(run_on(session, nullptr) == MSJ_OK);
  gpu->fail("cuLaunchKernel", CUDA_ERROR_LAUNCH_FAILED, 1);
  CHECK(run_on(session, nullptr) == MSJ_ERROR_CUDA);
  CHECK(std::string(msj_last_error()).find("CUDA_ERROR_LAUNCH_FAILED") != std::string::npos);
  CHECK(session.stats().launches == 1);
  CHECK(gpu->stack_depth() == 0);
  CHECK(run_on(session, nullptr) == MSJ_OK);
}
