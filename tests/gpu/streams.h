// Streams, captures and contexts of a program that uses the library, each released at the end of its scope.
#pragma once

#include <memory>
#include <utility>

#include "cuda/buffer.h"
#include "gpu/gpu.h"

namespace msj::gpu {

// A non-blocking stream in a context.
class TestStream {
 public:
  explicit TestStream(CUcontext context = Gpu::get().primary()) : context_(context) {
    const Current current(context_);
    stream_ = std::make_unique<cuda::Stream>(Gpu::get().shared_driver());
  }
  ~TestStream() {
    const Current current(context_);
    stream_.reset();
  }
  TestStream(const TestStream &) = delete;
  TestStream &operator=(const TestStream &) = delete;

  [[nodiscard]] CUstream get() const { return stream_->get(); }
  void synchronize() const {
    const Current current(context_);
    Gpu::get().check(Gpu::get().driver().StreamSynchronize(get()), "cuStreamSynchronize");
  }

 private:
  CUcontext context_;
  std::unique_ptr<cuda::Stream> stream_;
};

// What was captured on a stream, ready to be launched.
class Graph {
 public:
  explicit Graph(CUgraph graph) : graph_(graph) {
    Gpu::get().check(Gpu::get().GraphInstantiate(&executable_, graph_, 0), "cuGraphInstantiateWithFlags");
  }
  Graph(Graph &&other) noexcept
      : graph_(std::exchange(other.graph_, nullptr)), executable_(std::exchange(other.executable_, nullptr)) {}
  Graph &operator=(Graph &&) = delete;
  ~Graph() {
    if (executable_ != nullptr) (void)Gpu::get().GraphExecDestroy(executable_);
    if (graph_ != nullptr) (void)Gpu::get().GraphDestroy(graph_);
  }
  void launch(const TestStream &stream) const {
    const Current current;
    Gpu::get().check(Gpu::get().GraphLaunch(executable_, stream.get()), "cuGraphLaunch");
    stream.synchronize();
  }

 private:
  CUgraph graph_;
  CUgraphExec executable_ = nullptr;
};

inline void begin_capture(const TestStream &stream, CUstreamCaptureMode mode) {
  const Current current;
  Gpu::get().check(Gpu::get().StreamBeginCapture(stream.get(), mode), "cuStreamBeginCapture");
}

// Throws if the capture was spoilt.
[[nodiscard]] inline Graph end_capture(const TestStream &stream) {
  const Current current;
  CUgraph graph = nullptr;
  Gpu::get().check(Gpu::get().StreamEndCapture(stream.get(), &graph), "cuStreamEndCapture");
  return Graph(graph);
}

// A CUDA context that is not the device's primary one; current nowhere.
class OwnContext {
 public:
  OwnContext() {
    CUdevice device = 0;
    CUcontext popped = nullptr;
    Gpu::get().check(Gpu::get().driver().DeviceGet(&device, 0), "cuDeviceGet");
    Gpu::get().check(Gpu::get().CtxCreate(&context_, 0, device), "cuCtxCreate");
    Gpu::get().check(Gpu::get().driver().CtxPopCurrent(&popped), "cuCtxPopCurrent");
  }
  ~OwnContext() { (void)Gpu::get().CtxDestroy(context_); }
  OwnContext(const OwnContext &) = delete;
  OwnContext &operator=(const OwnContext &) = delete;
  [[nodiscard]] CUcontext get() const { return context_; }

 private:
  CUcontext context_ = nullptr;
};

[[nodiscard]] inline CUcontext current_context() {
  CUcontext context = nullptr;
  Gpu::get().check(Gpu::get().driver().CtxGetCurrent(&context), "cuCtxGetCurrent");
  return context;
}

}  // namespace msj::gpu
