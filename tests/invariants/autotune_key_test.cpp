// DESIGN, invariants 1 and 4: a key is op, shape bucket and dtype tuple, and nothing else can get into it; every size
// of a bucket shares its entry, and another bucket or dtype is another entry.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>

#include "support/remembered_compiles.h"
#include "support/session.h"
#include "support/tiny_kernels.h"
#include "tune/autotune_key.h"
#include "tune/bucket.h"

using namespace msj;
using namespace msj::testing;
using tune::AutotuneKey;
using tune::DtypeTuple;
using tune::ShapeBucket;

namespace {

// Only (op, bucket, dtypes) make a key: nothing before, after or in place of them.
template <typename... Arguments>
constexpr bool makes_key = std::is_constructible_v<AutotuneKey, Arguments...>;
static_assert(makes_key<const OpSpec &, const ShapeBucket &, const DtypeTuple &>);
static_assert(!std::is_default_constructible_v<AutotuneKey>);
static_assert(!std::is_aggregate_v<AutotuneKey>);
template <typename Extra>
constexpr bool can_get_in =
    makes_key<const OpSpec &, const ShapeBucket &, const DtypeTuple &, Extra> ||
    makes_key<const OpSpec &, const ShapeBucket &, Extra> || makes_key<const OpSpec &, Extra, const DtypeTuple &> ||
    makes_key<Extra, const ShapeBucket &, const DtypeTuple &> || makes_key<Extra> ||
    std::is_assignable_v<AutotuneKey &, Extra>;
static_assert(!can_get_in<FeatureSet>);
static_assert(!can_get_in<Layout>);
static_assert(!can_get_in<bool>);
static_assert(!can_get_in<BoundCall>);
static_assert(!can_get_in<TensorView>);
static_assert(!can_get_in<TileConfig>);
static_assert(!can_get_in<Sizes>);
static_assert(!can_get_in<msj_call>);
// Nor into what a key is made of.
static_assert(!std::is_constructible_v<DtypeTuple, const OpSpec &, FeatureSet>);
static_assert(!std::is_constructible_v<DtypeTuple, const OpSpec &, std::span<const DType>, FeatureSet>);
static_assert(!std::is_constructible_v<DtypeTuple, const BoundCall &>);
static_assert(sizeof(ShapeBucket) == sizeof(Sizes) + 2 * sizeof(void *));  // version, op and edges

struct Edge {
  std::size_t size;
  std::int64_t last;  // the largest size of this bucket
};

// The edges that the rules file gives to a size of the op; for static sizes a step of each rounding, and where it ends.
std::vector<std::int64_t> edges_of(const SizeSpec &size) {
  if (!size.accepted.empty()) return {size.accepted.begin(), size.accepted.end()};
  const auto rules = nlohmann::json::parse(tune::BucketRules::embedded());
  const std::string name(size.edges_name());
  if (rules["edges"].contains(name)) return rules["edges"][name]["edges"].get<std::vector<std::int64_t>>();
  std::vector<std::int64_t> edges;
  for (const std::int64_t edge : {16, 256, 320, 1024, 4096}) {
    if (edge <= size.max) edges.push_back(edge);
  }
  return edges;
}

std::size_t run_and_count(Session &session, const std::string &cache, const CallShape &shape) {
  session.must_run(shape);
  return entry_files(cache).size();
}

}  // namespace

