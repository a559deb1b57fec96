#include "cuda/buffer.h"

#include <vector>

#include "cuda/current_context.h"
#include "cuda/world.h"

using namespace msj;
using cuda::Buffer;
using cuda::Event;
using cuda::Stream;

namespace {

struct InContext : world::Gpu {
  CUcontext context = fake.create_context(0);
  cuda::ContextGuard guard{*driver, context};
};

}  // namespace

TEST_CASE("a buffer holds device memory and gives it back") {
  const InContext gpu;
  {
    const Buffer buffer(gpu.driver, 1000);
    CHECK(buffer.bytes() == 1000);
    const std::vector<char> in(1000, 'm');
    std::vector<char> out(1000);
    REQUIRE(gpu.driver->MemcpyHtoD(buffer.get(), in.data(), 1000) == CUDA_SUCCESS);
    REQUIRE(gpu.driver->MemcpyDtoH(out.data(), buffer.get(), 1000) == CUDA_SUCCESS);
    CHECK(out == in);
    CHECK(gpu.fake.live_handles("buffer") == 1);
  }
  CHECK(gpu.fake.live_handles("buffer") == 0);
}

TEST_CASE("an empty buffer asks the driver for nothing") {
  const InContext gpu;
  const Buffer buffer(gpu.driver, 0);
  CHECK(buffer.get() == 0);
  CHECK(gpu.fake.calls("cuMemAlloc_v2") == 0);
}

TEST_CASE("out of memory says how much was asked for") {
  const InContext gpu;
  const auto failure = world::failure_of([&] { const Buffer buffer(gpu.driver, std::size_t{1} << 44); });
  CHECK(failure.status == MSJ_ERROR_OUT_OF_MEMORY);
  CHECK_NAMES(failure, "17592186044416 bytes");
  CHECK_NAMES(failure, "CUDA_ERROR_OUT_OF_MEMORY");
}

TEST_CASE("streams do not wait for the legacy stream; streams and events are destroyed") {
  const InContext gpu;
  {
    const Stream stream(gpu.driver);
    gpu.fake.set_capture(stream.get(), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CHECK_FALSE(cuda::is_capturing(*gpu.driver, nullptr));
    gpu.fake.set_capture(stream.get(), CU_STREAM_CAPTURE_STATUS_NONE);
    const Event start(gpu.driver);
    const Event end(gpu.driver);
    REQUIRE(gpu.driver->EventRecord(start.get(), stream.get()) == CUDA_SUCCESS);
    REQUIRE(gpu.driver->EventRecord(end.get(), stream.get()) == CUDA_SUCCESS);
    float ms = -1;
    REQUIRE(gpu.driver->EventElapsedTime(&ms, start.get(), end.get()) == CUDA_SUCCESS);
    CHECK(ms == 0);
    CHECK(gpu.fake.live_handles("stream") == 1);
    CHECK(gpu.fake.live_handles("event") == 2);
  }
  CHECK(gpu.fake.live_handles("stream") == 0);
  CHECK(gpu.fake.live_handles("event") == 0);
}

TEST_CASE("without a current context nothing is made, and the error says so") {
  const world::Gpu gpu;
  CHECK_NAMES(world::failure_of([&] { const Stream stream(gpu.driver); }),
              "cuStreamCreate: CUDA_ERROR_INVALID_CONTEXT");
  CHECK_NAMES(world::failure_of([&] { const Event event(gpu.driver); }), "cuEventCreate: CUDA_ERROR_INVALID_CONTEXT");
}
