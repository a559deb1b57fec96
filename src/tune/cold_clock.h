// Times launches with a cold L2: the cache is filled with other data before each, and a whole round is queued before it
// is waited for, so that the host's speed is not timed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cuda/buffer.h"
#include "cuda/driver.h"

namespace msj::tune {

class ColdClock {
 public:
  // Allocates in the current context, in which it is used and destroyed.
  ColdClock(std::shared_ptr<const cuda::Driver> driver, const cuda::Stream &stream, std::int64_t l2_bytes);

  // `launch(i)` queues work i on the stream; milliseconds of each of `order`, in that order.
  [[nodiscard]] std::vector<double> round(std::span<const std::size_t> order,
                                          const std::function<void(std::size_t)> &launch);

 private:
  struct Events {
    explicit Events(const std::shared_ptr<const cuda::Driver> &driver) : start(driver), stop(driver) {}
    cuda::Event start;
    cuda::Event stop;
  };

  std::shared_ptr<const cuda::Driver> driver_;
  const cuda::Stream &stream_;
  cuda::Buffer flush_;
  std::vector<std::unique_ptr<Events>> events_;  // as many as the longest round so far had
};

}  // namespace msj::tune
