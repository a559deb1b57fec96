#include "cuda/launch.h"

#include <array>

#include "cuda/module.h"
#include "cuda/world.h"

using namespace msj;
using cuda::Module;
using world::Loaded;

namespace {

CUresult launch(const cuda::Driver &driver, CUfunction function, bool overlaps_previous) {
  std::array<long long, 6> argument = {1, 2, 3, 4, 5, 6};
  void *parameters = argument.data();
  return cuda::launch(driver, function, {7, 96, 1024, overlaps_previous}, nullptr, &parameters);
}

}  // namespace

TEST_CASE("a launch that overlaps the one before it is told so to the driver, and is the same otherwise") {
  const Loaded gpu;
  const Module module(gpu.driver, world::cubin());
  const CUfunction wide = module.function("wide", 1024);
  for (const bool overlaps : {false, true}) REQUIRE(launch(*gpu.driver, wide, overlaps) == CUDA_SUCCESS);
  const auto launches = gpu.fake.launches();
  REQUIRE(launches.size() == 2);
  for (const auto &one : launches) {
    CHECK(std::string(one.entry) == "wide");
    CHECK(one.grid[0] == 7);
    CHECK(one.block[0] == 96);
    CHECK(one.block[1] == 1);
    CHECK(one.shared_bytes == 1024);
    CHECK(static_cast<const long long *>(one.parameters)[5] == 6);
  }
  CHECK_FALSE(launches[0].overlaps);
  CHECK(launches[1].overlaps);
}

TEST_CASE("a driver or a capture without programmatic dependence has the launches one after another") {
  std::shared_ptr<const cuda::Driver> original;  // the guard's, so it goes after it
  Loaded gpu;
  original = gpu.driver;
  auto driver = std::make_shared<cuda::Driver>(std::move(*std::const_pointer_cast<cuda::Driver>(gpu.driver)));
  gpu.driver = driver;
  const Module module(driver, world::cubin());
  const CUfunction wide = module.function("wide", 1024);
  gpu.fake.fail("cuLaunchKernelEx", CUDA_ERROR_INVALID_VALUE, 1);
  CHECK(launch(*driver, wide, true) == CUDA_ERROR_INVALID_VALUE);  // what else goes wrong is not tried again
  gpu.fake.fail("cuLaunchKernelEx", CUDA_ERROR_NOT_SUPPORTED, 1);
  CHECK(launch(*driver, wide, true) == CUDA_SUCCESS);
  driver->LaunchKernelEx = nullptr;
  CHECK(launch(*driver, wide, true) == CUDA_SUCCESS);
  const auto launches = gpu.fake.launches();
  REQUIRE(launches.size() == 2);
  for (const auto &one : launches) CHECK_FALSE(one.overlaps);
}