TEST_CASE("each dtype has an entry of its own, and masks' dtypes have none") {
  const TinyKernels kernels;
  const RememberedCompiles remembered;
  for (const ops::Op &op : ops::all_ops()) {
    CAPTURE(op.spec->name);
    FakeGpu gpu;
    const ScratchDirectory cache;
    Session session(cache.path());
    CallShape shape = small_call(*op.spec);
    std::size_t entries = 0;
    for (const auto &own : own_dtypes(*op.spec)) {
      shape.own = own;
      CHECK(run_and_count(session, cache.path(), shape) == ++entries);
    }
    CHECK(session.stats().sweeps == static_cast<std::int64_t>(entries));

    // bool = uint8 = int8, absent = present: nothing new but the compile of the feature set.
    shape.features = op.spec->all_features();
    CHECK(run_and_count(session, cache.path(), shape) == entries);
    const msj_counters before = session.stats();
    for (shape.alternative = 1; shape.alternative < 4; ++shape.alternative) {
      CHECK(run_and_count(session, cache.path(), shape) == entries);
    }
    shape.featureless = true;
    CHECK(run_and_count(session, cache.path(), shape) == entries);
    const msj_counters after = session.stats();
    CHECK(after.nvrtc_invocations == before.nvrtc_invocations);
    CHECK(after.module_loads == before.module_loads);
    CHECK(after.sweeps == before.sweeps);
  }
}

TEST_CASE("sizes share an entry up to each edge of their bucket, and not past it") {
  const TinyKernels kernels;
  const RememberedCompiles remembered;
  for (const ops::Op &op : ops::all_ops()) {
    FakeGpu gpu;
    for (std::size_t size = 0; size < op.spec->sizes.size(); ++size) {
      const SizeSpec &spec = op.spec->sizes[size];
      if (!spec.in_bucket && !spec.is_static) continue;
      CAPTURE(spec.name);
      const ScratchDirectory cache;
      Session session(cache.path());
      const auto rules = tune::BucketRules::parse(tune::BucketRules::embedded());
      CallShape shape = small_call(*op.spec);
      std::set<std::int64_t> buckets;
      const auto edges = edges_of(spec);
      std::vector<std::int64_t> wanted = {1};
      for (const std::int64_t edge : edges) wanted.insert(wanted.end(), {edge - 1, edge, edge + 1});
      if (!spec.is_static) wanted.insert(wanted.end(), {edges.back() * 8, std::int64_t{1} << 29});
      for (const std::int64_t value : wanted) {
        if (value < 1 || value > spec.max) continue;
        const bool is_accepted = std::find(spec.accepted.begin(), spec.accepted.end(), value) != spec.accepted.end();
        if (!spec.accepted.empty() && !is_accepted) continue;
        CAPTURE(value);
        shape.sizes[size] = value;
        buckets.insert(rules.bucket(*op.spec, shape.sizes).edges[size]);
        OpCall call(shape);  // prepared alone: so many queries may be very many launches
        REQUIRE(msj_prepare(session.get(), &call.call(), nullptr, nullptr) == MSJ_OK);
        CHECK(entry_files(cache.path()).size() == buckets.size());
      }
      CHECK(session.stats().sweeps == static_cast<std::int64_t>(buckets.size()));
      CHECK(buckets.size() > 1);
    }
  }
}

TEST_CASE("Nq = 1, Lq = 32, any Nd to 100,000 and Ld to 8,192 need at most 16 keys") {
  const auto rules = tune::BucketRules::parse(tune::BucketRules::embedded());
  for (const ops::Op &op : ops::all_ops()) {
    const auto index = [&](std::string_view name) { return find_named(op.spec->sizes, name); };
    if (index("Nq") < 0 || index("Lq") < 0 || index("Nd") < 0 || index("Ld") < 0) continue;
    Sizes sizes = small_sizes(*op.spec);
    sizes[static_cast<std::size_t>(index("Nq"))] = 1;
    sizes[static_cast<std::size_t>(index("Lq"))] = 32;
    std::set<std::string> keys;
    const DtypeTuple dtypes(*op.spec, own_dtypes(*op.spec).front());
    for (std::int64_t nd = 0; nd <= 100'000; nd += nd < 64 ? 1 : nd / 64) {
      for (std::int64_t ld = 0; ld <= 8'192; ld += ld < 64 ? 1 : ld / 64) {
        sizes[static_cast<std::size_t>(index("Nd"))] = nd;
        sizes[static_cast<std::size_t>(index("Ld"))] = ld;
        keys.insert(AutotuneKey(*op.spec, rules.bucket(*op.spec, sizes), dtypes).text());
      }
    }
    CHECK(keys.size() <= 16);
    CHECK(keys.size() > 4);
  }
}
