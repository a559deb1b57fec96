// The caller's floating-point environment neither gets in nor is seen to have been left.
#include "base/float_environment.h"

#include <doctest/doctest.h>

#include <limits>
#include <stdexcept>
#include <string>
#include <thread>

#include "support/float_environments.h"

using namespace msj;
using namespace msj::testing;

namespace {

// What rounding, flushing and traps decide: 1/3, and a subnormal.
struct Computed {
  double third = 0;
  double subnormal = 0;
  friend bool operator==(const Computed &, const Computed &) = default;
};

[[gnu::noinline]] Computed compute() {
  volatile double one = 1;
  volatile double least = std::numeric_limits<double>::min();
  return {-(one / 3), least / 4};
}

const Computed kExpected = {-(1.0 / 3), std::numeric_limits<double>::min() / 4};

}  // namespace

TEST_CASE("within it numbers are what they are by default, and afterwards nothing shows") {
  for (const FloatEnvironment &environment : kFloatEnvironments) {
    CAPTURE(std::string(environment.name));
    Computed here;
    Computed in_thread;
    const bool kept = keeps_environment(environment, [&] {
      const DefaultFloatEnvironment ours;
      here = compute();
      std::thread([&] { in_thread = compute(); }).join();
    });
    CHECK(here == kExpected);
    CHECK(in_thread == kExpected);
    CHECK(kept);
  }
}

TEST_CASE("an exception restores the caller's") {
  for (const FloatEnvironment &environment : kFloatEnvironments) {
    CAPTURE(std::string(environment.name));
    CHECK(keeps_environment(environment, [] {
      try {
        const DefaultFloatEnvironment ours;
        (void)compute();
        throw std::runtime_error("out");
      } catch (const std::runtime_error &) {
      }
    }));
  }
}
