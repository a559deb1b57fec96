// Work on numbered pieces by several threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace msj::cli {

[[nodiscard]] inline int hardware_threads() {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// body(i) once for each i in [0, count), on at most `threads` threads, in no order. After an exception no new piece is
// started; the first one is thrown here, when all threads have ended.
template <typename Body>
void parallel_for(std::int64_t count, int threads, const Body &body) {
  std::atomic<std::int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr first;
  const auto work = [&] {
    for (std::int64_t i = next++; i < count; i = next++) {
      try {
        body(i);
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (!first) first = std::current_exception();
        next = count;
      }
    }
  };
  {
    std::vector<std::jthread> pool;
    const std::int64_t others = std::min<std::int64_t>(count, threads) - 1;
    try {
      for (std::int64_t i = 0; i < others; ++i) pool.emplace_back(work);
    } catch (const std::system_error &) {
      // No more threads to be had: those that are there do the work.
    }
    work();
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace msj::cli
