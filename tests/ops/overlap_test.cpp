#include "ops/overlap.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

using namespace msj::ops;
using msj::TensorView;

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

// A tensor of up to three dimensions over `memory`.
TensorView view(char *base, msj::DType dtype, const std::vector<Extent> &extents) {
  TensorView tensor;
  tensor.present = true;
  tensor.data = base;
  tensor.dtype = dtype;
  tensor.rank = static_cast<int>(extents.size());
  for (std::size_t r = 0; r < extents.size(); ++r) {
    tensor.shape[r] = extents[r].count;
    tensor.strides[r] = extents[r].stride;
  }
  return tensor;
}

// Where each element begins, in elements.
std::vector<std::int64_t> places_of(const std::vector<Extent> &extents) {
  std::vector<std::int64_t> places{0};
  for (const Extent &extent : extents) {
    std::vector<std::int64_t> more;
    for (const std::int64_t place : places) {
      for (std::int64_t n = 0; n < extent.count; ++n) more.push_back(place + n * extent.stride);
    }
    places = std::move(more);
  }
  return places;
}

bool share_by_hand(const TensorView &x, const std::vector<Extent> &of_x, const TensorView &y,
                   const std::vector<Extent> &of_y) {
  std::set<const char *> taken;
  for (const std::int64_t place : places_of(of_x)) {
    for (int b = 0; b < bytes(x.dtype); ++b) taken.insert(static_cast<char *>(x.data) + place * bytes(x.dtype) + b);
  }
  for (const std::int64_t place : places_of(of_y)) {
    for (int b = 0; b < bytes(y.dtype); ++b) {
      if (taken.contains(static_cast<char *>(y.data) + place * bytes(y.dtype) + b)) return true;
    }
  }
  return false;
}

// Random extents: nested as a view's usually are, or any.
std::vector<Extent> some_extents(std::mt19937 &random) {
  const auto below = [&random](int n) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(n)); };
  std::vector<Extent> extents(1 + random() % 3);
  std::int64_t reach = 1;
  const bool nested = random() % 2 == 0;
  for (Extent &extent : extents) {
    extent.count = 1 + below(6);
    extent.stride = nested ? reach + below(3) : below(30);
    reach += extent.stride * extent.count;
    if (random() % 4 == 0) extent.stride = -extent.stride;
  }
  std::shuffle(extents.begin(), extents.end(), random);
  return extents;
}

}  // namespace

TEST_CASE("two tensors share a byte exactly where going through all bytes of both finds one") {
  std::mt19937 random(20260102);
  std::vector<char> memory(1);
  int shared = 0;
  int interleaved = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto of_x = some_extents(random);
    const auto of_y = some_extents(random);
    char *base = memory.data() + (1 << 20);  // never read
    const msj::DType dtype_y = i % 3 == 0 ? msj::DType::bf16 : i % 3 == 1 ? msj::DType::i8 : msj::DType::f32;
    const TensorView x = view(base, msj::DType::f32, of_x);
    const TensorView y = view(base - 300 + random() % 600, dtype_y, of_y);
    const bool expected = share_by_hand(x, of_x, y, of_y);
    CAPTURE(i);
    REQUIRE(share_bytes(x, y) == (expected ? Answer::yes : Answer::no));
    REQUIRE(share_bytes(y, x) == (expected ? Answer::yes : Answer::no));
    shared += expected ? 1 : 0;
    interleaved += !expected && meet(span_of(x), span_of(y)) ? 1 : 0;
  }
  CHECK(shared > 1000);
  CHECK(interleaved > 1000);
}

TEST_CASE("tensors of a billion rows in each other's gaps are told apart at once") {
  constexpr std::int64_t kRows = 1'000'000'000;
  char *base = reinterpret_cast<char *>(std::uintptr_t{1} << 40);
  const auto floats = [&](std::int64_t at, const std::vector<Extent> &extents) {
    return view(base + 4 * at, msj::DType::f32, extents);
  };
  // Columns of one buffer of 8 floats a row.
  CHECK(share_bytes(floats(0, {{kRows, 8}, {4, 1}}), floats(4, {{kRows, 8}, {2, 2}})) == Answer::no);
  CHECK(share_bytes(floats(0, {{kRows, 8}, {4, 1}}), floats(3, {{kRows, 8}, {2, 2}})) == Answer::yes);
  // Strides without a common divisor: 7n = 1 + 1000003m has its first answer at n = 714288.
  CHECK(share_bytes(floats(0, {{714'288, 7}}), floats(1, {{kRows, 1'000'003}})) == Answer::no);
  CHECK(share_bytes(floats(0, {{714'289, 7}}), floats(1, {{kRows, 1'000'003}})) == Answer::yes);
}

TEST_CASE("a result of three dimensions has a place for each element exactly where counting says so") {
  CHECK(overlap(std::vector<Extent>{{2, 10}, {5, 3}, {3, 8}}) == Answer::yes);  // no two of them show it
  std::mt19937 random(3);
  int found = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto extents = some_extents(random);
    const auto places = places_of(extents);
    const bool expected = std::set<std::int64_t>(places.begin(), places.end()).size() < places.size();
    CAPTURE(i);
    REQUIRE(overlap(extents) == (expected ? Answer::yes : Answer::no));
    found += expected ? 1 : 0;
  }
  CHECK(found > 1000);
  CHECK(found < 19'000);
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
