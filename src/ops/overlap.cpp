#include "ops/overlap.h"

#include <cstdlib>
#include <numeric>

namespace msj::ops {

bool overlap(const Extent &x, const Extent &y) {
  const bool moves_x = x.count > 1;
  const bool moves_y = y.count > 1;
  if ((moves_x && x.stride == 0) || (moves_y && y.stride == 0)) return true;
  if (!moves_x || !moves_y) return false;
  const std::int64_t step_x = std::abs(x.stride);
  const std::int64_t step_y = std::abs(y.stride);
  // The usual tensor: one dimension steps over all of the other. No division.
  if (step_x > step_y * (y.count - 1) || step_y > step_x * (x.count - 1)) return false;
  // The least a and b that meet are step_y / divisor and step_x / divisor.
  const std::int64_t divisor = std::gcd(step_x, step_y);
  return step_y / divisor < x.count && step_x / divisor < y.count;
}

bool share_bytes(const Span &x, const Span &y) {
  if (x.end <= y.begin || y.end <= x.begin) return false;
  if (x.begin == y.begin || x.end == y.end) return true;
  // An end of one lies within the other.
  const auto has_end_of = [](const Span &whole, const Span &part) {
    return whole.is_dense &&
           ((part.begin >= whole.begin && part.begin < whole.end) || (part.end > whole.begin && part.end <= whole.end));
  };
  return has_end_of(x, y) || has_end_of(y, x);
}

}  // namespace msj::ops
