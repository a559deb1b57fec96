#include "cuda/current_context.h"

#include <thread>

#include "cuda/buffer.h"
#include "cuda/device.h"
#include "cuda/world.h"

using namespace msj;
using cuda::context_of_call;
using cuda::ContextGuard;
using cuda::is_capturing;
using cuda::PrimaryContexts;
using cuda::RelaxedCapture;

namespace {

CUcontext current(const world::Gpu &gpu) {
  CUcontext context = nullptr;
  gpu.driver->check(gpu.driver->CtxGetCurrent(&context), "cuCtxGetCurrent");
  return context;
}

const std::vector<void *> kDefaultStreams = {nullptr, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};

struct TwoDevices : world::Gpu {
  TwoDevices() : second_context(add_second()), primary(driver) {}
  CUcontext second_context;
  PrimaryContexts primary;

 private:
  CUcontext add_second() {
    fake.add_device("NVIDIA L4", 89, 58, 101376, 1 << 30);
    driver = cuda::Driver::load(world::fake_settings());
    return fake.create_context(1);
  }
};

}  // namespace

TEST_CASE("a guard makes its context current and restores what was there, nested and on exceptions") {
  const world::Gpu gpu;
  const CUcontext outer = gpu.fake.create_context(0);
  const CUcontext inner = gpu.fake.create_context(0);
  {
    const ContextGuard a(*gpu.driver, outer);
    CHECK(current(gpu) == outer);
    try {
      const ContextGuard b(*gpu.driver, inner);
      CHECK(current(gpu) == inner);
      throw 1;
    } catch (int) {
    }
    CHECK(current(gpu) == outer);
  }
  CHECK(current(gpu) == nullptr);
  CHECK(gpu.fake.stack_depth() == 0);
}

TEST_CASE("a guard of a destroyed context throws and leaves the stack alone") {
  const world::Gpu gpu;
  const CUcontext context = gpu.fake.create_context(0);
  gpu.fake.destroy_context(context);
  const auto failure = world::failure_of([&] { const ContextGuard guard(*gpu.driver, context); });
  CHECK(failure.status == MSJ_ERROR_CUDA);
  CHECK_NAMES(failure, "CUDA_ERROR_CONTEXT_IS_DESTROYED");
  CHECK(gpu.fake.stack_depth() == 0);
}

TEST_CASE("primary contexts are retained once, and released with the library") {
  const world::Gpu gpu;
  {
    PrimaryContexts primary(gpu.driver);
    CHECK(gpu.fake.primary_references(0) == 0);
    const CUcontext context = primary.of(0);
    CHECK(primary.of(0) == context);
    CHECK(gpu.fake.primary_references(0) == 1);
    CHECK(current(gpu) == nullptr);
    CHECK(world::failure_of([&] { (void)primary.of(7); }).status == MSJ_ERROR_INVALID_ARGUMENT);
  }
  CHECK(gpu.fake.primary_references(0) == 0);
}

TEST_CASE("a driver that has shut down does not disturb destructors") {
  const world::Gpu gpu;
  {
    PrimaryContexts primary(gpu.driver);
    const ContextGuard guard(*gpu.driver, primary.of(0));
    const cuda::Buffer buffer(gpu.driver, 64);
    const cuda::Stream stream(gpu.driver);
    const cuda::Event event(gpu.driver);
    for (const char *symbol : {"cuCtxPopCurrent_v2", "cuMemFree_v2", "cuStreamDestroy_v2", "cuEventDestroy_v2",
                               "cuDeviceGet", "cuDevicePrimaryCtxRelease_v2"}) {
      gpu.fake.fail(symbol, CUDA_ERROR_DEINITIALIZED, -1);
    }
  }
  CHECK(gpu.fake.calls("cuMemFree_v2") == 1);
}

TEST_CASE("the context of a call is its stream's, else the current one, else the primary") {
  TwoDevices gpu;
  const CUcontext own = gpu.fake.create_context(0);
  const CUstream stream = gpu.fake.create_stream(own, 0);
  CHECK(context_of_call(*gpu.driver, gpu.primary, stream, 0).context == own);
  for (void *default_stream : kDefaultStreams) {
    CHECK(context_of_call(*gpu.driver, gpu.primary, default_stream, 0).context == gpu.primary.of(0));
    const ContextGuard guard(*gpu.driver, own);
    CHECK(context_of_call(*gpu.driver, gpu.primary, default_stream, 0).context == own);
  }
  CHECK(context_of_call(*gpu.driver, gpu.primary, nullptr, 1).context == gpu.primary.of(1));
  CHECK(gpu.fake.stack_depth() == 0);
}

TEST_CASE("a thread that never touched CUDA gets the primary context, and stays as it was") {
  TwoDevices gpu;
  const CUstream stream = gpu.fake.create_stream(gpu.fake.create_context(0), 0);
  std::thread([&] {
    CHECK(context_of_call(*gpu.driver, gpu.primary, nullptr, 0).context == gpu.primary.of(0));
    CHECK(context_of_call(*gpu.driver, gpu.primary, stream, 0).context != gpu.primary.of(0));
    CHECK(gpu.fake.stack_depth() == 0);
    CHECK(current(gpu) == nullptr);
  }).join();
}

