// The hopper_queries paths in their ops' tables: where they are admitted, a geometry that is the kernel's, documents
// that are all taken.
#include "ops/query_rows_geometry.h"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <set>

#include "base/counters.h"
#include "cuda/architecture.h"
#include "cuda/nvrtc.h"
#include "ops/dense_forward.h"
#include "ops/fp8_forward.h"
#include "support/specialization.h"
#include "tune/space.h"

using namespace msj;

namespace {

constexpr std::string_view kPath = "hopper_queries";

struct QueriesOp {
  const OpSpec &spec;
  ops::HopperRows rows;  // as its table has them
  std::vector<DType> own;
  std::string_view kernel_class;

  [[nodiscard]] tune::AutotuneKey key(std::int64_t d) const {
    const auto rules = tune::BucketRules::parse(tune::BucketRules::embedded());
    return {spec, rules.bucket(spec, {32, 1000, 32, 300, d}), tune::DtypeTuple(spec, own)};
  }
  [[nodiscard]] std::vector<TileConfig> admitted(std::int64_t d, std::string_view architecture) const {
    std::vector<TileConfig> configs;
    const DeviceLimits limits = cuda::parse_architecture(architecture).limits;
    for (const auto &[config, layout] : tune::admit(tune::CandidateSpace::embedded(spec), key(d), limits).admitted) {
      if (config.path != kPath) continue;
      CHECK(layout == Layout::aligned16);
      configs.push_back(config);
    }
    return configs;
  }
};

const std::vector<QueriesOp> &queries_ops() {
  static const std::vector<QueriesOp> all = {{ops::dense_forward_spec(),
                                              {.element_bytes = 2, .query_extra_bytes = 8, .row_extra_bytes = 8},
                                              {DType::bf16},
                                              "DenseQueries"},
                                             {ops::fp8_forward_spec(),
                                              {.element_bytes = 1, .query_extra_bytes = 4, .row_extra_bytes = 4},
                                              {DType::fp8_e4m3, DType::fp8_e5m2},
                                              "Fp8Queries"}};
  return all;
}

TileConfig config_of(int block_query, int ring, int query_buffers, int persistent) {
  return {std::string(kPath),
          {{"block_query", block_query}, {"ring", ring}, {"query_buffers", query_buffers}, {"persistent", persistent}}};
}

}  // namespace

TEST_CASE("the hopper_queries path is for compute capability 9.0, as far as the queries fit") {
  for (const QueriesOp &op : queries_ops()) {
    CAPTURE(op.spec.name);
    for (const std::int64_t d : {1, 16, 48, 64, 96, 128, 256, 320}) CHECK_FALSE(op.admitted(d, "sm_90a").empty());
    CHECK(op.admitted(128, "sm_90a").size() == 3);
    // As docs/architecture.md says.
    const std::int64_t widest = op.rows.element_bytes == 2 ? 320 : 768;
    CHECK_FALSE(op.admitted(widest, "sm_90a").empty());
    CHECK(op.admitted(widest + 1, "sm_90a").empty());
    CHECK(op.admitted(128, "sm_80").empty());
    CHECK(op.admitted(128, "sm_100a").empty());
    CHECK(tune::admission_problem(op.key(1024), config_of(256, 16, 1, 1), Layout::aligned16,
                                  cuda::parse_architecture("sm_90a").limits)
              .find("a ring needs at least 3") != std::string::npos);
  }
}

TEST_CASE("admission to hopper_queries survives any tunables") {
  for (const QueriesOp &op : queries_ops()) {
    for (const std::string_view tunable : ops::kQueryRowsTunables) {
      for (const int value : {-2147483647 - 1, -1, 0, 1, 2, 3, 31, 64, 128, 512, 4096, 2147483647}) {
        TileConfig config = config_of(256, 16, 1, 1);
        config.tunables[std::string(tunable)] = value;
        CAPTURE(tunable);
        CAPTURE(value);
        const std::string why =
            tune::admission_problem(op.key(128), config, Layout::aligned16, cuda::parse_architecture("sm_90a").limits);
        const bool is_accepted = tunable == "block_query"     ? value == 128 || value == 256
                                 : tunable == "query_buffers" ? value == 1 || value == 2
                                 : tunable == "ring"          ? value >= 1 && value <= 64
                                                              : value >= 0 && value <= 64;
        CHECK((why.find("out of range") == std::string::npos) == is_accepted);
      }
    }
  }
}

