// CUDA contexts: which one a call runs in, and making it current without changing what the caller sees.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/driver.h"

namespace msj::cuda {

// Makes `context` current on this thread until destroyed, then restores what was there. Where it is current already,
// nothing is pushed.
class ContextGuard {
 public:
  ContextGuard(const Driver &driver, CUcontext context);
  ~ContextGuard();
  ContextGuard(const ContextGuard &) = delete;
  ContextGuard &operator=(const ContextGuard &) = delete;

 private:
  const Driver &driver_;
  bool pushed_ = false;
};

// While alive, this thread's allocations and loads neither break nor join a stream capture elsewhere.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver &driver);
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture &) = delete;
  RelaxedCapture &operator=(const RelaxedCapture &) = delete;

 private:
  const Driver &driver_;
  CUstreamCaptureMode previous_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

// The primary contexts that this library retained, released with it.
class PrimaryContexts {
 public:
  explicit PrimaryContexts(std::shared_ptr<const Driver> driver);
  ~PrimaryContexts();
  PrimaryContexts(const PrimaryContexts &) = delete;
  PrimaryContexts &operator=(const PrimaryContexts &) = delete;
  [[nodiscard]] CUcontext of(int device);

 private:
  std::shared_ptr<const Driver> driver_;
  std::mutex retain_mutex_;
  std::vector<std::atomic<CUcontext>> contexts_;  // by ordinal; read without the lock
};

struct CallContext {
  CUcontext context = nullptr;
  std::uint64_t id = 0;  // unique in the process, never reused (cuCtxGetId)
};

// The stream's context; for the default streams (0, 1, 2) the current one; with none current, the primary of `device`.
// Whether it is that device's is asked by require_device: once for each context, not on every launch.
[[nodiscard]] CallContext context_of_call(const Driver &driver, PrimaryContexts &primary, void *stream, int device);

// Throws Error(MSJ_ERROR_INVALID_ARGUMENT) if `context`, the one of `stream`, belongs to another device than `device`,
// or if that is none.
void require_device(const Driver &driver, CUcontext context, const void *stream, int device);

// True if work on `stream` would be captured, or would break a capture that is under way.
[[nodiscard]] bool is_capturing(const Driver &driver, void *stream);

}  // namespace msj::cuda
