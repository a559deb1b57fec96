// The GPU under test, as tests see it: the driver, the primary context of device 0, the kernels of oracle.cu, and the
// few driver functions that the library itself has no use for. Made on first use, once per process.
//
// Nothing here leaves a CUDA context current, because tests look at which one is.
#pragma once

#include <cuda.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/counters.h"
#include "base/settings.h"
#include "cuda/current_context.h"
#include "cuda/device.h"
#include "cuda/driver.h"
#include "cuda/module.h"
#include "cuda/nvrtc.h"
#include "jit/source.h"
#include "maxsim_jit/maxsim_jit.h"
#include "support/scratch.h"

namespace msj::gpu {

// X(member, symbol, type): captures, graphs, contexts of one's own and pinned memory, under their versioned names.
#define MSJ_TEST_DRIVER_FUNCTIONS(X)                                                                     \
  X(CtxCreate, cuCtxCreate_v2, CUresult(CUcontext *, unsigned, CUdevice))                                \
  X(CtxDestroy, cuCtxDestroy_v2, CUresult(CUcontext))                                                    \
  X(StreamBeginCapture, cuStreamBeginCapture_v2, CUresult(CUstream, CUstreamCaptureMode))                \
  X(StreamEndCapture, cuStreamEndCapture, CUresult(CUstream, CUgraph *))                                 \
  X(GraphInstantiate, cuGraphInstantiateWithFlags, CUresult(CUgraphExec *, CUgraph, unsigned long long)) \
  X(GraphLaunch, cuGraphLaunch, CUresult(CUgraphExec, CUstream))                                         \
  X(GraphExecDestroy, cuGraphExecDestroy, CUresult(CUgraphExec))                                         \
  X(GraphDestroy, cuGraphDestroy, CUresult(CUgraph))                                                     \
  X(MemHostAlloc, cuMemHostAlloc, CUresult(void **, std::size_t, unsigned))                              \
  X(MemFreeHost, cuMemFreeHost, CUresult(void *))

[[nodiscard]] inline Settings test_settings() { return read_settings(secure_environment, "/nonexistent", "off"); }

// Kernels of the tests' own: files of tests/, compiled together by NVRTC on first use; in the primary context.
class Kernels {
 public:
  explicit Kernels(std::vector<std::string> files) : files_(std::move(files)) {}

  template <typename... Parameters>
  void launch(CUstream stream, const char *kernel, std::int64_t grid, int threads, const Parameters &...parameters) {
    void *pointers[] = {const_cast<void *>(static_cast<const void *>(&parameters))..., nullptr};
    launch_raw(stream, kernel, grid, threads, 0, pointers);
  }
  template <typename... Parameters>
  void launch_with(int shared_bytes, CUstream stream, const char *kernel, std::int64_t grid, int threads,
                   const Parameters &...parameters) {
    void *pointers[] = {const_cast<void *>(static_cast<const void *>(&parameters))..., nullptr};
    launch_raw(stream, kernel, grid, threads, shared_bytes, pointers);
  }

 private:
  void launch_raw(CUstream stream, const char *kernel, std::int64_t grid, int threads, int shared_bytes,
                  void **parameters);
  [[nodiscard]] CUfunction function(const std::string &kernel, int shared_bytes);

  std::vector<std::string> files_;
  std::mutex mutex_;
  std::unique_ptr<cuda::Module> module_;
  std::map<std::string, CUfunction> functions_;
};

class Gpu {
 public:
  // Throws what the library's own look for a driver and a device throws.
  [[nodiscard]] static Gpu &get();
  // "" if there is a GPU, else one sentence why not.
  [[nodiscard]] static std::string absence();

  [[nodiscard]] const cuda::Driver &driver() const { return *driver_; }
  [[nodiscard]] const std::shared_ptr<const cuda::Driver> &shared_driver() const { return driver_; }
  [[nodiscard]] CUcontext primary() const { return primary_; }
  [[nodiscard]] const cuda::DeviceInfo &info() const { return info_; }
  void check(CUresult result, const char *what) const { driver_->check(result, what); }
  void synchronize(CUcontext context = nullptr) const;  // all work in a context; null: the primary one