TEST_CASE("ids tell contexts apart, even one made after another was destroyed") {
  TwoDevices gpu;
  const CUcontext first = gpu.fake.create_context(0);
  const CUcontext second = gpu.fake.create_context(0);
  const auto id_of = [&](CUcontext context) {
    return context_of_call(*gpu.driver, gpu.primary, gpu.fake.create_stream(context, 0), 0).id;
  };
  CHECK(id_of(first) == id_of(first));
  CHECK(id_of(first) != id_of(second));
}

TEST_CASE("a stream or a current context of another device than the call's is an error that names both") {
  TwoDevices gpu;
  const CUstream stream = gpu.fake.create_stream(gpu.second_context, 0);
  const auto failure_on = [&](void *on) {
    const auto context = context_of_call(*gpu.driver, gpu.primary, on, 0);
    return world::failure_of([&] { cuda::require_device(*gpu.driver, context.context, on, 0); });
  };
  auto failure = failure_on(stream);
  CHECK(failure.status == MSJ_ERROR_INVALID_ARGUMENT);
  CHECK_NAMES(failure, "device 1");
  CHECK_NAMES(failure, "device is 0");
  const ContextGuard guard(*gpu.driver, gpu.second_context);
  failure = failure_on(nullptr);
  CHECK(failure.status == MSJ_ERROR_INVALID_ARGUMENT);
  CHECK(gpu.fake.stack_depth() == 1);
}

TEST_CASE("a stream that is no more is an error that names the stream") {
  TwoDevices gpu;
  const CUcontext own = gpu.fake.create_context(0);
  const CUstream orphan = gpu.fake.create_stream(own, 0);
  const CUstream destroyed = gpu.fake.create_stream(gpu.primary.of(0), 0);
  gpu.fake.destroy_context(own);
  REQUIRE(gpu.driver->StreamDestroy(destroyed) == CUDA_SUCCESS);
  for (void *stream : {static_cast<void *>(orphan), static_cast<void *>(destroyed)}) {
    const auto failure = world::failure_of([&] { (void)context_of_call(*gpu.driver, gpu.primary, stream, 0); });
    CHECK(failure.status == MSJ_ERROR_INVALID_ARGUMENT);
    CHECK_NAMES(failure, "stream is 0x");
  }
  CHECK(world::failure_of([&] { (void)is_capturing(*gpu.driver, destroyed); }).status == MSJ_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("a failure of the device is no fault of the stream") {
  TwoDevices gpu;
  const CUstream stream = gpu.fake.create_stream(gpu.primary.of(0), 0);
  gpu.fake.fail("cuStreamGetCtx", CUDA_ERROR_LAUNCH_FAILED, 1);
  const auto failure = world::failure_of([&] { (void)context_of_call(*gpu.driver, gpu.primary, stream, 0); });
  CHECK(failure.status == MSJ_ERROR_CUDA);
}

TEST_CASE("captures: the stream's own, and one that the legacy stream would break") {
  TwoDevices gpu;
  const ContextGuard guard(*gpu.driver, gpu.primary.of(0));
  const CUstream blocking = gpu.fake.create_stream(gpu.primary.of(0), 0);
  const CUstream other = gpu.fake.create_stream(gpu.primary.of(0), CU_STREAM_NON_BLOCKING);
  CHECK_FALSE(is_capturing(*gpu.driver, blocking));
  CHECK_FALSE(is_capturing(*gpu.driver, nullptr));
  gpu.fake.set_capture(blocking, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CHECK(is_capturing(*gpu.driver, blocking));
  CHECK(is_capturing(*gpu.driver, nullptr));
  CHECK(is_capturing(*gpu.driver, CU_STREAM_LEGACY));
  CHECK_FALSE(is_capturing(*gpu.driver, other));
  CHECK_FALSE(is_capturing(*gpu.driver, CU_STREAM_PER_THREAD));
  gpu.fake.set_capture(blocking, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  CHECK(is_capturing(*gpu.driver, blocking));
}

TEST_CASE("relaxed: an allocation leaves a capture elsewhere alive; without it the capture is spoiled") {
  TwoDevices gpu;
  const ContextGuard guard(*gpu.driver, gpu.primary.of(0));
  const CUstream stream = gpu.fake.create_stream(gpu.primary.of(0), CU_STREAM_NON_BLOCKING);
  gpu.fake.set_capture(stream, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  const auto status = [&] {
    CUstreamCaptureStatus now = CU_STREAM_CAPTURE_STATUS_NONE;
    gpu.driver->check(gpu.driver->StreamIsCapturing(stream, &now), "cuStreamIsCapturing");
    return now;
  };
  {
    const RelaxedCapture outer(*gpu.driver);
    { const RelaxedCapture inner(*gpu.driver); }
    CHECK_NOTHROW(cuda::Buffer(gpu.driver, 64));
    CHECK(status() == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  }
  CHECK_THROWS_AS(cuda::Buffer(gpu.driver, 64), Error);
  CHECK(status() == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
}
