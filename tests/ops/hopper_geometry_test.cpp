// The hopper paths in their ops' tables: where they are admitted, a geometry that is the kernel's, documents that are
// all taken.
#include "ops/hopper_geometry.h"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <set>

#include "base/counters.h"
#include "cuda/architecture.h"
#include "cuda/nvrtc.h"
#include "ops/dense_forward.h"
#include "ops/fp8_forward.h"
#include "ops/residual_forward.h"
#include "support/session.h"
#include "support/specialization.h"
#include "support/tiny_kernels.h"
#include "tune/space.h"

using namespace msj;
using namespace msj::testing;

namespace {

struct HopperOp {
  const OpSpec &spec;
  ops::HopperRows rows;  // as its table has them
  std::vector<std::vector<DType>> dtypes;
  std::string_view kernel_class;
  int widest;  // of d, of those that are tried

  [[nodiscard]] const PathSpec &path() const {
    return spec.paths[static_cast<std::size_t>(find_named(spec.paths, std::string_view("hopper")))];
  }
  [[nodiscard]] tune::AutotuneKey key(std::span<const DType> own, std::int64_t d) const {
    const auto rules = tune::BucketRules::parse(tune::BucketRules::embedded());
    return {spec, rules.bucket(spec, {1, 1000, 32, 300, d}), tune::DtypeTuple(spec, own)};
  }
  [[nodiscard]] std::vector<TileConfig> admitted(std::span<const DType> own, std::int64_t d,
                                                 const DeviceLimits &limits) const {
    std::vector<TileConfig> configs;
    for (const auto &[config, layout] :
         tune::admit(tune::CandidateSpace::embedded(spec), key(own, d), limits).admitted) {
      if (config.path != "hopper") continue;
      CHECK(layout == Layout::aligned16);
      configs.push_back(config);
    }
    return configs;
  }
};

const std::vector<HopperOp> &hopper_ops() {
  static const std::vector<HopperOp> all = {
      {ops::dense_forward_spec(),
       {.element_bytes = 2, .query_extra_bytes = 8},
       {{DType::bf16}, {DType::f16}},
       "DenseForward",
       1024},
      {ops::fp8_forward_spec(),
       {.element_bytes = 1, .query_extra_bytes = 4, .row_extra_bytes = 4, .separate_sums = true},
       {{DType::fp8_e4m3, DType::fp8_e4m3}, {DType::fp8_e5m2, DType::fp8_e4m3}, {DType::fp8_e4m3, DType::fp8_e5m2}},
       "Fp8Forward",
       2048}};
  return all;
}

DeviceLimits limits_of(std::string_view architecture) { return cuda::parse_architecture(architecture).limits; }

TileConfig config_of(int block_query, int scorers, int ring, int query_buffers, int min_blocks, int persistent) {
  return {"hopper",
          {{"block_query", block_query},
           {"scorers", scorers},
           {"ring", ring},
           {"query_buffers", query_buffers},
           {"min_blocks", min_blocks},
           {"persistent", persistent}}};
}

}  // namespace

TEST_CASE("the hopper path is for compute capability 9.0, with a driver that encodes tensor maps") {
  for (const HopperOp &op : hopper_ops()) {
    for (const auto &own : op.dtypes) {
      CAPTURE(op.spec.name);
      CHECK(op.admitted(own, 128, limits_of("sm_90a")).size() >= 4);
      for (const std::int64_t d : {1, 16, 48, 64, 96, 128, 256, 320, 768, op.widest}) {
        CAPTURE(d);
        CHECK_FALSE(op.admitted(own, d, limits_of("sm_90a")).empty());
      }
      CHECK(op.admitted(own, 4096, limits_of("sm_90a")).empty());  // the portable path's
      CHECK(op.admitted(own, 128, limits_of("sm_80")).empty());
      CHECK(op.admitted(own, 128, limits_of("sm_100a")).empty());
      DeviceLimits old_driver = limits_of("sm_90a");
      old_driver.tensor_maps = false;
      CHECK(op.admitted(own, 128, old_driver).empty());
      const TileConfig config = op.admitted(own, 128, limits_of("sm_90a")).front();
      CHECK(tune::admission_problem(op.key(own, 128), config, Layout::aligned16, old_driver)
                .find("cuTensorMapEncodeTiled") != std::string::npos);
      CHECK(tune::admission_problem(op.key(own, 128), config, Layout::any, limits_of("sm_90a")).find("aligned16") !=
            std::string::npos);
    }
  }
  const HopperOp &dense = hopper_ops().front();
  CHECK(dense.admitted(std::vector{DType::f32}, 128, limits_of("sm_90a")).empty());
}

