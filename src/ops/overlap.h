// Results whose elements share a place, with one another or with other tensors: reads and writes would race.
//
// Both questions are one: whether a sum of multiples, each of 0 … last times a stride, can fall into a window. Dense
// dimensions widen the window until nothing is left to ask, as in nearly all calls. Where two tensors lie in each
// other's gaps, congruence settles what columns of one buffer are; what then remains is searched, the last two strides
// in logarithmic time by Euclid's algorithm.
#pragma once

#include <cstdint>
#include <span>

#include "base/call.h"

namespace msj::ops {

struct Extent {
  std::int64_t count;
  std::int64_t stride;  // in elements
};

// `unknown`: the search came to its bound, 10,000 steps. That takes three strides or more of which none divides
// another.
enum class Answer : std::uint8_t { no, yes, unknown };

// Whether some elements of a tensor with these two dimensions (and any others at index 0) are in one place:
// a · x.stride + b · y.stride = 0 for |a| < x.count and |b| < y.count, not both 0. The spans must fit int64.
[[nodiscard]] bool overlap(const Extent &x, const Extent &y);
// Whether some elements of a tensor with all of these dimensions, at most kMaxRank, are in one place.
[[nodiscard]] Answer overlap(std::span<const Extent> extents);

// From a tensor's first byte to past its last; both 0: no byte.
struct Span {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};
[[nodiscard]] Span span_of(const TensorView &tensor);  // has elements, and a span that fits int64
[[nodiscard]] inline bool meet(const Span &x, const Span &y) { return x.begin < y.end && y.begin < x.end; }

// Whether some byte belongs to an element of each. Both have elements.
[[nodiscard]] Answer share_bytes(const TensorView &x, const TensorView &y);

}  // namespace msj::ops
