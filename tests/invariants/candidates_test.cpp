// The tuner is real: whichever candidate the clock favours, the entry names it, and the launch uses its cubin and its
// geometry, in both layout classes. With the real kernels.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "store/cubin_store.h"
#include "support/session.h"
#include "tune/config_json.h"

using namespace msj;
using namespace msj::testing;

namespace {

// What the disk says that a cubin is.
nlohmann::json key_of_image(const std::string &cache, const fake::Launch &launch) {
  const std::string_view image(static_cast<const char *>(launch.image), launch.image_bytes);
  for (const auto &path : cubin_files(cache)) {
    std::string why;
    const auto file = store::decode_cubin(read_text(path), why);
    REQUIRE_MESSAGE(file, why);
    if (file->cubin == image) return nlohmann::json::parse(file->key);
  }
  FAIL("the launched cubin is not in the cache");
  return {};
}

Tunables tunables_of(const nlohmann::json &config) {
  Tunables tunables;
  for (const auto &[name, value] : config.items()) tunables[name] = value.get<int>();
  return tunables;
}

// Launches this call and checks that exactly this config's kernel ran.
void check_launch(Session &session, FakeGpu &gpu, const std::string &cache, const CallShape &shape,
                  const TileConfig &config) {
  const std::size_t before = gpu->launch_count();
  session.must_run(shape);
  const PathSpec &path = shape.op->paths[static_cast<std::size_t>(find_named(shape.op->paths, config.path))];
  const tune::DtypeTuple dtypes(*shape.op, shape.own);
  const Sizes static_sizes = session.key(shape).bucket().static_sizes();
  const int sm_count = session.pipeline().device(0).limits.sm_count;
  const LaunchList expected =
      path.geometry({config, shape.sizes, static_sizes, dtypes.all(), sm_count, shape.features});
  REQUIRE(gpu->launch_count() == before + static_cast<std::size_t>(expected.count));
  for (int i = 0; i < expected.count; ++i) {
    const KernelLaunch &wanted = expected.launches[static_cast<std::size_t>(i)];
    fake::Launch launch{};
    REQUIRE(gpu->launch(before + static_cast<std::size_t>(i), &launch));
    CHECK(path.entries[static_cast<std::size_t>(wanted.entry)] == launch.entry);
    CHECK(launch.grid[0] == wanted.grid);
    CHECK(launch.grid[1] * launch.grid[2] == 1);
    CHECK(launch.block[0] == static_cast<unsigned>(wanted.threads));
    CHECK(launch.block[1] * launch.block[2] == 1);
    CHECK(launch.shared_bytes == static_cast<unsigned>(wanted.shared_bytes));
    const auto key = key_of_image(cache, launch);
    CHECK(key["path"] == config.path);
    CHECK(tunables_of(key["config"]) == config.tunables);
    CHECK(key["layout"] == std::string(name(layout_of(shape.streamed))));
    CHECK(key["features"].size() == static_cast<std::size_t>(std::popcount(shape.features)));
  }
}

}  // namespace

TEST_CASE("the entry names the favoured candidate, and the launch is its own") {
  for (const ops::Op &op : ops::all_ops()) {
    CAPTURE(op.spec->name);
    FakeGpu gpu;
    const ScratchDirectory cache;
    CallShape shape = small_call(*op.spec, op.spec->representative_features);
    std::vector<tune::Admitted> admitted;
    {
      const ScratchDirectory nowhere;
      Session session(nowhere.path(), "off");
      admitted = session.admission(shape).admitted;
    }
    for (const tune::Admitted &favoured : admitted) {
      CAPTURE(to_string(favoured.config));
      CAPTURE(name(favoured.layout));
      for (const auto &path : entry_files(cache.path())) std::filesystem::remove(path);
      Session session(cache.path(), "on", [&](const tune::SweepProblem &, const tune::Trial &trial) {
        return trial.config == favoured.config && trial.layout == favoured.layout ? 1.0 : 2.0;
      });
      shape.streamed = favoured.layout == Layout::aligned16 ? Strides::contiguous : Strides::offset_by_one;
      check_launch(session, gpu, cache.path(), shape, favoured.config);
      REQUIRE(entry_files(cache.path()).size() == 1);
      const auto entry = nlohmann::ordered_json::parse(read_text(entry_files(cache.path()).front()));
      const char *field = favoured.layout == Layout::aligned16 ? "config" : "config_any";
      CHECK(tune::config_from_json(entry[field]) == favoured.config);
    }
  }
}

TEST_CASE("dense_forward has 12 candidates for bf16 at d 128 on sm_90a, 6 of them for any layout") {
  FakeGpu gpu;
  const ScratchDirectory cache;
  Session session(cache.path(), "off");
  CallShape shape = small_call(*ops::find_op("dense_forward")->spec);
  REQUIRE(shape.own == std::vector<DType>{DType::bf16});
  int aligned = 0;
  int any = 0;
  for (const tune::Admitted &admitted : session.admission(shape).admitted) {
    ++(admitted.layout == Layout::aligned16 ? aligned : any);
  }
  CHECK(aligned >= 12);
  CHECK(any >= 6);
}
