// The real timer: CUDA events around each launch, cold L2, interleaved rounds, median; seeded random scratch inputs and
// scratch results of its own. Layout class `any` is timed on inputs offset by one element.
#pragma once

#include <memory>

#include "base/log.h"
#include "cuda/driver.h"
#include "tune/timer.h"

namespace msj::tune {

class EventTimer : public Timer {
 public:
  EventTimer(std::shared_ptr<const cuda::Driver> driver, Log &log) : driver_(std::move(driver)), log_(log) {}
  [[nodiscard]] std::vector<Timing> time(const SweepProblem &problem, std::span<const Trial> trials) override;
  [[nodiscard]] Ceilings ceilings(const SweepProblem &problem, std::string_view cubin) override;

 private:
  std::shared_ptr<const cuda::Driver> driver_;
  Log &log_;
};

}  // namespace msj::tune
