// A stand-in for libcuda on machines that have no GPU: what it is told, and what it remembers.
//
// The library under test opens fake_libcuda.so through MAXSIM_JIT_LIBCUDA (Settings::libcuda). A test opens the same
// file as FakeCuda, which is the same copy in the process, to set devices, captures and failures, and to read what was
// launched. Device memory is host memory; nothing is computed. What it does check, as a driver would: contexts that
// are current, streams that are alive and of that context, cubins that are cubins, kernels that are in them, grids,
// threads and shared memory within limits, and calls that a stream capture forbids.
//
// For other processes the environment sets the devices: FAKE_CUDA_DEVICES="NVIDIA H200:90:132:232448,…" (name, compute
// capability, SMs, shared bytes per block; "" for none) and FAKE_CUDA_DRIVER="12040".
#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace fake {

struct Launch {
  const char *entry;
  const void *image;  // the cubin, as it was loaded
  std::size_t image_bytes;
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  const void *parameters;  // a copy of the kernel's one parameter
  std::size_t parameter_bytes;
  CUstream stream;
  unsigned long long context_id;
  bool captured;
  bool overlaps;  // launched with programmatic dependence on the one before
};

// X(member, symbol, type)
#define FAKE_CUDA_CONTROLS(X)                                                                                         \
  /* Back to one H200, driver 13.0, nothing launched; every handle dies. Threads forget their current contexts. */    \
  X(reset, fake_cuda_reset, void())                                                                                   \
  X(set_driver_version, fake_cuda_set_driver_version, void(int))                                                      \
  X(clear_devices, fake_cuda_clear_devices, void())                                                                   \
  /* name, compute capability, SMs, shared bytes per block, memory bytes */                                           \
  X(add_device, fake_cuda_add_device, void(const char *, int, int, int, std::size_t))                                 \
  /* The next `count` calls of this symbol (all for -1) return `result`. */                                           \
  X(fail, fake_cuda_fail, void(const char *symbol, CUresult result, int count))                                       \
  X(calls, fake_cuda_calls, std::size_t(const char *symbol))         /* since reset, failed ones too */               \
  X(create_context, fake_cuda_create_context, CUcontext(int device)) /* not made current */                           \
  X(destroy_context, fake_cuda_destroy_context, void(CUcontext))                                                      \
  X(create_stream, fake_cuda_create_stream, CUstream(CUcontext, unsigned flags))                                      \
  X(set_capture, fake_cuda_set_capture, void(CUstream, CUstreamCaptureStatus))                                        \
  X(stack_depth, fake_cuda_stack_depth, std::size_t())                   /* of this thread's context stack */         \
  X(primary_references, fake_cuda_primary_references, int(int device))   /* retained and not released */              \
  X(live_handles, fake_cuda_live_handles, std::size_t(const char *kind)) /* "buffer", "stream", "event", "library" */ \
  /* How far each later launch moves the clock that events read; 1 ms after reset. */                                 \
  X(set_launch_ms, fake_cuda_set_launch_ms, void(double))                                                             \
  X(set_pageable_access, fake_cuda_set_pageable_access, void(bool)) /* kernels reach all host memory */               \
  X(launch_count, fake_cuda_launch_count, std::size_t())                                                              \
  X(launch, fake_cuda_launch, bool(std::size_t index, Launch *)) /* its pointers last until reset */

class FakeCuda {
 public:
  explicit FakeCuda(const std::string &path) : path_(path), handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw std::runtime_error(dlerror());
#define FAKE_CUDA_RESOLVE(member, symbol, ...) member = reinterpret_cast<decltype(member)>(dlsym(handle_, #symbol));
    FAKE_CUDA_CONTROLS(FAKE_CUDA_RESOLVE)
#undef FAKE_CUDA_RESOLVE
    reset();
  }
  ~FakeCuda() { reset(); }  // the library stays open: threads may hold its thread-local state
  FakeCuda(const FakeCuda &) = delete;
  FakeCuda &operator=(const FakeCuda &) = delete;

#define FAKE_CUDA_MEMBER(member, symbol, ...) std::add_pointer_t<__VA_ARGS__> member = nullptr;
  FAKE_CUDA_CONTROLS(FAKE_CUDA_MEMBER)
#undef FAKE_CUDA_MEMBER

  [[nodiscard]] const std::string &path() const { return path_; }
  // Any driver function, called as the caller's program would.
  template <typename Function>
  [[nodiscard]] Function symbol(const char *name) const {
    return reinterpret_cast<Function>(dlsym(handle_, name));
  }
  [[nodiscard]] std::vector<Launch> launches() const {
    std::vector<Launch> all(launch_count());
    for (std::size_t i = 0; i < all.size(); ++i) launch(i, &all[i]);
    return all;
  }

 private:
  std::string path_;
  void *handle_;
};

}  // namespace fake
