// The hopper_table and hopper_gather paths of residual_forward: where they are admitted, and a geometry that is the
// kernel's.
#include "ops/decoded_rows_geometry.h"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include "base/counters.h"
#include "cuda/architecture.h"
#include "cuda/nvrtc.h"
#include "ops/residual_forward.h"
#include "support/specialization.h"
#include "tune/space.h"

using namespace msj;

namespace {

struct Problem {
  std::int64_t d, nbits, Lq = 32, K = 65'536;

  [[nodiscard]] tune::AutotuneKey key() const {
    const auto rules = tune::BucketRules::parse(tune::BucketRules::embedded());
    const OpSpec &op = ops::residual_forward_spec();
    return {op, rules.bucket(op, {1, 1'000, Lq, 300, 300'000, K, d, nbits}),
            tune::DtypeTuple(op, std::vector{DType::f16, DType::f16})};
  }
  [[nodiscard]] std::size_t admitted(std::string_view path, std::string_view architecture) const {
    std::size_t count = 0;
    const DeviceLimits limits = cuda::parse_architecture(architecture).limits;
    for (const auto &[config, layout] :
         tune::admit(tune::CandidateSpace::embedded(ops::residual_forward_spec()), key(), limits).admitted) {
      if (config.path != path) continue;
      CHECK(layout == Layout::aligned16);
      ++count;
    }
    return count;
  }
};

TileConfig config_of(std::string_view path, int block_query, int teams, int ring, int min_blocks, int persistent) {
  TileConfig config = {std::string(path),
                       {{"teams", teams}, {"ring", ring}, {"min_blocks", min_blocks}, {"persistent", persistent}}};
  if (path == "hopper_gather") config.tunables["block_query"] = block_query;
  return config;
}

}  // namespace

