// The library's own time in a call: from msj_run to the driver's cuLaunchKernel, by a clock read there.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "api/context.h"
#include "maxsim_jit/maxsim_jit.h"

namespace msj::testing {

// While this lives, the context's driver notes when cuLaunchKernel is entered. One at a time, for one thread.
class OwnTime {
 public:
  explicit OwnTime(msj_context &context) : driver_(const_cast<cuda::Driver &>(*context.pipeline.driver())) {
    real = std::exchange(driver_.LaunchKernel, noted);
  }
  ~OwnTime() { driver_.LaunchKernel = real; }
  OwnTime(const OwnTime &) = delete;
  OwnTime &operator=(const OwnTime &) = delete;

  // Microseconds of one call: the median over batches of their means. `next(i)` makes the call, untimed; `wait()`
  // empties the queue of launches between batches, untimed too.
  template <typename Next, typename Wait>
  [[nodiscard]] static double microseconds(msj_context *context, int calls, const Next &next, const Wait &wait) {
    constexpr int kBatch = 200;
    std::vector<double> means;
    for (int done = 0; done < calls; done += kBatch) {
      std::chrono::duration<double, std::micro> spent{0};
      for (int i = 0; i < kBatch; ++i) {
        const msj_call *call = next(done + i);
        const auto start = Clock::now();
        if (msj_run(context, call) != MSJ_OK) throw std::runtime_error(msj_last_error());
        spent += entered - start;
      }
      wait();
      means.push_back(spent.count() / kBatch);
    }
    std::nth_element(means.begin(), means.begin() + static_cast<std::ptrdiff_t>(means.size() / 2), means.end());
    return means[means.size() / 2];
  }

 private:
  using Clock = std::chrono::steady_clock;

  static CUresult noted(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned threads_x, unsigned threads_y,
                        unsigned threads_z, unsigned shared_bytes, CUstream stream, void **arguments, void **extra) {
    entered = Clock::now();
    return real(function, x, y, z, threads_x, threads_y, threads_z, shared_bytes, stream, arguments, extra);
  }

  static inline Clock::time_point entered;
  static inline decltype(&::cuLaunchKernel) real = nullptr;
  cuda::Driver &driver_;
};

}  // namespace msj::testing
