#include "cuda/module.h"

#include <array>

#include "cuda/current_context.h"
#include "cuda/world.h"

using namespace msj;
using cuda::ContextGuard;
using cuda::Module;
using world::Loaded;

namespace {

CUresult launch(const world::Gpu &gpu, CUfunction function, unsigned threads, unsigned shared_bytes, CUstream stream) {
  std::array<long long, 6> argument = {1, 2, 3, 4, 5, 6};
  void *parameters = argument.data();
  return gpu.driver->LaunchKernel(function, 7, 1, 1, threads, 1, 1, shared_bytes, stream, &parameters, nullptr);
}

}  // namespace

TEST_CASE("a kernel of a real cubin is found and launched") {
  const Loaded gpu;
  const Module module(gpu.driver, world::cubin());
  const CUfunction wide = module.function("wide", 50'000);
  REQUIRE(launch(gpu, wide, 96, 50'000, nullptr) == CUDA_SUCCESS);
  const auto launches = gpu.fake.launches();
  REQUIRE(launches.size() == 1);
  CHECK(std::string(launches[0].entry) == "wide");
  CHECK(launches[0].grid[0] == 7);
  CHECK(launches[0].block[0] == 96);
  CHECK(launches[0].shared_bytes == 50'000);
  CHECK(std::string(static_cast<const char *>(launches[0].image), launches[0].image_bytes) == world::cubin());
  REQUIRE(launches[0].parameter_bytes == 48);
  CHECK(static_cast<const long long *>(launches[0].parameters)[5] == 6);
  // What the stand-in must refuse, as a driver does.
  CHECK(launch(gpu, wide, 97, 50'000, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch(gpu, wide, 96, 50'001, nullptr) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("dynamic shared memory up to the device's limit, and an error that says how much beyond it") {
  const Loaded gpu;
  const Module module(gpu.driver, world::cubin());
  CHECK(launch(gpu, module.function("small", 232448), 32, 232448, nullptr) == CUDA_SUCCESS);
  const auto failure = world::failure_of([&] { (void)module.function("small", 232449); });
  CHECK(failure.status == MSJ_ERROR_CUDA);
  CHECK_NAMES(failure, "232449");
  CHECK_NAMES(failure, "small");
}

TEST_CASE("who needs less dynamic shared memory takes none from those who were allowed more") {
  const Loaded gpu;
  const Module module(gpu.driver, world::cubin());
  const CUfunction large = module.function("small", 100'000);
  CHECK(module.function("small", 2'000) == large);
  CHECK(launch(gpu, large, 32, 100'000, nullptr) == CUDA_SUCCESS);
}

TEST_CASE("a function is loaded when it is given out: a launch during a capture loads nothing") {
  for (const bool has_func_load : {true, false}) {
    std::shared_ptr<const cuda::Driver> original;  // the guard's, so it goes after it
    Loaded gpu;
    original = gpu.driver;
    auto driver = std::make_shared<cuda::Driver>(std::move(*std::const_pointer_cast<cuda::Driver>(gpu.driver)));
    if (!has_func_load) driver->FuncLoad = nullptr;  // drivers before CUDA 12.4
    gpu.driver = driver;
    const Module module(driver, world::cubin());
    const CUfunction function = module.function("small", 0);
    const CUstream stream = gpu.fake.create_stream(gpu.context, 0);
    gpu.fake.set_capture(stream, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CHECK(launch(gpu, function, 32, 0, stream) == CUDA_SUCCESS);
    CHECK(gpu.fake.launches().back().captured);
  }
}

TEST_CASE("each context has a function of its own") {
  const Loaded gpu;
  const Module module(gpu.driver, world::cubin());
  const CUfunction here = module.function("small", 0);
  const ContextGuard other(*gpu.driver, gpu.fake.create_context(0));
  CHECK(launch(gpu, here, 32, 0, nullptr) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(launch(gpu, module.function("small", 0), 32, 0, nullptr) == CUDA_SUCCESS);
}

TEST_CASE("what is no cubin, what has no such kernel, and no current context") {
  const world::Gpu gpu;
  auto failure = world::failure_of([&] { const Module module(gpu.driver, std::string(4096, 'x')); });
  CHECK(failure.status == MSJ_ERROR_CUDA);
  CHECK_NAMES(failure, "cuLibraryLoadData: CUDA_ERROR_INVALID_IMAGE");
  failure = world::failure_of([&] { const Module module(gpu.driver, ""); });
  CHECK(failure.status == MSJ_ERROR_CUDA);
  const Module module(gpu.driver, world::cubin());
  CHECK_NAMES(world::failure_of([&] { (void)module.function("small", 0); }), "CUDA_ERROR_INVALID_CONTEXT");
  const ContextGuard guard(*gpu.driver, gpu.fake.create_context(0));
  failure = world::failure_of([&] { (void)module.function("absent", 0); });
  CHECK(failure.status == MSJ_ERROR_CUDA);
  CHECK_NAMES(failure, "absent");
  CHECK_NAMES(failure, "CUDA_ERROR_NOT_FOUND");
}

TEST_CASE("a module unloads once, and quietly where the driver has shut down") {
  const Loaded gpu;
  {
    const Module module(gpu.driver, world::cubin());
    CHECK(gpu.fake.live_handles("library") == 1);
  }
  CHECK(gpu.fake.live_handles("library") == 0);
  {
    const Module module(gpu.driver, world::cubin());
    gpu.fake.fail("cuLibraryUnload", CUDA_ERROR_DEINITIALIZED, -1);
  }
  CHECK(gpu.fake.calls("cuLibraryUnload") == 2);
}
