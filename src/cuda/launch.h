// One kernel's launch on a stream, in the current CUDA context. Any thread.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "cuda/driver.h"

namespace msj::cuda {

struct LaunchShape {
  std::int64_t grid = 0;  // blocks, below 2^31
  int threads = 0;
  int shared_bytes = 0;            // dynamic shared memory of a block
  bool overlaps_previous = false;  // blocks may start when all of the launch before it have: programmatic dependence
};

// What the driver answers. Without programmatic dependence, in a driver or a capture, launches follow one another.
CUresult launch(const Driver &driver, CUfunction function, const LaunchShape &shape, CUstream stream,
                void **parameters);

}  // namespace msj::cuda
