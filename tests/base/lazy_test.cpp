#include "base/lazy.h"

#include <doctest/doctest.h>

#include <stdexcept>

namespace msj {

TEST_CASE("made on first use, once; a failure is tried again; peek never makes it") {
  int attempts = 0;
  Lazy<int> lazy([&]() -> std::shared_ptr<const int> {
    if (++attempts == 1) throw std::runtime_error("not yet");
    return std::make_shared<const int>(5);
  });
  CHECK(lazy.peek() == nullptr);
  CHECK(attempts == 0);
  CHECK_THROWS_AS((void)lazy.get(), std::runtime_error);
  CHECK(*lazy.get() == 5);
  CHECK(*lazy.get() == 5);
  CHECK(*lazy.peek() == 5);
  CHECK(attempts == 2);
}

}  // namespace msj
