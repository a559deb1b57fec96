#include "cuda/module.h"

#include <fmt/format.h>

#include "base/error.h"

namespace msj::cuda {

Module::Module(std::shared_ptr<const Driver> driver, std::string_view cubin) : driver_(std::move(driver)) {
  if (cubin.empty()) throw_error(MSJ_ERROR_CUDA, "cubin is empty; accepted is what NVRTC makes");
  driver_->check(driver_->LibraryLoadData(&library_, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
                 "cuLibraryLoadData");
}

Module::~Module() {
  if (library_ != nullptr) (void)driver_->LibraryUnload(library_);
}

CUfunction Module::function(std::string_view entry, int shared_bytes) const {
  const std::string name(entry);
  CUkernel kernel = nullptr;
  CUfunction function = nullptr;
  const auto check = [&](CUresult result, std::string_view call) {
    if (result != CUDA_SUCCESS) driver_->check(result, fmt::format("{} of kernel {}", call, name));
  };
  check(driver_->LibraryGetKernel(&kernel, library_, name.c_str()), "cuLibraryGetKernel");
  check(driver_->KernelGetFunction(&function, kernel), "cuKernelGetFunction");
  // Drivers load lazily. cuFuncLoad loads now; before CUDA 12.4, asking for an attribute does.
  if (driver_->FuncLoad != nullptr) check(driver_->FuncLoad(function), "cuFuncLoad");
  int registers = 0;
  check(driver_->FuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function), "cuFuncGetAttribute");
  const std::lock_guard lock(limits_);
  int allowed = 0;
  check(driver_->FuncGetAttribute(&allowed, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function),
        "cuFuncGetAttribute");
  if (shared_bytes <= allowed) return function;
  check(driver_->FuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes),
        fmt::format("cuFuncSetAttribute ({} bytes of dynamic shared memory)", shared_bytes));
  return function;
}

}  // namespace msj::cuda
