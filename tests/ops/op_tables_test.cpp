// Every op's table keeps the rules that the one pipeline relies on, and has its kernels, its space and its header
// words.
#include <doctest/doctest.h>

#include <set>
#include <string>

#include "cuda/architecture.h"
#include "jit/source.h"
#include "support/op_calls.h"
#include "tune/bucket.h"
#include "tune/space.h"

using namespace msj;
using namespace msj::testing;

namespace {

template <typename Specs>
void check_names(const Specs &specs) {
  std::set<std::string_view> names;
  for (const auto &spec : specs) {
    CHECK_FALSE(spec.name.empty());
    CHECK(names.insert(spec.name).second);
  }
}

}  // namespace

TEST_CASE("names are unique and ids are found") {
  std::set<msj_op> ids;
  for (const ops::Op &op : ops::all_ops()) {
    CAPTURE(op.spec->name);
    CHECK(ids.insert(op.spec->id).second);
    CHECK(ops::find_op(op.spec->id) == &op);
    CHECK(ops::find_op(op.spec->name) == &op);
    CHECK(static_cast<bool>(op.reference != nullptr));
    CHECK(valid(op.spec->operands, op.spec->features));
    check_names(op.spec->sizes);
    check_names(op.spec->operands);
    check_names(op.spec->features);
    check_names(op.spec->params);
    check_names(op.spec->paths);
  }
  CHECK(ops::find_op(msj_op{0}) == nullptr);
  CHECK(ops::find_op("no_op") == nullptr);
}

TEST_CASE("indices point into the table, features come from one place, and sweeps use a fixed set") {
  for (const ops::Op &op : ops::all_ops()) {
    CAPTURE(op.spec->name);
    const auto sizes = static_cast<int>(op.spec->sizes.size());
    std::set<int> feature_operands;
    std::uint64_t flags = 0;
    for (const OperandSpec &operand : op.spec->operands) {
      for (int r = 0; r < operand.rank; ++r) {
        const int dim = operand.dims[static_cast<std::size_t>(r)];
        const bool is_extent = dim >= kMaxSizes && dim - kMaxSizes < static_cast<int>(op.spec->extents.size());
        CHECK((dim < sizes || is_extent));
      }
      if (operand.content != Content::as_dtype) CHECK(operand.content_size >= 0);
      if (operand.together_with >= 0) {
        const OperandSpec &other = op.spec->operands[static_cast<std::size_t>(operand.together_with)];
        CHECK((operand.optional && other.optional && other.together_with >= 0));
      }
      if (operand.dtype.kind != DtypeRule::Kind::follows) CHECK_FALSE(operand.dtype.accepted.empty());
      if (operand.streamed) CHECK_FALSE(operand.is_result);
    }
    for (const FeatureSpec &feature : op.spec->features) {
      if (feature.source == FeatureSpec::Source::flag) {
        CHECK((flags & feature.flag) == 0);
        flags |= feature.flag;
        CHECK_FALSE(feature.doc.empty());
      } else {
        CHECK(feature_operands.insert(feature.operand).second);
        const OperandSpec &operand = op.spec->operands[static_cast<std::size_t>(feature.operand)];
        CHECK((operand.optional || (feature.source == FeatureSpec::Source::rank && operand.may_be_single)));
      }
    }
    for (const ExtentSpec &extent : op.spec->extents) {
      CHECK(extent.size < sizes);
      CHECK((extent.rule == ExtentSpec::Rule::packed_bits) == (extent.bits >= 0));
    }
    for (const ParamSpec &param : op.spec->params) {
      CHECK(param.size < sizes);
      CHECK_FALSE(param.doc.empty());
    }
    for (const int size : op.spec->cut_order) CHECK_FALSE(op.spec->sizes[static_cast<std::size_t>(size)].is_static);
    CHECK((op.spec->representative_features & ~op.spec->all_features()) == 0);
  }
}

TEST_CASE("every path has its kernel file and every op its candidates") {
  for (const ops::Op &op : ops::all_ops()) {
    CAPTURE(op.spec->name);
    jit::KernelSources sources("");
    for (const PathSpec &path : op.spec->paths) {
      const std::string text = sources.expanded(std::string(op.spec->name) + "." + std::string(path.name) + ".cu");
      for (const std::string_view entry : path.entries) CHECK(text.find(entry) != std::string::npos);
      CHECK(text.find("#include") == std::string::npos);
    }
    CHECK_FALSE(tune::CandidateSpace::embedded(*op.spec).candidates.empty());
  }
}

TEST_CASE("launch geometry stays within a launch's limits at any size") {
  const auto rules = tune::BucketRules::parse(tune::BucketRules::embedded());
  for (const ops::Op &op : ops::all_ops()) {
    CAPTURE(op.spec->name);
    const auto space = tune::CandidateSpace::embedded(*op.spec);
    for (const auto &own : own_dtypes(*op.spec)) {
      const tune::DtypeTuple dtypes(*op.spec, own);
      for (const std::int64_t statics : {std::int64_t{16}, std::int64_t{128}, std::int64_t{4096}}) {
        Sizes sizes = small_sizes(*op.spec, statics);
        const cuda::Architecture architecture = cuda::parse_architecture("sm_90a");
        const tune::AutotuneKey key(*op.spec, rules.bucket(*op.spec, sizes), dtypes);
        for (const auto &[config, layout] : tune::admit(space, key, architecture.limits).admitted) {
          const PathSpec &path = op.spec->paths[static_cast<std::size_t>(find_named(op.spec->paths, config.path))];
          for (const std::int64_t size :
               {std::int64_t{0}, std::int64_t{1}, std::int64_t{4097}, std::int64_t{1} << 30}) {
            for (std::size_t i = 0; i < op.spec->sizes.size(); ++i) {
              const auto empty = sizes_of_every_result(*op.spec);
              const bool may_be_0 = std::find(empty.begin(), empty.end(), static_cast<int>(i)) == empty.end();
              if (!op.spec->sizes[i].is_static) sizes[i] = may_be_0 ? size : std::max<std::int64_t>(size, 1);
            }
            for (const int sm_count : {1, 132}) {
              const LaunchList list = path.geometry(
                  {config, sizes, key.bucket().static_sizes(), dtypes.all(), sm_count, op.spec->all_features()});
              REQUIRE(list.count >= 1);
              CHECK(list.rounds >= 1);
              CHECK((list.rounds == 1 || op.spec->in_rounds));
              for (int k = 0; k < list.count; ++k) {
                const KernelLaunch &launch = list.launches[static_cast<std::size_t>(k)];
                CAPTURE(to_string(config));
                CAPTURE(size);
                CHECK(launch.grid >= 1);
                CHECK(launch.grid <= 0x7fffffff);
                CHECK(launch.threads % 32 == 0);
                CHECK(launch.threads >= 32);
                CHECK(launch.threads <= 1024);
                CHECK(launch.shared_bytes >= 0);
                CHECK(launch.shared_bytes <= architecture.limits.shared_bytes_per_block);
                CHECK(launch.entry < static_cast<int>(path.entries.size()));
              }
            }
          }
        }
      }
    }
  }
}
