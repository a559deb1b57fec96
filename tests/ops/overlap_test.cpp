#include "ops/overlap.h"

#include <doctest/doctest.h>

#include <set>
#include <utility>

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

TEST_CASE("two tensors share bytes where that is certain, and are apart where one may lie in the other's gaps") {
  const Span dense{100, 200, true};
  const Span gappy{100, 200, false};
  for (const Span &x : {dense, gappy}) {
    for (const bool y_is_dense : {false, true}) {
      for (const auto &[begin, end] : {std::pair(0U, 100U), std::pair(200U, 300U), std::pair(0U, 0U)}) {
        CHECK_FALSE(share_bytes(x, {begin, end, y_is_dense}));
        CHECK_FALSE(share_bytes({begin, end, y_is_dense}, x));
      }
      for (const auto &[begin, end] : {std::pair(100U, 101U), std::pair(199U, 200U), std::pair(100U, 200U)}) {
        CHECK(share_bytes(x, {begin, end, y_is_dense}));
        CHECK(share_bytes({begin, end, y_is_dense}, x));
      }
      const bool certain = x.is_dense || y_is_dense;
      CHECK(share_bytes(x, {50, 150, y_is_dense}) == certain);
      CHECK(share_bytes(x, {150, 250, y_is_dense}) == certain);
      CHECK(share_bytes(x, {120, 130, y_is_dense}) == x.is_dense);
      CHECK(share_bytes({120, 130, y_is_dense}, x) == x.is_dense);
      CHECK(share_bytes(x, {50, 250, y_is_dense}) == y_is_dense);
    }
  }
}

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
