// The table's own rules: a candidate for every call that it accepts, a bounded workspace, and a geometry that is the
// kernel's.
#include "ops/fused_head_forward.h"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <set>

#include "base/counters.h"
#include "cuda/architecture.h"
#include "cuda/nvrtc.h"
#include "support/specialization.h"
#include "tune/space.h"

using namespace msj;

namespace {

constexpr std::array<DType, 3> kDtypes = {DType::bf16, DType::f16, DType::f32};
constexpr std::array<std::string_view, 6> kArchitectures = {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"};

// In the table's order.
Sizes sizes_of(std::int64_t Nq, std::int64_t Nd, std::int64_t Lq, std::int64_t d_out, std::int64_t d_model) {
  return {Nq, Nd, Lq, 300, d_out, d_model};
}

tune::AutotuneKey key_of(DType dtype, std::int64_t d_out, std::int64_t d_model) {
  const OpSpec &op = ops::fused_head_forward_spec();
  const auto rules = tune::BucketRules::parse(tune::BucketRules::embedded());
  return {op, rules.bucket(op, sizes_of(1, 1000, 32, d_out, d_model)), tune::DtypeTuple(op, std::vector{dtype})};
}

tune::CandidateSpace space() { return tune::CandidateSpace::embedded(ops::fused_head_forward_spec()); }

const PathSpec &path_named(std::string_view name) {
  const OpSpec &op = ops::fused_head_forward_spec();
  return op.paths[static_cast<std::size_t>(find_named(op.paths, name))];
}

// The first candidate of a path.
TileConfig first_of(std::string_view path) {
  for (const auto &candidate : space().candidates) {
    if (candidate.config.path == path) return candidate.config;
  }
  FAIL("no candidate");
  return {};
}

}  // namespace

TEST_CASE("every d_out, d_model and dtype has a candidate in each layout class on every architecture") {
  for (const std::string_view name : kArchitectures) {
    const DeviceLimits limits = cuda::parse_architecture(name).limits;
    for (const DType dtype : kDtypes) {
      for (std::int64_t d_out = 1; d_out <= 512; d_out += d_out < 256 ? 15 : 64) {
        for (const std::int64_t d_model : {1, 768, 8192}) {
          CAPTURE(name);
          CAPTURE(d_out);
          CHECK_NOTHROW(std::ignore = tune::default_configs(space(), key_of(dtype, d_out, d_model), limits));
        }
      }
    }
  }
}

TEST_CASE("at the usual sizes there is a choice") {
  const DeviceLimits limits = cuda::parse_architecture("sm_90a").limits;
  const auto choices = [&](DType dtype) {
    std::set<TileConfig> configs;
    for (const auto &[config, layout] : tune::admit(space(), key_of(dtype, 128, 768), limits).admitted)
      configs.insert(config);
    return configs.size();
  };
  CHECK(choices(DType::bf16) >= 4);
  CHECK(choices(DType::f16) >= 4);
  CHECK(choices(DType::f32) >= 2);
}

TEST_CASE("admission survives any tunables") {
  const DeviceLimits limits = cuda::parse_architecture("sm_90a").limits;
  for (const auto &[path, d_out] : {std::pair{"portable", 512}, std::pair{"hopper", 128}}) {
    for (const std::string_view tunable : path_named(path).tunables) {
      for (const int value : {-2147483647 - 1, -1, 0, 1, 24, 4096, 4097, 2147483647}) {
        TileConfig config = first_of(path);
        config.tunables[std::string(tunable)] = value;
        const std::string why =
            tune::admission_problem(key_of(DType::bf16, d_out, 768), config, Layout::aligned16, limits);
        CAPTURE(path);
        CAPTURE(tunable);
        CAPTURE(value);
        if (value < 0 || value > 4096) CHECK(why.find("out of range") != std::string::npos);
      }
    }
  }
}

TEST_CASE("a workspace is needed from the second pass on, for each block that runs, and twice with argmax") {
  const OpSpec &op = ops::fused_head_forward_spec();
  const std::vector<DType> dtypes(op.operands.size(), DType::bf16);
  const Sizes statics = sizes_of(0, 0, 0, 128, 768);
  constexpr int sm_count = 132;
  constexpr FeatureSet argmax = 1U << 4;
  for (const auto &candidate : space().candidates) {
    const TileConfig &config = candidate.config;
    const std::int64_t block_query = config.at("block_query");
    const auto bytes = [&](const Sizes &sizes, FeatureSet features) {
      return path_of(op, config).workspace({config, sizes, statics, dtypes, sm_count, features});
    };
    const auto grid = [&](const Sizes &sizes) {
      return path_of(op, config).geometry({config, sizes, statics, dtypes, sm_count}).launches[0].grid;
    };
    CHECK(bytes(sizes_of(1, 100000, block_query, 128, 768), argmax) == 0);
    CHECK(bytes(sizes_of(block_query / 8, 100000, 1, 128, 768), argmax) == 0);  // 8 columns for each query
    const Sizes more = sizes_of(1, 100000, block_query + 1, 128, 768);
    CHECK(bytes(more, 0) >= static_cast<std::size_t>(grid(more) * 2 * block_query * 4));
    CHECK(bytes(more, argmax) == 2 * bytes(more, 0));
    CHECK(grid(more) <= std::int64_t{4} * sm_count);
    // Neither more queries nor longer ones take more than a span's maxima.
    const Sizes many = sizes_of(std::int64_t{1} << 40, 100000, 32, 128, 768);
    CHECK(bytes(many, argmax) == bytes(sizes_of(2048, 100000, 32, 128, 768), argmax));
    CHECK(bytes(sizes_of(1, 100000, 1 << 30, 128, 768), argmax) == bytes(many, argmax));
    CHECK(bytes(many, argmax) < std::size_t{1} << 31);
    CHECK(grid(sizes_of(1, 0, 32, 128, 768)) == 0);
    CHECK(grid(sizes_of(0, 5, 32, 128, 768)) == 0);
  }
}

// The kernel says what it takes, the host what it gives: with all features on the same.
TEST_CASE("a launch has the shared memory and the threads that the kernel was compiled for") {
  const OpSpec &op = ops::fused_head_forward_spec();
  const auto nvrtc = cuda::Nvrtc::load({});
  Counters counters;
  jit::KernelSources sources("");
  const cuda::Architecture architecture = cuda::parse_architecture("sm_90a");
  for (const auto &[dtype, d_out] : {std::pair{DType::bf16, 208}, std::pair{DType::f32, 48}}) {
    const auto key = key_of(dtype, d_out, 64);
    const TileConfig config = tune::default_configs(space(), key, architecture.limits).config_any;
    const Sizes statics = key.bucket().static_sizes();
    const KernelLaunch launch = path_of(op, config)
                                    .geometry({config, sizes_of(1, 5, 32, d_out, 64), statics, key.dtypes().all(), 132})
                                    .launches[0];
    const jit::Specialization specialization =
        testing::specialization_of(key, config, op.all_features(), Layout::aligned16, architecture);
    const std::string check = fmt::format(
        "namespace msj {{ static_assert((FusedHead::small_at + int(sizeof(FusedHead::Small)) + 15) / 16 * 16 == {} && "
        "threads == {}); }}\n",
        launch.shared_bytes, launch.threads);
    CHECK_NOTHROW(std::ignore = nvrtc->compile(jit::translation_unit(specialization, sources) + check, "fused.cu",
                                               architecture, jit::compile_options(), counters));
  }
}
