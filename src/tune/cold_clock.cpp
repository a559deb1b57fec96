#include "tune/cold_clock.h"

#include <algorithm>

namespace msj::tune {

namespace {

constexpr std::int64_t kLeastFlushBytes = std::int64_t{64} << 20;

}  // namespace

ColdClock::ColdClock(std::shared_ptr<const cuda::Driver> driver, const cuda::Stream &stream, std::int64_t l2_bytes)
    : driver_(std::move(driver)),
      stream_(stream),
      flush_(driver_, static_cast<std::size_t>(std::max(2 * l2_bytes, kLeastFlushBytes))) {}

std::vector<double> ColdClock::round(std::span<const std::size_t> order,
                                     const std::function<void(std::size_t)> &launch) {
  while (events_.size() < order.size()) events_.push_back(std::make_unique<Events>(driver_));
  for (std::size_t i = 0; i < order.size(); ++i) {
    driver_->check(driver_->MemsetD8Async(flush_.get(), 0, flush_.bytes(), stream_.get()), "cuMemsetD8Async");
    driver_->check(driver_->EventRecord(events_[i]->start.get(), stream_.get()), "cuEventRecord");
    launch(order[i]);
    driver_->check(driver_->EventRecord(events_[i]->stop.get(), stream_.get()), "cuEventRecord");
  }
  driver_->check(driver_->StreamSynchronize(stream_.get()), "a round of timed launches");
  std::vector<double> times;
  for (std::size_t i = 0; i < order.size(); ++i) {
    float milliseconds = 0;
    driver_->check(driver_->EventElapsedTime(&milliseconds, events_[i]->start.get(), events_[i]->stop.get()),
                   "cuEventElapsedTime");
    times.push_back(milliseconds);
  }
  return times;
}

}  // namespace msj::tune
