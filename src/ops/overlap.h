// Results whose elements share a place, with one another or with other tensors: reads and writes would race.
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

// From a tensor's first byte to past its last; both 0: no byte.
struct Span {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool is_dense = false;  // every byte between belongs to the tensor
};

// Whether two tensors certainly share a byte. The gaps of one may hold the other, so two that have gaps are judged by
// their ends alone.
[[nodiscard]] bool share_bytes(const Span &x, const Span &y);

}  // namespace msj::ops
