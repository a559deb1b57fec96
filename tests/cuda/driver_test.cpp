#include "cuda/driver.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "cuda/world.h"

using namespace msj;
using cuda::Driver;

namespace {

world::Failure load_failure(const Settings &settings) {
  return world::failure_of([&] { (void)Driver::load(settings); });
}

}  // namespace

TEST_CASE("no libcuda where it is pointed to: which library, where, how to point to it") {
  Settings settings;
  settings.libcuda = "/nowhere/libcuda.so.1";
  const auto failure = load_failure(settings);
  CHECK(failure.status == MSJ_ERROR_NO_DRIVER);
  CHECK_NAMES(failure, "libcuda");
  CHECK_NAMES(failure, "not found; looked for: /nowhere/libcuda.so.1; install");
  CHECK_NAMES(failure, "MAXSIM_JIT_LIBCUDA");
  CHECK_FALSE(failure.names("libcuda.so;"));  // only what was pointed to
}

TEST_CASE("a library that is no driver") {
  Settings settings;
  settings.libcuda = "libm.so.6";
  const auto failure = load_failure(settings);
  CHECK(failure.status == MSJ_ERROR_NO_DRIVER);
  CHECK_NAMES(failure, "libm.so.6");
  CHECK_NAMES(failure, "cuDriverGetVersion");
}

TEST_CASE("a driver that is too old names both versions") {
  const fake::FakeCuda fake(MSJ_FAKE_LIBCUDA);
  fake.set_driver_version(11080);
  const auto failure = load_failure(world::fake_settings());
  CHECK(failure.status == MSJ_ERROR_NO_DRIVER);
  CHECK_NAMES(failure, "CUDA 11.8");
  CHECK_NAMES(failure, "12.0 or newer");
}

TEST_CASE("a missing function is named, with the driver's version") {
  // A copy of the stand-in whose symbol table has another name in the place of cuLibraryUnload.
  const auto path = std::filesystem::temp_directory_path() / ("libcuda_lacking." + std::to_string(getpid()) + ".so");
  std::string bytes;
  {
    std::ifstream in(MSJ_FAKE_LIBCUDA, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  for (std::size_t at = bytes.find("cuLibraryUnload"); at != std::string::npos;
       at = bytes.find("cuLibraryUnload", at)) {
    bytes.replace(at, 15, "xxLibraryUnload");
  }
  std::ofstream(path, std::ios::binary) << bytes;
  Settings settings;
  settings.libcuda = path.string();
  const auto failure = load_failure(settings);
  std::filesystem::remove(path);
  CHECK(failure.status == MSJ_ERROR_NO_DRIVER);
  CHECK_NAMES(failure, "cuLibraryUnload");
  CHECK_NAMES(failure, "CUDA 13.0");
}

TEST_CASE("no device, and a driver that does not start") {
  const fake::FakeCuda fake(MSJ_FAKE_LIBCUDA);
  fake.clear_devices();
  auto failure = load_failure(world::fake_settings());
  CHECK(failure.status == MSJ_ERROR_NO_DRIVER);
  CHECK_NAMES(failure, "CUDA_ERROR_NO_DEVICE");
  fake.reset();
  fake.fail("cuInit", CUDA_ERROR_NOT_INITIALIZED, 1);
  failure = load_failure(world::fake_settings());
  CHECK(failure.status == MSJ_ERROR_NO_DRIVER);
  CHECK_NAMES(failure, "CUDA_ERROR_NOT_INITIALIZED: initialization error");
}

TEST_CASE("every function of the table is there, and the optional ones") {
  const world::Gpu gpu;
#define CHECK_MEMBER(member, symbol) CHECK_MESSAGE((gpu.driver->member != nullptr), #symbol);
  MSJ_DRIVER_FUNCTIONS(CHECK_MEMBER)
  CHECK_UNARY(gpu.driver->FuncLoad != nullptr);
  CHECK_UNARY(gpu.driver->TensorMapEncodeTiled != nullptr);
  CHECK(gpu.driver->version() == 13000);
  CHECK(gpu.driver->device_count() == 1);
  CHECK(gpu.driver->opened_as() == MSJ_FAKE_LIBCUDA);
}

TEST_CASE("errors of the driver: its name, its description, what was called; out of memory is its own status") {
  const world::Gpu gpu;
  CHECK_NOTHROW(gpu.driver->check(CUDA_SUCCESS, "cuX"));
  auto failure = world::failure_of([&] { gpu.driver->check(CUDA_ERROR_LAUNCH_FAILED, "cuLaunchKernel"); });
  CHECK(failure.status == MSJ_ERROR_CUDA);
  CHECK(failure.sentence == "cuLaunchKernel: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure");
  failure = world::failure_of([&] { gpu.driver->check(CUDA_ERROR_OUT_OF_MEMORY, "cuMemAlloc"); });
  CHECK(failure.status == MSJ_ERROR_OUT_OF_MEMORY);
  failure = world::failure_of([&] { gpu.driver->check(static_cast<CUresult>(4242), "cuX"); });
  CHECK(failure.sentence == "cuX: CUDA error 4242");
}
