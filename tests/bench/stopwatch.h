// Times one launch with a cold L2: the cache is filled with other data before each, and the whole run is queued before
// it is waited for, so that the host's speed is not timed.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include "cuda/buffer.h"
#include "gpu/gpu.h"
#include "gpu/streams.h"
#include "tune/rounds.h"

namespace msj::bench {

struct Measured {
  double median_ms = 0;
  double deviation = 0;  // median absolute deviation / median
  int rounds = 0;
};

class Stopwatch {
 public:
  explicit Stopwatch(int rounds);
  // `launch` queues its work on the stream that it is given.
  [[nodiscard]] Measured time(const std::function<void(CUstream)> &launch);
  [[nodiscard]] CUstream stream() const { return stream_.get(); }

 private:
  static constexpr int kWarmUps = 20;
  static constexpr std::int64_t kLeastFlush = std::int64_t{64} << 20;

  int rounds_;
  gpu::TestStream stream_;
  gpu::DeviceBytes flush_;
  std::vector<std::unique_ptr<cuda::Event>> starts_;
  std::vector<std::unique_ptr<cuda::Event>> stops_;
};

inline Stopwatch::Stopwatch(int rounds)
    : rounds_(rounds),
      flush_(static_cast<std::size_t>(std::max(2 * gpu::Gpu::get().info().limits.l2_bytes, kLeastFlush))) {
  const gpu::Current current;
  for (int i = 0; i < rounds + kWarmUps; ++i) {
    starts_.push_back(std::make_unique<cuda::Event>(gpu::Gpu::get().shared_driver()));
    stops_.push_back(std::make_unique<cuda::Event>(gpu::Gpu::get().shared_driver()));
  }
}

inline Measured Stopwatch::time(const std::function<void(CUstream)> &launch) {
  const gpu::Gpu &gpu = gpu::Gpu::get();
  const cuda::Driver &driver = gpu.driver();
  const gpu::Current current;
  for (std::size_t i = 0; i < starts_.size(); ++i) {
    gpu.check(driver.MemsetD8Async(reinterpret_cast<CUdeviceptr>(flush_.get()), 0, flush_.bytes(), stream()),
              "cuMemsetD8Async");
    gpu.check(driver.EventRecord(starts_[i]->get(), stream()), "cuEventRecord");
    launch(stream());
    gpu.check(driver.EventRecord(stops_[i]->get(), stream()), "cuEventRecord");
  }
  gpu.check(driver.StreamSynchronize(stream()), "cuStreamSynchronize");
  std::vector<double> times;
  for (std::size_t i = kWarmUps; i < starts_.size(); ++i) {
    float milliseconds = 0;
    gpu.check(driver.EventElapsedTime(&milliseconds, starts_[i]->get(), stops_[i]->get()), "cuEventElapsedTime");
    times.push_back(milliseconds);
  }
  Measured measured{tune::median(times), 0, rounds_};
  for (double &time : times) time = std::abs(time - measured.median_ms);
  if (measured.median_ms > 0) measured.deviation = tune::median(times) / measured.median_ms;
  return measured;
}

}  // namespace msj::bench