  // A kernel of oracle.cu, on the legacy default stream.
  template <typename... Parameters>
  void launch(const char *kernel, std::int64_t grid, int threads, const Parameters &...parameters) {
    oracle_.launch(nullptr, kernel, grid, threads, parameters...);
  }

#define MSJ_TEST_MEMBER(member, symbol, ...) std::add_pointer_t<__VA_ARGS__> member = nullptr;
  MSJ_TEST_DRIVER_FUNCTIONS(MSJ_TEST_MEMBER)
#undef MSJ_TEST_MEMBER

 private:
  Gpu();
  void resolve();

  std::shared_ptr<const cuda::Driver> driver_;
  CUcontext primary_ = nullptr;
  cuda::DeviceInfo info_;
  Kernels oracle_{{"gpu/oracle_task.h", "gpu/oracle.cu"}};
};

// Makes a context current within a scope: the primary one, or another.
class Current {
 public:
  explicit Current(CUcontext context = Gpu::get().primary()) : guard_(Gpu::get().driver(), context) {}

 private:
  cuda::ContextGuard guard_;
};

// Device memory in a context (null: the primary one). 256-byte aligned, at least; `bytes` may be 0.
class DeviceBytes {
 public:
  explicit DeviceBytes(std::size_t bytes, CUcontext context = nullptr);
  ~DeviceBytes();
  DeviceBytes(DeviceBytes &&other) noexcept;
  DeviceBytes &operator=(DeviceBytes &&) = delete;

