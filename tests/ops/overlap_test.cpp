#include "ops/overlap.h"

#include <doctest/doctest.h>

#include <set>

using namespace msj::ops;

namespace {

// By the definition: every place is counted.
bool overlap_by_hand(const Extent &x, const Extent &y) {
  std::set<std::int64_t> places;
  for (std::int64_t a = 0; a < x.count; ++a) {
    for (std::int64_t b = 0; b < y.count; ++b) {
      if (!places.insert(a * x.stride + b * y.stride).second) return true;
    }
  }
  return false;
}

}  // namespace

TEST_CASE("overlap is what counting every place finds, for all small extents") {
  int found = 0;
  for (std::int64_t count_x = 1; count_x <= 5; ++count_x) {
    for (std::int64_t count_y = 1; count_y <= 5; ++count_y) {
      for (std::int64_t stride_x = -9; stride_x <= 9; ++stride_x) {
        for (std::int64_t stride_y = -9; stride_y <= 9; ++stride_y) {
          const Extent x{count_x, stride_x};
          const Extent y{count_y, stride_y};
          INFO("counts " << count_x << ", " << count_y << ", strides " << stride_x << ", " << stride_y);
          REQUIRE(overlap(x, y) == overlap_by_hand(x, y));
          found += overlap(x, y) ? 1 : 0;
        }
      }
    }
  }
  CHECK(found > 1000);
}
