// A cubin in the driver: loaded once, its kernels resolved per CUDA context.
#pragma once

#include <cuda.h>

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/driver.h"

namespace msj::cuda {

class Module {
 public:
  // Throws Error(MSJ_ERROR_CUDA) if the driver refuses the cubin.
  Module(std::shared_ptr<const Driver> driver, std::string_view cubin);
  ~Module();
  Module(const Module &) = delete;
  Module &operator=(const Module &) = delete;

  // The kernel `entry` in the current context, loaded there now (so that a launch during a stream capture loads
  // nothing), with `shared_bytes` of dynamic shared memory allowed, or more, if somebody asked for more before.
  [[nodiscard]] CUfunction function(std::string_view entry, int shared_bytes) const;

 private:
  std::shared_ptr<const Driver> driver_;
  CUlibrary library_ = nullptr;
  mutable std::mutex limits_;  // a function is everybody's: its limit is read and raised by one at a time
};

}  // namespace msj::cuda