// The kernel says what it takes, the host what it gives: compiled with every feature, and these assertions behind it.
TEST_CASE("a launch of hopper_queries has the shared memory and the threads that the kernel was compiled for") {
  struct Case {
    TileConfig config;
    int d = 0;
  };
  const auto nvrtc = cuda::Nvrtc::load({});
  jit::KernelSources sources("");
  for (const QueriesOp &op : queries_ops()) {
    for (const Case &compiled : {Case{config_of(256, 16, 1, 1), 128}, Case{config_of(256, 16, 2, 1), 64},
                                 Case{config_of(128, 9, 2, 0), 320}}) {
      const TileConfig &config = compiled.config;
      const int d = compiled.d;
      CAPTURE(op.spec.name);
      CAPTURE(to_string(config));
      const cuda::Architecture architecture = cuda::parse_architecture("sm_90a");
      const tune::AutotuneKey key = op.key(d);
      REQUIRE(tune::admission_problem(key, config, Layout::aligned16, architecture.limits) == "");
      const Sizes statics = key.bucket().static_sizes();
      const PathSpec &path = op.spec.paths[static_cast<std::size_t>(find_named(op.spec.paths, kPath))];
      const KernelLaunch launch =
          path.geometry({config, {32, 5, 32, 300, d}, statics, key.dtypes().all(), 132}).launches[0];
      const jit::Specialization specialization =
          testing::specialization_of(key, config, op.spec.all_features(), Layout::aligned16, architecture);
      const ops::HopperMemory memory = ops::query_rows_memory(ops::query_rows_tile(config), op.rows, d);
      const std::string check = fmt::format(
          "namespace msj {{ using Block = QueryRowsForward<{}>; static_assert(Block::small_at + Block::small_reserve "
          "== {} && Block::threads == {} && Block::stages == {} && Block::tile_stages == {} && Block::query_bytes == "
          "{}); }}\n",
          op.kernel_class, launch.shared_bytes, launch.threads, memory.stages, memory.tile_stages, memory.query_bytes);
      Counters counters;
      CHECK_NOTHROW(std::ignore = nvrtc->compile(jit::translation_unit(specialization, sources) + check, "queries.cu",
                                                 architecture, jit::compile_options(), counters));
    }
  }
}

// As the kernel walks it (its own walk runs in the GPU tests): block b, lanes, documents a stride of the grid apart.
TEST_CASE("the grid of hopper_queries leaves out no pair of query group and document") {
  const QueriesOp &op = queries_ops().front();
  for (const TileConfig &config : {config_of(256, 16, 1, 1), config_of(128, 16, 1, 0)}) {
    const ops::QueryRowsTile tile = ops::query_rows_tile(config);
    for (const ops::HopperSizes sizes :
         {ops::HopperSizes{1, 1000, 32}, {3, 7, 5}, {300, 11, 32}, {2, 300, 1024}, {1, 1, 0}, {1290, 129, 8}}) {
      CAPTURE(to_string(config));
      const std::int64_t padded = std::max<std::int64_t>((sizes.Lq + 7) / 8 * 8, 8);
      const std::int64_t fitting = std::max<std::int64_t>(tile.block_query / padded, 1);
      const std::int64_t groups = (sizes.Nq + fitting - 1) / fitting;
      const std::int64_t grid = ops::query_rows_launch(tile, op.rows, sizes, 128, 132).launches[0].grid;
      if (config.at("persistent") > 0) CHECK(grid <= std::max<std::int64_t>(132, groups));
      std::set<std::pair<std::int64_t, std::int64_t>> scored;
      const std::int64_t lanes = std::min(groups, grid), step = grid / lanes;
      for (std::int64_t block = 0; block < grid; ++block) {
        if (block / lanes >= step) continue;
        for (std::int64_t group = block % lanes; group < groups; group += lanes) {
          for (std::int64_t j = block / lanes; j < sizes.Nd; j += step) CHECK(scored.emplace(group, j).second);
        }
      }
      CHECK(static_cast<std::int64_t>(scored.size()) == groups * sizes.Nd);
    }
  }
  CHECK(ops::query_rows_launch(ops::query_rows_tile(config_of(256, 16, 1, 1)), op.rows, {0, 5, 32}, 128, 132).count ==
        0);
}
