#include "cuda/reach.h"

#include "base/error.h"
#include "cuda/device.h"

namespace msj::cuda {

namespace {

bool shares_page_tables(const Driver &driver, int device) {
  int shares = 0;
  const CUdevice handle = device_of(driver, device);
  const CUresult result = driver.DeviceGetAttribute(&shares, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, handle);
  return result == CUDA_SUCCESS && shares != 0;
}

}  // namespace

void require_in_reach(const Driver &driver, int device, const void *address, std::string_view what) {
  CUmemorytype type{};
  const auto pointer = reinterpret_cast<CUdeviceptr>(address);
  // The driver knows nothing of plain host memory. Other failures are not the pointer's.
  if (driver.PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer) != CUDA_ERROR_INVALID_VALUE) return;
  if (shares_page_tables(driver, device)) return;
  throw_error(MSJ_ERROR_INVALID_ARGUMENT,
              "{} is at {}, which device {} can't reach (plain host memory, or none); device, managed or pinned memory "
              "is accepted, and host memory with MSJ_DEVICE_CPU",
              what, address, device);
}

}  // namespace msj::cuda
