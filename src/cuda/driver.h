// libcuda, opened at run time: one table of its functions, and one place that turns CUresult into an Error.
#pragma once

#include <cuda.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/settings.h"
#include "cuda/shared_library.h"

namespace msj::cuda {

// Every driver function that the library calls. X(member, symbol): versioned symbols are named once, here.
#define MSJ_DRIVER_FUNCTIONS(X)                                         \
  X(Init, cuInit)                                                       \
  X(DriverGetVersion, cuDriverGetVersion)                               \
  X(GetErrorName, cuGetErrorName)                                       \
  X(GetErrorString, cuGetErrorString)                                   \
  X(DeviceGetCount, cuDeviceGetCount)                                   \
  X(DeviceGet, cuDeviceGet)                                             \
  X(DeviceGetName, cuDeviceGetName)                                     \
  X(DeviceGetAttribute, cuDeviceGetAttribute)                           \
  X(DeviceGetUuid, cuDeviceGetUuid_v2)                                  \
  X(DevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain)                   \
  X(DevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2)              \
  X(CtxGetCurrent, cuCtxGetCurrent)                                     \
  X(CtxPushCurrent, cuCtxPushCurrent_v2)                                \
  X(CtxPopCurrent, cuCtxPopCurrent_v2)                                  \
  X(CtxGetDevice, cuCtxGetDevice)                                       \
  X(CtxGetId, cuCtxGetId)                                               \
  X(CtxSynchronize, cuCtxSynchronize)                                   \
  X(StreamGetCtx, cuStreamGetCtx)                                       \
  X(StreamIsCapturing, cuStreamIsCapturing)                             \
  X(StreamCreate, cuStreamCreate)                                       \
  X(StreamDestroy, cuStreamDestroy_v2)                                  \
  X(StreamSynchronize, cuStreamSynchronize)                             \
  X(ThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode) \
  X(LibraryLoadData, cuLibraryLoadData)                                 \
  X(LibraryUnload, cuLibraryUnload)                                     \
  X(LibraryGetKernel, cuLibraryGetKernel)                               \
  X(KernelGetFunction, cuKernelGetFunction)                             \
  X(FuncGetAttribute, cuFuncGetAttribute)                               \
  X(FuncSetAttribute, cuFuncSetAttribute)                               \
  X(LaunchKernel, cuLaunchKernel)                                       \
  X(MemAlloc, cuMemAlloc_v2)                                            \
  X(MemFree, cuMemFree_v2)                                              \
  X(MemGetInfo, cuMemGetInfo_v2)                                        \
  X(PointerGetAttribute, cuPointerGetAttribute)                         \
  X(MemcpyHtoD, cuMemcpyHtoD_v2)                                        \
  X(MemcpyDtoH, cuMemcpyDtoH_v2)                                        \
  X(MemcpyHtoDAsync, cuMemcpyHtoDAsync_v2)                              \
  X(MemcpyDtoDAsync, cuMemcpyDtoDAsync_v2)                              \
  X(MemsetD8Async, cuMemsetD8Async)                                     \
  X(EventCreate, cuEventCreate)                                         \
  X(EventDestroy, cuEventDestroy_v2)                                    \
  X(EventRecord, cuEventRecord)                                         \
  X(EventElapsedTime, cuEventElapsedTime)

class Driver {
 public:
  // Opens and initializes libcuda. Throws Error(MSJ_ERROR_NO_DRIVER): which library, where it was looked for, how to
  // point to it (MAXSIM_JIT_LIBCUDA); a driver too old; no device.
  [[nodiscard]] static std::shared_ptr<const Driver> load(const Settings &settings);

#define MSJ_DECLARE_MEMBER(member, symbol) decltype(&::symbol) member = nullptr;
  MSJ_DRIVER_FUNCTIONS(MSJ_DECLARE_MEMBER)
#undef MSJ_DECLARE_MEMBER
  CUresult (*FuncLoad)(CUfunction) = nullptr;                          // cuFuncLoad, from CUDA 12.4; null before
  decltype(&::cuLaunchKernelEx) LaunchKernelEx = nullptr;              // from CUDA 11.8; null before
  decltype(&::cuTensorMapEncodeTiled) TensorMapEncodeTiled = nullptr;  // null: paths that need it are not admissible

  [[nodiscard]] int version() const { return version_; }  // 13000 for 13.0
  [[nodiscard]] int device_count() const { return device_count_; }
  [[nodiscard]] const std::string &opened_as() const { return library_.opened_as(); }

  // Throws Error(MSJ_ERROR_CUDA, or MSJ_ERROR_OUT_OF_MEMORY): "what: NAME: description".
  void check(CUresult result, std::string_view what) const;
  [[nodiscard]] std::string describe(CUresult result) const;  // "NAME: description"

 private:
  void resolve_functions();
  void initialize();

  SharedLibrary library_;
  int version_ = 0;
  int device_count_ = 0;
};

}  // namespace msj::cuda
