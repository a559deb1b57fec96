// Shape buckets: a pure function of a call's sizes, by the edges in configs/buckets.json. One function serves warm,
// lookup and inspect.
//
// The file:
//   {"version": 1,
//    "static": [{"to": 256, "multiple": 16}, …, {"multiple": 256}],
//    "edges": {"Nq": {"edges": [1, 8, 64], "above": "more", "representative": [1, 5, 37, 131]}, …}}
// Static sizes are rounded up by "static"; a size named in "edges" goes to the next edge, above the last one to "more"
// or to the "last"; a size of which the op's table accepts some values only is its own edge. "representative" is what a
// sweep times in each of them, before it is cut: typical of the bucket, 1 or odd, so that no tile divides it. A new
// size of a new op needs a line here and no code.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/op_spec.h"

namespace msj::tune {

// Above the last edge, where the size's rule says "more".
inline constexpr std::int64_t kMore = std::numeric_limits<std::int64_t>::max();

// What a sweep may take.
inline constexpr double kMaxSweepBytes = 2147483648.0;           // 2 GiB of operands and results
inline constexpr double kMaxSweepMultiplyAdds = 274877906944.0;  // 2^38

// A size by name, and its edge or kMore.
using NamedEdge = std::pair<std::string, std::int64_t>;
// "Nq1-Nd1024-Lq32-Ld1024-d128", "Nqmore-…": file names and messages.
[[nodiscard]] std::string bucket_text(std::span<const NamedEdge> edges);

struct ShapeBucket {
  int version = 0;  // of configs/buckets.json
  const OpSpec *op = nullptr;
  Sizes edges{};  // per size of the op: static sizes rounded up, the others' edge or kMore; 0: takes no part
  friend bool operator==(const ShapeBucket &, const ShapeBucket &) = default;
  [[nodiscard]] std::string text() const;  // bucket_text of the sizes that take part
  // Static sizes as kernels see them; 0 for the others.
  [[nodiscard]] Sizes static_sizes() const;
};

class OpBuckets;

class BucketRules {
 public:
  // Throws Error(MSJ_ERROR_INTERNAL) for a text that is no rules file.
  [[nodiscard]] static BucketRules parse(std::string_view json);
  [[nodiscard]] static std::string_view embedded();  // configs/buckets.json

  [[nodiscard]] int version() const { return version_; }
  [[nodiscard]] std::int64_t round_static(std::int64_t size) const;
  // The rules of one op's sizes. Throws Error(MSJ_ERROR_INTERNAL) for a size that the file has no edges for.
  [[nodiscard]] OpBuckets of(const OpSpec &op) const;
  [[nodiscard]] ShapeBucket bucket(const OpSpec &op, const Sizes &sizes) const;

  // The least and the largest sizes of a bucket that a sweep could time: an open end is twice the representative size,
  // and what a sweep would not fit is cut in the op's order, though no further than the bucket's least.
  [[nodiscard]] Sizes least(const ShapeBucket &bucket) const;
  [[nodiscard]] Sizes largest(const ShapeBucket &bucket, std::span<const DType> dtypes) const;

  // The sizes that a sweep times: a function of the bucket and dtypes alone, off tile multiples, static sizes
  // unchanged; sizes are cut in the op's order until operands and results take at most 2 GiB and the op at most 2^38
  // multiply-adds. Each is cut no further than to its lowest bucket's representative before the next one's turn, and
  // below that only if all of them together do not suffice.
  [[nodiscard]] Sizes representative(const ShapeBucket &bucket, std::span<const DType> dtypes) const;

 private:
  friend class OpBuckets;
  struct Edges {
    std::vector<std::int64_t> edges;
    bool more = false;  // above the last edge: kMore; else the last edge
    std::vector<std::int64_t> representative;

    [[nodiscard]] std::int64_t edge_of(std::int64_t size) const;
    [[nodiscard]] std::int64_t representative_of(std::int64_t edge) const;
    [[nodiscard]] std::int64_t least_of(std::int64_t edge) const;
    [[nodiscard]] std::int64_t largest_of(std::int64_t edge) const;
    [[nodiscard]] std::size_t index_of(std::int64_t edge) const;
  };
  struct StaticStep {
    std::int64_t to;
    std::int64_t multiple;
  };
  struct Reader;  // of the file

  // Of each size with edges what `choose` makes of its edge.
  template <typename Choose>
  [[nodiscard]] Sizes sizes_in(const ShapeBucket &bucket, const Choose &choose) const;
  [[nodiscard]] const Edges *edges_of(std::string_view size) const;  // null: it has none

  int version_ = 0;
  std::map<std::string, Edges, std::less<>> edges_;
  std::vector<StaticStep> static_steps_;
};

// The rules of one op's sizes, found by name once: every launch asks for its bucket. Lives no longer than the rules.
class OpBuckets {
 public:
  [[nodiscard]] ShapeBucket bucket(const Sizes &sizes) const;

 private:
  friend class BucketRules;
  OpBuckets(const BucketRules &rules, const OpSpec &op);

  const BucketRules *rules_;
  const OpSpec *op_;
  std::array<const BucketRules::Edges *, kMaxSizes> edges_{};  // null: the static rule, or the size as it is
};

// Bytes of all operands and results at these sizes (contiguous, all present).
[[nodiscard]] double operand_bytes(const OpSpec &op, const Sizes &sizes, std::span<const DType> dtypes);

}  // namespace msj::tune
