// The ceilings of a problem that this GPU shows by itself: a pure read of the bytes that the op streams (16-byte loads,
// the fastest of a few grids, nothing computed), and a launch that does nothing. Both with cold caches.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string_view>

#include "base/call.h"
#include "cuda/driver.h"
#include "tune/timer.h"

namespace msj::tune {

inline constexpr std::string_view kCeilingsSource = "ceilings.cu";

// The argument of its kernel pure_read.
struct ReadRanges {
  static constexpr std::size_t kMost = 4;
  static constexpr std::int64_t kWordBytes = 16;
  std::array<const void *, kMost> data{};
  std::array<long long, kMost> words{};
  void *sink = nullptr;
  [[nodiscard]] std::int64_t bytes() const {
    return kWordBytes * std::accumulate(words.begin(), words.end(), std::int64_t{0});
  }
};
// What a call streams; of an index (tokens N), as much as its documents are. `sink` is 4 bytes of device memory.
[[nodiscard]] ReadRanges ranges_of(const BoundCall &call, void *sink);

// `cubin` is kCeilingsSource compiled. Works in the current context, on scratch operands.
[[nodiscard]] Ceilings time_ceilings(const std::shared_ptr<const cuda::Driver> &driver, const SweepProblem &problem,
                                     std::string_view cubin);

}  // namespace msj::tune
