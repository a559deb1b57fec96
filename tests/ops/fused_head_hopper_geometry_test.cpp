// fused_head_forward's hopper path in the table: where it is admitted, a geometry that is the kernel's, maps of three
// tensors.
#include "ops/fused_head_hopper_geometry.h"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include "base/counters.h"
#include "cuda/architecture.h"
#include "cuda/nvrtc.h"
#include "ops/fused_head_forward.h"
#include "support/session.h"
#include "support/specialization.h"
#include "support/tiny_kernels.h"
#include "tune/space.h"

using namespace msj;
using namespace msj::testing;

namespace {

enum Size : int { Nq, Nd, Lq, Ld, d_out, d_model };

const OpSpec &op() { return ops::fused_head_forward_spec(); }
const PathSpec &hopper() {
  return op().paths[static_cast<std::size_t>(find_named(op().paths, std::string_view("hopper")))];
}
DeviceLimits limits_of(std::string_view architecture) { return cuda::parse_architecture(architecture).limits; }

tune::AutotuneKey key_of(DType dtype, std::int64_t out, std::int64_t model) {
  const auto rules = tune::BucketRules::parse(tune::BucketRules::embedded());
  return {op(), rules.bucket(op(), {1, 1000, 32, 300, out, model}), tune::DtypeTuple(op(), std::vector{dtype})};
}

std::vector<TileConfig> admitted(DType dtype, std::int64_t out, std::int64_t model, const DeviceLimits &limits) {
  std::vector<TileConfig> configs;
  for (const auto &[config, layout] :
       tune::admit(tune::CandidateSpace::embedded(op()), key_of(dtype, out, model), limits).admitted) {
    if (config.path != "hopper") continue;
    CHECK(layout == Layout::aligned16);
    configs.push_back(config);
  }
  return configs;
}

}  // namespace

TEST_CASE("d_out to 128 of 16-bit matrices, any d_model, on compute capability 9.0 with tensor maps") {
  const DeviceLimits limits = limits_of("sm_90a");
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const std::int64_t out : {1, 16, 48, 64, 96, 128}) {
      for (const std::int64_t model : {1, 64, 384, 768, 1024, 8192}) {
        CAPTURE(out);
        CAPTURE(model);
        CHECK(admitted(dtype, out, model, limits).size() == 4);
      }
    }
    CHECK(admitted(dtype, 129, 768, limits).empty());  // the portable path's
    CHECK(admitted(dtype, 128, 768, limits_of("sm_80")).empty());
    CHECK(admitted(dtype, 128, 768, limits_of("sm_100a")).empty());
    DeviceLimits old_driver = limits;
    old_driver.tensor_maps = false;
    CHECK(admitted(dtype, 128, 768, old_driver).empty());
    const TileConfig config = admitted(dtype, 128, 768, limits).front();
    CHECK(tune::admission_problem(key_of(dtype, 128, 768), config, Layout::any, limits).find("aligned16") !=
          std::string::npos);
    CHECK(tune::admission_problem(key_of(dtype, 512, 768), config, Layout::aligned16, limits).find("d_out is 512") !=
          std::string::npos);
  }
  CHECK(admitted(DType::f32, 128, 768, limits).empty());
}

TEST_CASE("W stays in shared memory where a ring fits beside all of it") {
  const auto stays = [](const ops::FusedHeadHopperTile &tile, int out, int model) {
    return ops::fused_head_hopper_memory(tile, out, model).w_stays;
  };
  const ops::FusedHeadHopperTile tile = {
      .block_query = 32, .scorers = 2, .row_blocks = 2, .ring = 8, .query_buffers = 1};
  CHECK(stays(tile, 128, 384));
  CHECK_FALSE(stays(tile, 128, 768));
  CHECK(stays(tile, 64, 768));
  for (const int model : {64, 384, 768, 8192}) {
    const auto memory = ops::fused_head_hopper_memory(tile, 128, model);
    CHECK(memory.stages >= 3);
    CHECK(memory.block_bytes <= limits_of("sm_90a").shared_bytes_per_block);
  }
}

