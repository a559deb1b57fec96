#include "cuda/current_context.h"

#include "base/error.h"
#include "cuda/device.h"

namespace msj::cuda {

namespace {

// CUDA's 0, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD: they belong to whichever context is current.
bool is_default_stream(const void *stream) {
  return stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

[[noreturn]] void throw_no_stream(const Driver &driver, const void *stream, CUresult result) {
  throw_error(MSJ_ERROR_INVALID_ARGUMENT,
              "stream is {}, which is no live CUDA stream ({}); accepted are a CUstream, "
              "0, 1 and 2",
              stream, driver.describe(result));
}

// The caller's mistake, as opposed to a failure of the device.
bool blames_stream(CUresult result) {
  return result == CUDA_ERROR_INVALID_HANDLE || result == CUDA_ERROR_INVALID_VALUE ||
         result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUcontext context_of_stream(const Driver &driver, PrimaryContexts &primary, void *stream, int device) {
  CUcontext context = nullptr;
  if (!is_default_stream(stream)) {
    const CUresult result = driver.StreamGetCtx(static_cast<CUstream>(stream), &context);
    if (blames_stream(result)) throw_no_stream(driver, stream, result);
    driver.check(result, "cuStreamGetCtx");
    return context;
  }
  driver.check(driver.CtxGetCurrent(&context), "cuCtxGetCurrent");
  return context != nullptr ? context : primary.of(device);
}

CUdevice device_of_context(const Driver &driver, CUcontext context) {
  const ContextGuard guard(driver, context);
  CUdevice device = 0;
  driver.check(driver.CtxGetDevice(&device), "cuCtxGetDevice");
  return device;
}

}  // namespace

ContextGuard::ContextGuard(const Driver &driver, CUcontext context) : driver_(driver) {
  CUcontext current = nullptr;
  driver_.check(driver_.CtxGetCurrent(&current), "cuCtxGetCurrent");
  if (current == context) return;
  driver_.check(driver_.CtxPushCurrent(context), "cuCtxPushCurrent");
  pushed_ = true;
}

ContextGuard::~ContextGuard() {
  if (!pushed_) return;
  CUcontext popped = nullptr;
  (void)driver_.CtxPopCurrent(&popped);
}

RelaxedCapture::RelaxedCapture(const Driver &driver) : driver_(driver) {
  driver_.check(driver_.ThreadExchangeStreamCaptureMode(&previous_), "cuThreadExchangeStreamCaptureMode");
}

RelaxedCapture::~RelaxedCapture() { (void)driver_.ThreadExchangeStreamCaptureMode(&previous_); }

PrimaryContexts::PrimaryContexts(std::shared_ptr<const Driver> driver)
    : driver_(std::move(driver)), contexts_(static_cast<std::size_t>(driver_->device_count())) {}

PrimaryContexts::~PrimaryContexts() {
  for (std::size_t ordinal = 0; ordinal < contexts_.size(); ++ordinal) {
    CUdevice device = 0;
    if (contexts_[ordinal].load() == nullptr) continue;
    if (driver_->DeviceGet(&device, static_cast<int>(ordinal)) != CUDA_SUCCESS) continue;
    (void)driver_->DevicePrimaryCtxRelease(device);
  }
}

CUcontext PrimaryContexts::of(int device) {
  const auto ordinal = static_cast<std::size_t>(device);
  if (ordinal < contexts_.size()) {
    if (CUcontext retained = contexts_[ordinal].load(std::memory_order_acquire)) return retained;
  }
  const CUdevice handle = device_of(*driver_, device);
  const std::scoped_lock lock(retain_mutex_);
  CUcontext context = contexts_[ordinal].load(std::memory_order_acquire);
  if (context == nullptr) {
    driver_->check(driver_->DevicePrimaryCtxRetain(&context, handle), "cuDevicePrimaryCtxRetain");
    contexts_[ordinal].store(context, std::memory_order_release);
  }
  return context;
}

CallContext context_of_call(const Driver &driver, PrimaryContexts &primary, void *stream, int device) {
  CallContext call;
  call.context = context_of_stream(driver, primary, stream, device);
  static_assert(sizeof(std::uint64_t) == sizeof(unsigned long long));
  unsigned long long id = 0;
  driver.check(driver.CtxGetId(call.context, &id), "cuCtxGetId");
  call.id = id;
  return call;
}

void require_device(const Driver &driver, CUcontext context, const void *stream, int device) {
  const CUdevice wanted = device_of(driver, device);
  const CUdevice actual = device_of_context(driver, context);
  if (actual == wanted) return;
  throw_error(MSJ_ERROR_INVALID_ARGUMENT,
              "stream {} is in a context of device {}, but device is {}; accepted is a "
              "stream of that device, or a default stream with a context of it current",
              stream, actual, device);
}

bool is_capturing(const Driver &driver, void *stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = driver.StreamIsCapturing(static_cast<CUstream>(stream), &status);
  // The legacy stream, asked while a stream that synchronizes with it is captured.
  if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) return true;
  if (blames_stream(result)) throw_no_stream(driver, stream, result);
  driver.check(result, "cuStreamIsCapturing");
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace msj::cuda
