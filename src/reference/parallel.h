// A loop over independent items on several threads; what an item computes must not depend on the thread that does.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace msj::reference {

// Workers for `threads` (0: all cores), at most one an item, at least one.
[[nodiscard]] inline int worker_count(std::int64_t items, int threads) {
  const auto cores = static_cast<std::int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  return static_cast<int>(std::clamp<std::int64_t>(threads > 0 ? threads : cores, 1, std::max<std::int64_t>(items, 1)));
}

// body(item, worker) for every item below `items`; the calling thread is worker 0. The first exception of a body is
// thrown here after all have stopped. Where the system gives no further thread, fewer do the work.
template <typename Body>
void for_each_item(std::int64_t items, int workers, const Body &body) {
  std::atomic<std::int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&](int worker) {
    try {
      for (std::int64_t item = next++; item < items; item = next++) body(item, worker);
    } catch (...) {
      next = items;
      const std::scoped_lock lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(workers));
  try {
    for (int worker = 1; worker < workers; ++worker) threads.emplace_back(work, worker);
  } catch (const std::system_error &) {
  }
  work(0);
  for (std::thread &thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace msj::reference