TEST_CASE("admission survives any tunables") {
  for (const HopperOp &op : hopper_ops()) {
    for (const std::string_view tunable : op.path().tunables) {
      for (const int value : {-2147483647 - 1, -1, 0, 1, 2, 3, 31, 128, 512, 4096, 2147483647}) {
        TileConfig config = config_of(32, 1, 12, 1, 2, 0);
        config.tunables[std::string(tunable)] = value;
        CAPTURE(tunable);
        CAPTURE(value);
        const std::string why =
            tune::admission_problem(op.key(op.dtypes[0], 128), config, Layout::aligned16, limits_of("sm_90a"));
        if (value < 0 || value > 256) CHECK(why.find("out of range") != std::string::npos);
      }
    }
  }
}

namespace {

// The kernel says what it takes, the host what it gives: compiled with every feature, and these assertions behind it.
void check_launch(const OpSpec &op, const tune::AutotuneKey &key, const Sizes &sizes, const TileConfig &config,
                  const ops::HopperRows &rows, int static_d, std::string_view kernel_class) {
  const auto nvrtc = cuda::Nvrtc::load({});
  Counters counters;
  jit::KernelSources sources("");
  const cuda::Architecture architecture = cuda::parse_architecture("sm_90a");
  CAPTURE(op.name);
  CAPTURE(to_string(config));
  REQUIRE(tune::admission_problem(key, config, Layout::aligned16, architecture.limits) == "");
  const Sizes statics = key.bucket().static_sizes();
  const PathSpec &path = op.paths[static_cast<std::size_t>(find_named(op.paths, std::string_view("hopper")))];
  const KernelLaunch launch = path.geometry({config, sizes, statics, key.dtypes().all(), 132}).launches[0];
  const jit::Specialization specialization =
      testing::specialization_of(key, config, op.all_features(), Layout::aligned16, architecture);
  const ops::HopperMemory memory = ops::hopper_memory(ops::hopper_tile(config), rows, static_d);
  const std::string check = fmt::format(
      "namespace msj {{ using Block = HopperForward<{}>; static_assert(Block::small_at + Block::small_reserve == {} "
      "&& Block::threads == {} && Block::stages == {} && Block::tile_stages == {} && Block::query_bytes == {}); }}\n",
      kernel_class, launch.shared_bytes, launch.threads, memory.stages, memory.tile_stages, memory.query_bytes);
  CHECK_NOTHROW(std::ignore = nvrtc->compile(jit::translation_unit(specialization, sources) + check, "hopper.cu",
                                             architecture, jit::compile_options(), counters));
}

}  // namespace

TEST_CASE("a launch has the shared memory and the threads that the kernel was compiled for") {
  struct Case {
    TileConfig config;
    std::int64_t d;
  };
  for (const HopperOp &op : hopper_ops()) {
    for (const auto &[config, d] : {Case{config_of(32, 1, 12, 1, 2, 0), 48}, Case{config_of(64, 1, 12, 1, 2, 2), 320},
                                    Case{config_of(256, 2, 12, 2, 1, 1), 128}}) {
      check_launch(op.spec, op.key(op.dtypes[0], d), {1, 5, 32, 300, d}, config, op.rows, static_cast<int>(d),
                   op.kernel_class);
    }
  }
}

TEST_CASE("and so has one of residual_forward, whose rows are made by warps of the block") {
  const OpSpec &op = ops::residual_forward_spec();
  const auto rules = tune::BucketRules::parse(tune::BucketRules::embedded());
  const std::vector<DType> own = {DType::f16, DType::f16};
  const auto with_loaders = [](TileConfig config, int loaders) {
    config.tunables["loaders"] = loaders;
    return config;
  };
  for (const std::int64_t nbits : {1, 2, 4, 8}) {
    for (const TileConfig &config :
         {with_loaders(config_of(32, 1, 12, 1, 2, 2), 7), with_loaders(config_of(128, 2, 12, 1, 1, 1), 3),
          with_loaders(config_of(32, 1, 8, 1, 3, 0), 5)}) {
      const Sizes sizes = {1, 1000, 32, 300, 300'000, 65'536, 128, nbits};
      const tune::AutotuneKey key{op, rules.bucket(op, sizes), tune::DtypeTuple(op, own)};
      if (nbits == 8 && config.at("block_query") == 128) {
        CHECK(tune::admission_problem(key, config, Layout::aligned16, limits_of("sm_90a")).find("no registers") !=
              std::string::npos);
        continue;
      }
      const int fields = nbits == 8 ? 256 : 1 << (2 * nbits);
      check_launch(op, key, sizes, config,
                   {.element_bytes = 2, .row_extra_bytes = 4, .shared_bytes = fields * (nbits <= 2 ? 32 : 8) * 4}, 128,
                   "ResidualHopper");
    }
  }
  // Two scorers leave no registers to more.
  const tune::AutotuneKey key{op, rules.bucket(op, {1, 1000, 32, 300, 300'000, 65'536, 128, 2}),
                              tune::DtypeTuple(op, own)};
  CHECK(tune::admission_problem(key, with_loaders(config_of(128, 2, 12, 1, 1, 1), 4), Layout::aligned16,
                                limits_of("sm_90a"))
            .find("3 loaders each") != std::string::npos);
}

