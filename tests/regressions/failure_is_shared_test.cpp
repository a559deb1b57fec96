// Sixteen threads that wait for a kernel that does not compile made sixteen compiles, one after another.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/once_map.h"

using msj::OnceMap;

TEST_CASE("who waits for a value that fails gets its failure; who comes later tries again") {
  OnceMap<int> map;
  std::atomic<int> made{0};
  std::atomic<int> failed{0};
  std::atomic<int> started{0};
  const auto make = [&]() -> OnceMap<int>::Pointer {
    ++made;
    while (started < 16) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the others are waiting by now
    throw std::runtime_error("no");
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 16; ++i) {
      threads.emplace_back([&] {
        ++started;
        try {
          (void)map.get_or_make("key", make);
        } catch (const std::runtime_error &) {
          ++failed;
        }
      });
    }
  }
  CHECK(made == 1);
  CHECK(failed == 16);
  CHECK(map.find("key") == nullptr);
  CHECK(*map.get_or_make("key", [] { return std::make_shared<const int>(7); }) == 7);
}