  [[nodiscard]] char *get() const { return reinterpret_cast<char *>(pointer_); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  void fill(unsigned char byte) const;
  void upload(const void *from) const;
  void download(void *to) const;

 private:
  CUcontext context_;
  CUdeviceptr pointer_ = 0;
  std::size_t bytes_;
};

// Grid of a kernel with one thread an element.
[[nodiscard]] inline std::int64_t blocks_of(std::int64_t elements, int threads = 256) {
  return (elements + threads - 1) / threads;
}
// Grid of a kernel whose threads stride over the elements.
[[nodiscard]] inline std::int64_t striding_blocks(std::int64_t elements) {
  return std::min<std::int64_t>(blocks_of(elements), 8192);
}

// ---- the GPU --------------------------------------------------------------------------------------------------------

inline Gpu &Gpu::get() {
  static Gpu *gpu = new Gpu;  // never destroyed: the driver may be gone when static destructors run
  return *gpu;
}

inline std::string Gpu::absence() {
  try {
    (void)get();
    return {};
  } catch (const std::exception &error) {
    return error.what();
  }
}

inline Gpu::Gpu() : driver_(cuda::Driver::load(test_settings())), info_(cuda::query_device(*driver_, 0)) {
  CUdevice device = 0;
  check(driver_->DeviceGet(&device, 0), "cuDeviceGet");
  check(driver_->DevicePrimaryCtxRetain(&primary_, device), "cuDevicePrimaryCtxRetain");
  resolve();
}

inline void Gpu::resolve() {
  void *library = dlopen(driver_->opened_as().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
#define MSJ_TEST_RESOLVE(member, symbol, ...)                           \
  member = reinterpret_cast<decltype(member)>(dlsym(library, #symbol)); \
  if (member == nullptr) throw std::runtime_error("the driver lacks " #symbol);
  MSJ_TEST_DRIVER_FUNCTIONS(MSJ_TEST_RESOLVE)
#undef MSJ_TEST_RESOLVE
}

inline void Gpu::synchronize(CUcontext context) const {
  const Current current(context == nullptr ? primary_ : context);
  check(driver_->CtxSynchronize(), "cuCtxSynchronize");
}

// ---- kernels --------------------------------------------------------------------------------------------------------

inline CUfunction Kernels::function(const std::string &kernel, int shared_bytes) {
  const std::scoped_lock lock(mutex_);
  if (!module_) {
    std::string source;
    for (const std::string &file : files_) {
      const std::filesystem::path path = MSJ_SOURCE_DIR "/tests/" + file;
      source += jit::KernelSources(path.parent_path()).expanded(path.filename());
    }
    Counters counters;
    const auto nvrtc = cuda::Nvrtc::load(test_settings());
    const auto compiled =
        nvrtc->compile(source, files_.back(), Gpu::get().info().architecture, {"--std=c++17"}, counters);
    module_ = std::make_unique<cuda::Module>(Gpu::get().shared_driver(), compiled.cubin);
  }
  CUfunction &function = functions_[kernel];
  if (function == nullptr) function = module_->function(kernel, shared_bytes);
  return function;
}

inline void Kernels::launch_raw(CUstream stream, const char *kernel, std::int64_t grid, int threads, int shared_bytes,
                                void **parameters) {
  if (grid == 0) return;
  if (grid > 0x7fffffff) throw std::runtime_error(fmt::format("{} has a grid of {} blocks", kernel, grid));
  const Gpu &gpu = Gpu::get();
  const Current current(gpu.primary());
  gpu.check(gpu.driver().LaunchKernel(function(kernel, shared_bytes), static_cast<unsigned>(grid), 1, 1,
                                      static_cast<unsigned>(threads), 1, 1, static_cast<unsigned>(shared_bytes), stream,
                                      parameters, nullptr),
            kernel);
}

// ---- device memory --------------------------------------------------------------------------------------------------

inline DeviceBytes::DeviceBytes(std::size_t bytes, CUcontext context)
    : context_(context == nullptr ? Gpu::get().primary() : context), bytes_(bytes) {
  if (bytes == 0) return;
  const Current current(context_);
  Gpu::get().check(Gpu::get().driver().MemAlloc(&pointer_, bytes), "cuMemAlloc");
}

inline DeviceBytes::DeviceBytes(DeviceBytes &&other) noexcept
    : context_(other.context_), pointer_(std::exchange(other.pointer_, 0)), bytes_(std::exchange(other.bytes_, 0)) {}

inline DeviceBytes::~DeviceBytes() {
  if (pointer_ == 0) return;
  const cuda::Driver &driver = Gpu::get().driver();
  CUcontext popped = nullptr;
  if (driver.CtxPushCurrent(context_) != CUDA_SUCCESS) return;  // destroyed, and its memory with it
  (void)driver.MemFree(pointer_);
  (void)driver.CtxPopCurrent(&popped);
}

inline void DeviceBytes::fill(unsigned char byte) const {
  if (bytes_ == 0) return;
  const Current current(context_);
  Gpu::get().check(Gpu::get().driver().MemsetD8Async(pointer_, byte, bytes_, nullptr), "cuMemsetD8Async");
}

inline void DeviceBytes::upload(const void *from) const {
  if (bytes_ == 0) return;
  const Current current(context_);
  Gpu::get().check(Gpu::get().driver().MemcpyHtoD(pointer_, from, bytes_), "cuMemcpyHtoD");
}

inline void DeviceBytes::download(void *to) const {
  if (bytes_ == 0) return;
  const Current current(context_);
  Gpu::get().check(Gpu::get().driver().CtxSynchronize(), "cuCtxSynchronize");
  Gpu::get().check(Gpu::get().driver().MemcpyDtoH(to, pointer_, bytes_), "cuMemcpyDtoH");
}

// ---- running --------------------------------------------------------------------------------------------------------

// Test sizes: all of them, or a fraction (MSJ_GPU_QUICK=1).
[[nodiscard]] inline bool is_quick() {
  const char *text = std::getenv("MSJ_GPU_QUICK");
  return text != nullptr && std::string(text) == "1";
}

// MSJ_GPU_SEED, else a constant.
[[nodiscard]] inline std::uint64_t test_seed() {
  const char *text = std::getenv("MSJ_GPU_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 0) : 20'240'611;
}

// Runs `body(i)` for i below `count` on all cores; throws the first of what it threw.
inline void in_parallel(std::size_t count, const std::function<void(std::size_t)> &body) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        body(i);
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (!failure) failure = std::current_exception();
        next = count;
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
    for (std::size_t i = 0; i < std::min(cores, count); ++i) threads.emplace_back(work);
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace msj::gpu
