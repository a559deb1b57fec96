// Device memory, a stream and events, each freed in the context it was made in (which must be current).
#pragma once

#include <cuda.h>

#include <cstddef>
#include <memory>

#include "cuda/driver.h"

namespace msj::cuda {

class Buffer {
 public:
  Buffer(std::shared_ptr<const Driver> driver, std::size_t bytes);  // throws MSJ_ERROR_OUT_OF_MEMORY, with the size
  ~Buffer();
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;
  [[nodiscard]] CUdeviceptr get() const { return pointer_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<const Driver> driver_;
  CUdeviceptr pointer_ = 0;
  std::size_t bytes_ = 0;
};

class Stream {
 public:
  explicit Stream(std::shared_ptr<const Driver> driver);  // non-blocking
  ~Stream();
  Stream(const Stream &) = delete;
  Stream &operator=(const Stream &) = delete;
  [[nodiscard]] CUstream get() const { return stream_; }

 private:
  std::shared_ptr<const Driver> driver_;
  CUstream stream_ = nullptr;
};

class Event {
 public:
  explicit Event(std::shared_ptr<const Driver> driver);
  ~Event();
  Event(const Event &) = delete;
  Event &operator=(const Event &) = delete;
  [[nodiscard]] CUevent get() const { return event_; }

 private:
  std::shared_ptr<const Driver> driver_;
  CUevent event_ = nullptr;
};

}  // namespace msj::cuda
