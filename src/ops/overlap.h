// Results whose elements share a place: the kernels' writes would race.
#pragma once

#include <cstdint>

namespace msj::ops {

struct Extent {
  std::int64_t count;
  std::int64_t stride;  // in elements
};

// Whether some elements of a tensor with these two dimensions (and any others at index 0) are in one place:
// a · x.stride + b · y.stride = 0 for |a| < x.count and |b| < y.count, not both 0. The spans must fit int64.
[[nodiscard]] bool overlap(const Extent &x, const Extent &y);

}  // namespace msj::ops
