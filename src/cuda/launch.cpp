#include "cuda/launch.h"

namespace msj::cuda {

namespace {

CUresult launch_overlapping(const Driver &driver, CUfunction function, const LaunchShape &shape, CUstream stream,
                            void **parameters) {
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attribute.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config{};
  config.gridDimX = static_cast<unsigned>(shape.grid);
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = static_cast<unsigned>(shape.threads);
  config.sharedMemBytes = static_cast<unsigned>(shape.shared_bytes);
  config.hStream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return driver.LaunchKernelEx(&config, function, parameters, nullptr);
}

}  // namespace

CUresult launch(const Driver &driver, CUfunction function, const LaunchShape &shape, CUstream stream,
                void **parameters) {
  if (shape.overlaps_previous && driver.LaunchKernelEx != nullptr) {
    const CUresult result = launch_overlapping(driver, function, shape, stream, parameters);
    if (result != CUDA_ERROR_NOT_SUPPORTED) return result;
  }
  return driver.LaunchKernel(function, static_cast<unsigned>(shape.grid), 1, 1, static_cast<unsigned>(shape.threads), 1,
                             1, static_cast<unsigned>(shape.shared_bytes), stream, parameters, nullptr);
}

}  // namespace msj::cuda
