#include "ops/overlap.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>

namespace msj::ops {

namespace {

// Two spans of up to 2^63 bytes each are added, and products of a stride and a count divided.
__extension__ using Wide = __int128;

constexpr int kMaxSteps = 10'000;  // at less than a microsecond each

Wide floor_div(Wide a, Wide b) { return a / b - (a % b < 0 ? 1 : 0); }  // of a positive b
Wide ceil_div(Wide a, Wide b) { return -floor_div(-a, b); }

// The least n ≥ 0 with low ≤ n · step mod modulus ≤ high, for 0 < low ≤ high < modulus and 0 ≤ step < modulus; −1:
// none. If no multiple of step lies in the window before the first wrap, the question is the same one of the wraps.
Wide first_multiple_within(Wide step, Wide modulus, Wide low, Wide high) {
  if (step == 0) return -1;
  const Wide n = ceil_div(low, step);
  if (n * step <= high) return n;
  const Wide wraps = first_multiple_within(modulus % step, step, step - high % step, step - low % step);
  return wraps < 0 ? -1 : ceil_div(low + modulus * wraps, step);
}

struct Term {
  std::int64_t stride;  // at least 1
  Wide last;            // its multiples are 0 to this one
};

// Whether Σ n · stride, each n from 0 to its term's last, falls into low … high.
class Sums {
 public:
  void add(std::int64_t stride, Wide last) {
    if (stride != 0 && last > 0) terms_[count_++] = {stride, last};
  }

  [[nodiscard]] Answer fall_into(Wide low, Wide high) {
    std::sort(terms_.begin(), terms_.begin() + count_,
              [](const Term &a, const Term &b) { return a.stride < b.stride; });
    join_terms();
    // Terms whose steps are no wider than the window only move its lower end.
    std::size_t taken = 0;
    for (; taken < count_ && terms_[taken].stride <= high - low + 1; ++taken) {
      low -= terms_[taken].stride * terms_[taken].last;
    }
    std::copy(terms_.begin() + taken, terms_.begin() + count_, terms_.begin());
    count_ -= taken;
    for (std::size_t i = 0; i < count_; ++i) {
      reach_[i + 1] = reach_[i] + terms_[i].stride * terms_[i].last;
      divisor_[i + 1] = std::gcd(divisor_[i], terms_[i].stride);
    }
    return search(count_, low, high);
  }

 private:
  // A term that continues another is one with it: 4 · (0 … 9) + 40 · (0 … 5) = 4 · (0 … 59).
  void join_terms() {
    std::size_t joined = 0;
    for (std::size_t i = 1; i < count_; ++i) {
      Term &lower = terms_[joined];
      const std::int64_t times = terms_[i].stride / lower.stride;
      if (terms_[i].stride % lower.stride == 0 && times <= lower.last + 1) {
        lower.last += times * terms_[i].last;
      } else {
        terms_[++joined] = terms_[i];
      }
    }
    count_ = std::min(count_, joined + 1);
  }

  // Of the first `count` terms.
  Answer search(std::size_t count, Wide low, Wide high) {
    low = std::max<Wide>(low, 0);
    high = std::min(high, reach_[count]);
    if (low > high) return Answer::no;
    if (count == 0) return Answer::yes;
    if (floor_div(high, divisor_[count]) * divisor_[count] < low) return Answer::no;
    if (count == 1) return Answer::yes;
    const Term &term = terms_[count - 1];
    const Wide first = std::max<Wide>(ceil_div(low - reach_[count - 1], term.stride), 0);
    const Wide last = std::min(floor_div(high, term.stride), term.last);
    if (count == 2) return search_two(first, last, low, high);
    for (Wide n = first; n <= last; ++n) {
      if (++steps_ > kMaxSteps) return Answer::unknown;
      const Answer answer = search(count - 1, low - n * term.stride, high - n * term.stride);
      if (answer != Answer::no) return answer;
    }
    return Answer::no;
  }