// The kernel says what it takes, the host what it gives.
TEST_CASE("a launch has the shared memory and the threads that the kernel was compiled for") {
  const auto nvrtc = cuda::Nvrtc::load({});
  Counters counters;
  jit::KernelSources sources("");
  const cuda::Architecture architecture = cuda::parse_architecture("sm_90a");
  struct Sized {
    std::int64_t out, model;
  };
  const std::vector<TileConfig> configs = admitted(DType::bf16, 128, 768, architecture.limits);
  REQUIRE(configs.size() == 4);
  const std::array<Sized, 4> sized = {{{128, 384}, {128, 768}, {48, 1024}, {16, 100}}};
  for (std::size_t i = 0; i < configs.size(); ++i) {
    const TileConfig &config = configs[i];
    const auto [out, model] = sized[i];
    CAPTURE(to_string(config));
    const auto key = key_of(DType::bf16, out, model);
    REQUIRE(tune::admission_problem(key, config, Layout::aligned16, architecture.limits).empty());
    const Sizes statics = key.bucket().static_sizes();
    const KernelLaunch launch =
        hopper().geometry({config, {1, 5, 32, 300, out, model}, statics, key.dtypes().all(), 132}).launches[0];
    const jit::Specialization specialization =
        testing::specialization_of(key, config, op().all_features(), Layout::aligned16, architecture);
    const ops::FusedHeadHopperMemory memory = ops::fused_head_hopper_memory(
        ops::fused_head_hopper_tile(config), static_cast<int>(statics[d_out]), static_cast<int>(statics[d_model]));
    const TensorBox w_box = ops::fused_head_hopper_w_box(static_cast<int>(statics[d_out]));
    const std::string check = fmt::format(
        "namespace msj {{ static_assert(small_at + small_reserve == {} && threads == {} && stages == {} && "
        "w_stays == {} && query_bytes == {} && out_columns == {}); }}\n",
        launch.shared_bytes, launch.threads, memory.stages, memory.w_stays, memory.query_bytes, w_box.extent[0]);
    CHECK_NOTHROW(std::ignore = nvrtc->compile(jit::translation_unit(specialization, sources) + check, "fused.cu",
                                               architecture, jit::compile_options(), counters));
  }
}

TEST_CASE("a grid of at most a block per multiprocessor") {
  CHECK(ops::fused_head_hopper_grid({1, 1000, 32}, 132) == 132);
  CHECK(ops::fused_head_hopper_grid({1, 7, 32}, 132) == 7);
  CHECK(ops::fused_head_hopper_grid({0, 7, 32}, 132) == 0);
  CHECK(ops::fused_head_hopper_grid({1, 0, 32}, 132) == 0);
  CHECK(ops::fused_head_hopper_grid({1, 7, 32}, 0) == 1);
}

TEST_CASE("a launch carries the maps of queries, hidden states and W") {
  const TinyKernels kernels;
  FakeGpu gpu;
  const ScratchDirectory cache;
  Session session(cache.path(), "on", [](const tune::SweepProblem &, const tune::Trial &trial) {
    return trial.config.path == "hopper" ? 1.0 : 2.0;
  });
  CallShape shape = small_call(op());
  for (int i = 0; i < 3; ++i) session.must_run(shape);
  CHECK(gpu->calls("cuTensorMapEncodeTiled") == 3);
  const fake::Launch launch = gpu.last_launch();
  constexpr std::size_t map_words = 16;
  REQUIRE(launch.parameter_bytes % 64 == 0);
  const std::size_t first = launch.parameter_bytes / 8 - 3 * map_words;
  const auto word = [&](std::size_t index) {
    std::uint64_t value = 0;
    std::memcpy(&value, static_cast<const char *>(launch.parameters) + index * 8, 8);
    return value;
  };
  const auto size = [&](int s) { return static_cast<std::uint64_t>(shape.sizes[static_cast<std::size_t>(s)]); };
  const std::array<std::vector<std::uint64_t>, 3> sizes = {
      {{size(d_out), size(Lq), size(Nq)}, {size(d_model), size(Ld), size(Nd)}, {size(d_model), size(d_out)}}};
  for (std::size_t map = 0; map < sizes.size(); ++map) {
    CAPTURE(map);
    const std::size_t at = first + map * map_words;
    CHECK(word(at) == word(map * 4));  // the operand's data: q and h take four words each
    CHECK((word(at + 1) & 0xffU) == sizes[map].size());
    for (std::size_t s = 0; s < sizes[map].size(); ++s) CHECK(word(at + 2 + s) == sizes[map][s]);
    CHECK((word(at + 11) & 0xfffU) == 64);
  }
  // Without a document token there is nothing to map but queries and W.
  shape.sizes[Ld] = 0;
  session.must_run(shape);
  CHECK(session.complaints().empty());
}
