// One CUDA device as the library sees it: read once per context and device.
#pragma once

#include <string>

#include "base/op_spec.h"
#include "cuda/architecture.h"
#include "cuda/driver.h"

namespace msj::cuda {

struct DeviceInfo {
  int ordinal = 0;
  std::string name;         // "NVIDIA H200"
  std::string mig_profile;  // "" or the MIG slice's profile as the device name gives it
  std::string uuid;         // hex: identifies the GPU for the sweep lock
  Architecture architecture;
  DeviceLimits limits;
  int driver_version = 0;

  // What makes timings comparable, as a directory name: "NVIDIA-H200_sm_90a_132sm_227KiB".
  [[nodiscard]] std::string environment() const;
};

// Throws Error(MSJ_ERROR_INVALID_ARGUMENT) for an ordinal that is none.
[[nodiscard]] CUdevice device_of(const Driver &driver, int ordinal);

// Throws Error(MSJ_ERROR_INVALID_ARGUMENT) for an ordinal that is none, MSJ_ERROR_UNSUPPORTED below sm_80.
[[nodiscard]] DeviceInfo query_device(const Driver &driver, int ordinal);

}  // namespace msj::cuda