// What the kernel's walk does with the grid, in its own words: block b, lanes, documents a stride of the grid apart.
TEST_CASE("every pair of query group and document is scored once") {
  const HopperOp &op = hopper_ops().front();
  for (const TileConfig &config : op.admitted(op.dtypes[0], 128, limits_of("sm_90a"))) {
    const ops::HopperTile tile = ops::hopper_tile(config);
    for (const ops::HopperSizes sizes :
         {ops::HopperSizes{1, 1000, 32}, {3, 7, 5}, {300, 11, 32}, {2, 300, 1024}, {1, 1, 0}, {129, 129, 8}}) {
      CAPTURE(to_string(config));
      const std::int64_t padded = std::max<std::int64_t>((sizes.Lq + 7) / 8 * 8, 8);
      const std::int64_t fitting = std::max<std::int64_t>(tile.block_query / padded, 1);
      const std::int64_t groups = (sizes.Nq + fitting - 1) / fitting;
      const std::int64_t grid = ops::hopper_launch(tile, op.rows, sizes, 128, 132).launches[0].grid;
      std::set<std::pair<std::int64_t, std::int64_t>> scored;
      const std::int64_t lanes = std::min(groups, grid), step = grid / lanes * tile.scorers;
      for (std::int64_t block = 0; block < grid; ++block) {
        const std::int64_t first = block / lanes * tile.scorers;
        if (first >= step) continue;
        for (std::int64_t group = block % lanes; group < groups; group += lanes) {
          for (std::int64_t round = first; round < sizes.Nd; round += step) {
            for (std::int64_t j = round; j < std::min(round + tile.scorers, sizes.Nd); ++j) {
              CHECK(scored.emplace(group, j).second);
            }
          }
        }
      }
      CHECK(static_cast<std::int64_t>(scored.size()) == groups * sizes.Nd);
    }
  }
}

TEST_CASE("a launch carries the maps of its tensors, encoded once for each tensor") {
  for (const HopperOp &op : hopper_ops()) {
    CAPTURE(op.spec.name);
    const TinyKernels kernels;
    FakeGpu gpu;
    const ScratchDirectory cache;
    Session session(cache.path(), "on", [](const tune::SweepProblem &, const tune::Trial &trial) {
      return trial.config.path == "hopper" ? 1.0 : 2.0;
    });
    CallShape shape = small_call(op.spec);
    for (int i = 0; i < 3; ++i) session.must_run(shape);
    CHECK(gpu->calls("cuTensorMapEncodeTiled") == 2);
    const fake::Launch launch = gpu.last_launch();
    const std::size_t map_words = 16, all_words = launch.parameter_bytes / 8;
    REQUIRE(launch.parameter_bytes % 64 == 0);
    REQUIRE(all_words > 2 * map_words);
    const auto word = [&](std::size_t index) {
      std::uint64_t value = 0;
      std::memcpy(&value, static_cast<const char *>(launch.parameters) + index * 8, 8);
      return value;
    };
    for (const std::size_t operand : {0U, 1U}) {  // q and d, in the ops' tables and in the arguments
      const std::size_t at = all_words - (2 - operand) * map_words;
      const auto size = [&](std::size_t s) {
        return static_cast<std::uint64_t>(shape.sizes[static_cast<std::size_t>(op.spec.operands[operand].dims[s])]);
      };
      CHECK(word(at) == word(operand * 4));  // the operand's data
      for (std::size_t s = 0; s < 3; ++s) CHECK(word(at + 2 + s) == size(2 - s));
      CHECK((word(at + 11) & 0xfffU) == static_cast<std::uint64_t>(128 / op.rows.element_bytes));
    }
    // Without a document token there is nothing to map.
    shape.sizes[3] = 0;
    session.must_run(shape);
    CHECK(session.complaints().empty());
  }
}

TEST_CASE("what no tensor map expresses is of class any, and runs on the portable path") {
  for (const HopperOp &op : hopper_ops()) {
    CAPTURE(op.spec.name);
    const TinyKernels kernels;
    FakeGpu gpu;
    const ScratchDirectory cache;
    Session session(cache.path());
    OpCall call(small_call(op.spec));
    call.tensor("q").strides[0] = 0;
    REQUIRE(session.run(call) == MSJ_OK);
    CHECK(gpu->calls("cuTensorMapEncodeTiled") == 0);
    CHECK(gpu.last_launch().parameter_bytes < 320);  // without maps
  }
}

TEST_CASE("the hopper path of fp8 converts nothing, and nothing says that it does") {
  const TinyKernels kernels;
  FakeGpu gpu;
  for (const bool hopper_wins : {true, false}) {
    const ScratchDirectory cache;
    Session session(cache.path(), "on", [hopper_wins](const tune::SweepProblem &, const tune::Trial &trial) {
      return (trial.config.path != "portable") == hopper_wins ? 1.0 : 2.0;
    });
    session.must_run(small_call(ops::fp8_forward_spec()));
    CHECK(session.said("converted to fp16") == !hopper_wins);
  }
}
