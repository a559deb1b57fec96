#include "cuda/driver.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "base/error.h"

namespace msj::cuda {

namespace {

constexpr int kOldestVersion = 12000;  // the first with cuLibraryLoadData

std::vector<std::string> candidates(const Settings &settings) {
  if (!settings.libcuda.empty()) return {settings.libcuda};
  return {"libcuda.so.1", "libcuda.so"};
}

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

SharedLibrary open_library(const Settings &settings) {
  SharedLibrary library = SharedLibrary::open(candidates(settings));
  if (library) return library;
  throw_error(MSJ_ERROR_NO_DRIVER,
              "the NVIDIA driver's library libcuda was not found; looked for: {}; install the driver, or set "
              "MAXSIM_JIT_LIBCUDA to the path of libcuda.so.1",
              fmt::join(library.attempts(), ", "));
}

}  // namespace

std::shared_ptr<const Driver> Driver::load(const Settings &settings) {
  const auto driver = std::make_shared<Driver>();
  driver->library_ = open_library(settings);
  driver->resolve_functions();
  driver->initialize();
  return driver;
}

// The version first: it says why a symbol is missing.
void Driver::resolve_functions() {
  if (!resolve(library_, "cuDriverGetVersion", DriverGetVersion) || DriverGetVersion(&version_) != CUDA_SUCCESS) {
    throw_error(MSJ_ERROR_NO_DRIVER, "{} is no CUDA driver: it does not tell its version (cuDriverGetVersion)",
                opened_as());
  }
  if (version_ < kOldestVersion) {
    throw_error(MSJ_ERROR_NO_DRIVER, "the driver in {} supports CUDA {}; CUDA {} or newer is needed: update the driver",
                opened_as(), version_text(version_), version_text(kOldestVersion));
  }
  const auto require = [this](const char *symbol, auto &member) {
    if (resolve(library_, symbol, member)) return;
    throw_error(MSJ_ERROR_NO_DRIVER, "the driver in {} (CUDA {}) lacks the function {}: reinstall or update the driver",
                opened_as(), version_text(version_), symbol);
  };
#define MSJ_RESOLVE_MEMBER(member, symbol) require(#symbol, member);
  MSJ_DRIVER_FUNCTIONS(MSJ_RESOLVE_MEMBER)
#undef MSJ_RESOLVE_MEMBER
  (void)resolve(library_, "cuFuncLoad", FuncLoad);
  (void)resolve(library_, "cuLaunchKernelEx", LaunchKernelEx);
  (void)resolve(library_, "cuTensorMapEncodeTiled", TensorMapEncodeTiled);
}

void Driver::initialize() {
  CUresult result = Init(0);
  if (result == CUDA_SUCCESS) result = DeviceGetCount(&device_count_);
  if (result != CUDA_SUCCESS) {
    throw_error(MSJ_ERROR_NO_DRIVER, "the driver in {} (CUDA {}) does not start: {}; is a GPU there and visible?",
                opened_as(), version_text(version_), describe(result));
  }
  if (device_count_ == 0) {
    throw_error(MSJ_ERROR_NO_DRIVER, "the driver in {} (CUDA {}) finds no device; is CUDA_VISIBLE_DEVICES empty?",
                opened_as(), version_text(version_));
  }
}

std::string Driver::describe(CUresult result) const {
  const char *name = nullptr;
  const char *description = nullptr;
  if (GetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) {
    return fmt::format("CUDA error {}", static_cast<int>(result));
  }
  if (GetErrorString(result, &description) != CUDA_SUCCESS || description == nullptr) return name;
  return fmt::format("{}: {}", name, description);
}

void Driver::check(CUresult result, std::string_view what) const {
  if (result == CUDA_SUCCESS) return;
  const msj_status status = result == CUDA_ERROR_OUT_OF_MEMORY ? MSJ_ERROR_OUT_OF_MEMORY : MSJ_ERROR_CUDA;
  throw_error(status, "{}: {}", what, describe(result));
}

}  // namespace msj::cuda