TEST_CASE("rows decoded in registers are for compute capability 9.0, as far as registers hold a quarter of a row") {
  for (const std::string_view path : {"hopper_table", "hopper_gather"}) {
    CAPTURE(path);
    for (const std::int64_t nbits : {1, 2, 4}) {
      for (const std::int64_t d : {16, 48, 64, 96, 100, 128}) {
        CAPTURE(d);
        CAPTURE(nbits);
        if (nbits * d > 16) CHECK(Problem{d, nbits}.admitted(path, "sm_90a") >= 2);
      }
    }
    CHECK(Problem{64, 8}.admitted(path, "sm_90a") >= 2);
    for (const std::int64_t d : {16, 48, 128}) CHECK(Problem{d, 8}.admitted(path, "sm_90a") == 0);
    CHECK(Problem{256, 2}.admitted(path, "sm_90a") == 0);
    CHECK(Problem{128, 2}.admitted(path, "sm_80") == 0);
    CHECK(Problem{128, 2}.admitted(path, "sm_100a") == 0);
  }
  CHECK(Problem{128, 2, 32, 1'000'000}.admitted("hopper_table", "sm_90a") == 0);  // no place for T
  CHECK(Problem{128, 2, 2'000}.admitted("hopper_table", "sm_90a") == 0);
  CHECK(Problem{128, 2, 32, 1'000'000}.admitted("hopper_gather", "sm_90a") >= 2);
}

TEST_CASE("rows that can't be decoded in registers: the reason names what is too large, or odd") {
  const auto reason = [](std::int64_t d, std::int64_t nbits) {
    return tune::admission_problem(Problem{d, nbits}.key(), config_of("hopper_gather", 32, 1, 2, 1, 1),
                                   Layout::aligned16, cuda::parse_architecture("sm_90a").limits);
  };
  CHECK(reason(16, 8) == "a quarter of a row is an odd number of k steps, 1; they are decoded two at a time");
  CHECK(reason(48, 8) == "a quarter of a row is an odd number of k steps, 3; they are decoded two at a time");
  CHECK(reason(64, 8) == "");
  CHECK(reason(128, 8) ==
        "a quarter of a row is 8 words of bits for 8 k steps, in registers there is place for 4 and 8");
}

TEST_CASE("admission of rows decoded in registers survives any tunables") {
  for (const std::string_view tunable : ops::kHopperGatherTunables) {
    for (const int value : {-2147483647 - 1, -1, 0, 1, 2, 3, 8, 9, 16, 32, 64, 128, 4096, 2147483647}) {
      TileConfig config = config_of("hopper_gather", 32, 1, 2, 1, 1);
      config.tunables[std::string(tunable)] = value;
      CAPTURE(tunable);
      CAPTURE(value);
      const std::string why = tune::admission_problem(Problem{128, 2}.key(), config, Layout::aligned16,
                                                      cuda::parse_architecture("sm_90a").limits);
      const bool is_accepted = tunable == "block_query"  ? value == 32 || value == 64 || value == 128
                               : tunable == "teams"      ? value >= 1 && value <= 8
                               : tunable == "ring"       ? value >= 2 && value <= 16
                               : tunable == "min_blocks" ? value >= 1 && value <= 32
                                                         : value >= 0 && value <= 64;
      CHECK((why.find("out of range") == std::string::npos) == is_accepted);
    }
  }
}

// The kernel says what it takes, the host what it gives: compiled with every feature, and these assertions behind it.
TEST_CASE("a launch has the shared memory and the threads that rows decoded in registers were compiled for") {
  struct Case {
    std::string_view path, kernel_class;
    Problem problem;
    int block_query, teams, ring;
  };
  const auto nvrtc = cuda::Nvrtc::load({});
  jit::KernelSources sources("");
  const OpSpec &op = ops::residual_forward_spec();
  const cuda::Architecture architecture = cuda::parse_architecture("sm_90a");
  for (const Case &c : {Case{"hopper_table", "HopperTable", {128, 2}, 32, 4, 3},
                        Case{"hopper_table", "HopperTable", {96, 4, 100}, 32, 2, 2},
                        Case{"hopper_table", "HopperTable", {64, 8}, 32, 1, 5},
                        Case{"hopper_gather", "HopperGather", {128, 4}, 32, 3, 2},
                        Case{"hopper_gather", "HopperGather", {100, 1, 33}, 32, 2, 2},
                        Case{"hopper_gather", "HopperGather", {48, 2}, 64, 3, 2},
                        Case{"hopper_gather", "HopperGather", {128, 4, 200}, 128, 2, 2}}) {
    CAPTURE(c.path);
    CAPTURE(c.problem.d);
    CAPTURE(c.problem.nbits);
    const TileConfig config = config_of(c.path, c.block_query, c.teams, c.ring, 1, 1);
    const tune::AutotuneKey key = c.problem.key();
    REQUIRE(tune::admission_problem(key, config, Layout::aligned16, architecture.limits) == "");
    const Sizes statics = key.bucket().static_sizes();
    const PathSpec &path = op.paths[static_cast<std::size_t>(find_named(op.paths, c.path))];
    const Sizes sizes = {1, 1'000, c.problem.Lq, 300, 300'000, c.problem.K, c.problem.d, c.problem.nbits};
    const LaunchList list = path.geometry({config, sizes, statics, key.dtypes().all(), 132});
    const KernelLaunch &launch = list.launches[static_cast<std::size_t>(list.count - 1)];
    CHECK_FALSE(list.launches[0].overlaps_previous);
    CHECK(launch.overlaps_previous == (c.path == "hopper_table"));
    const jit::Specialization specialization =
        testing::specialization_of(key, config, op.all_features(), Layout::aligned16, architecture);
    const std::string check = fmt::format(
        "namespace msj {{ using Block = DecodedRows<{}>; static_assert(Block::queries_at + {} * Block::query_bytes == "
        "{} && threads == {}); }}\n",
        c.kernel_class, c.problem.Lq > c.block_query ? c.teams : 1, launch.shared_bytes, launch.threads);
    Counters counters;
    CHECK_NOTHROW(std::ignore = nvrtc->compile(jit::translation_unit(specialization, sources) + check, "decoded.cu",
                                               architecture, jit::compile_options(), counters));
  }
}
