#include "base/once_map.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

namespace msj {

TEST_CASE("one creator per key, however many ask at once") {
  OnceMap<int> map;
  std::atomic<int> made{0};
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 16; ++t) {
      threads.emplace_back([&] {
        const auto value = map.get_or_make("key", [&] {
          ++made;
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          return std::make_shared<const int>(7);
        });
        if (!value || *value != 7) ++wrong;
      });
    }
  }
  CHECK(made == 1);
  CHECK(wrong == 0);
}

TEST_CASE("a maker of one key may ask for another: nothing is locked meanwhile") {
  OnceMap<int> map;
  const auto outer = map.get_or_make("outer", [&] {
    return std::make_shared<const int>(1 + *map.get_or_make("inner", [] { return std::make_shared<const int>(1); }));
  });
  CHECK(*outer == 2);
}

TEST_CASE("a maker that throws leaves no value, and the next one is asked") {
  OnceMap<int> map;
  CHECK_THROWS_AS((void)map.get_or_make("key", []() -> OnceMap<int>::Pointer { throw std::runtime_error("no"); }),
                  std::runtime_error);
  CHECK(map.find("key") == nullptr);
  CHECK(*map.get_or_make("key", [] { return std::make_shared<const int>(3); }) == 3);
  CHECK(*map.find("key") == 3);
  map.erase("key");
  CHECK(map.find("key") == nullptr);
}

}  // namespace msj
