#include "cuda/buffer.h"

#include <fmt/format.h>

#include <utility>

namespace msj::cuda {

Buffer::Buffer(std::shared_ptr<const Driver> driver, std::size_t bytes) : driver_(std::move(driver)), bytes_(bytes) {
  if (bytes == 0) return;
  const CUresult result = driver_->MemAlloc(&pointer_, bytes);
  if (result != CUDA_SUCCESS) driver_->check(result, fmt::format("cuMemAlloc of {} bytes", bytes));
}

Buffer::~Buffer() {
  if (pointer_ != 0) (void)driver_->MemFree(pointer_);
}

Stream::Stream(std::shared_ptr<const Driver> driver) : driver_(std::move(driver)) {
  driver_->check(driver_->StreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
}

Stream::~Stream() { (void)driver_->StreamDestroy(stream_); }

Event::Event(std::shared_ptr<const Driver> driver) : driver_(std::move(driver)) {
  driver_->check(driver_->EventCreate(&event_, CU_EVENT_DEFAULT), "cuEventCreate");
}

Event::~Event() { (void)driver_->EventDestroy(event_); }

}  // namespace msj::cuda