  // For n from first to last, what is left for the lower term is 0 or more and at most its reach, or holds one of these
  // two: so a multiple of its stride is all it takes.
  [[nodiscard]] Answer search_two(Wide first, Wide last, Wide low, Wide high) const {
    if (first > last) return Answer::no;
    const Wide modulus = terms_[0].stride;
    const Wide width = high - low;
    const Wide rest = (high - first * terms_[1].stride) % modulus;  // not negative, as first ≤ last
    if (rest <= width) return Answer::yes;
    const Wide step = (modulus - terms_[1].stride % modulus) % modulus;
    const Wide more = first_multiple_within(step, modulus, modulus - rest, modulus - rest + width);
    return more >= 0 && more <= last - first ? Answer::yes : Answer::no;
  }

  static constexpr std::size_t kMostTerms = std::size_t{2} * kMaxRank;  // of both tensors

  std::array<Term, kMostTerms> terms_{};
  std::size_t count_ = 0;
  std::array<Wide, kMostTerms + 1> reach_{};            // of the first terms together
  std::array<std::int64_t, kMostTerms + 1> divisor_{};  // the greatest common one of their strides
  int steps_ = 0;
};

// Extent r of a tensor that steps upwards: which end is its first makes no difference to the places it takes.
Extent upwards(const TensorView &tensor, int r) {
  const auto i = static_cast<std::size_t>(r);
  if (tensor.shape[i] == 1) return {1, 0};
  return {tensor.shape[i], std::abs(tensor.strides[i]) * bytes(tensor.dtype)};
}

}  // namespace

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

Answer overlap(std::span<const Extent> extents) {
  std::array<Extent, kMaxRank> sorted{};
  std::size_t count = 0;
  for (const Extent &extent : extents) {
    if (extent.count > 1) sorted[count++] = {extent.count, std::abs(extent.stride)};
  }
  std::sort(sorted.begin(), sorted.begin() + count,
            [](const Extent &a, const Extent &b) { return a.stride > b.stride; });
  // Two elements in one place differ in some indices. The first of them, in this order, by 1 to last; those after it by
  // −last to last: what they would have to come to is the window. (Where each steps over all that follow, it's below.)
  for (std::size_t k = 0; k < count; ++k) {
    Sums sums;
    Wide back = -Wide{sorted[k].stride};
    for (std::size_t r = k + 1; r < count; ++r) back += Wide{sorted[r].stride} * (sorted[r].count - 1);
    if (back < 0) continue;
    if (sorted[k].stride == 0) return Answer::yes;
    sums.add(sorted[k].stride, sorted[k].count - 2);
    for (std::size_t r = k + 1; r < count; ++r) sums.add(sorted[r].stride, Wide{2} * (sorted[r].count - 1));
    const Answer answer = sums.fall_into(back, back);
    if (answer != Answer::no) return answer;
  }
  return Answer::no;
}

Span span_of(const TensorView &tensor) {
  const std::int64_t size = bytes(tensor.dtype);
  std::int64_t low = 0;
  std::int64_t high = 0;
  for (int r = 0; r < tensor.rank; ++r) {
    const auto i = static_cast<std::size_t>(r);
    (tensor.strides[i] < 0 ? low : high) += (tensor.shape[i] - 1) * tensor.strides[i];
  }
  const auto base = reinterpret_cast<std::uintptr_t>(tensor.data);
  return {base + static_cast<std::uintptr_t>(low * size), base + static_cast<std::uintptr_t>((high + 1) * size)};
}

Answer share_bytes(const TensorView &x, const TensorView &y) {
  const Span span_x = span_of(x);
  const Span span_y = span_of(y);
  if (!meet(span_x, span_y)) return Answer::no;
  // A byte of each: begin + Σ steps + byte of the element. y's steps count from its end, so that all terms add.
  Sums sums;
  for (int r = 0; r < x.rank; ++r) sums.add(upwards(x, r).stride, upwards(x, r).count - 1);
  for (int r = 0; r < y.rank; ++r) sums.add(upwards(y, r).stride, upwards(y, r).count - 1);
  const Wide last_of_y = Wide{span_y.end} - bytes(y.dtype) - span_x.begin;
  return sums.fall_into(last_of_y - (bytes(x.dtype) - 1), last_of_y + (bytes(y.dtype) - 1));
}

}  // namespace msj::ops
