// The ceilings of a problem that this GPU shows by itself: a pure read of the bytes that the op streams (by 16-byte
// loads and by bulk copies into shared memory, each at the best of a few grids, nothing computed), and a launch that
// does nothing. All with cold caches.
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

// A kernel of that source and how it is launched.
struct CeilingLaunch {
  const char *entry = nullptr;
  int blocks_per_sm = 0;
  int threads = 0;
  int shared_bytes = 0;
};
inline constexpr CeilingLaunch kEmptyLaunch = {"empty_launch", 1, 128};
inline constexpr std::array<CeilingLaunch, 4> kLoads = {
    {{"pure_read", 2, 512}, {"pure_read", 4, 512}, {"pure_read", 8, 256}, {"pure_read", 4, 256}}};
inline constexpr int kRingBytes = 4 * 16 * 1024;  // of the kernel's stages
inline constexpr std::array<CeilingLaunch, 3> kBulkCopies = {{{"pure_bulk_read", 1, 32, kRingBytes},
                                                              {"pure_bulk_read", 2, 32, kRingBytes},
                                                              {"pure_bulk_read", 3, 32, kRingBytes}}};
inline constexpr int kBulkCapability = 90;  // the first that has bulk copies

// The argument of the kernels that read.
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
// What a call streams; of an index (tokens N), as much as its documents are, each of them Ld tokens. `sink` is 4 bytes
// of device memory.
[[nodiscard]] ReadRanges ranges_of(const BoundCall &call, void *sink);

// `cubin` is kCeilingsSource compiled. Works in the current context, on scratch operands.
[[nodiscard]] Ceilings time_ceilings(const std::shared_ptr<const cuda::Driver> &driver, const SweepProblem &problem,
                                     std::string_view cubin);

}  // namespace msj::tune
