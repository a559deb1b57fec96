// The ceilings on the stand-in driver: what is launched, over how many bytes, and that nothing stays.
#include "tune/ceilings.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "cuda/current_context.h"
#include "cuda/nvrtc.h"
#include "jit/specialization.h"
#include "ops/registry.h"
#include "support/fake_cuda.h"
#include "tuning.h"

using namespace msj;
using namespace msj::testing;

namespace {

std::string compiled_ceilings(std::string_view architecture) {
  jit::KernelSources sources("");
  const std::string name(tune::kCeilingsSource);
  Settings settings;
  Counters counters;
  return cuda::Nvrtc::load(settings)
      ->compile(sources.expanded(name), name, cuda::parse_architecture(architecture), jit::compile_options(), counters)
      .cubin;
}

BoundCall call_of(const OpSpec &op, std::initializer_list<std::pair<std::string_view, std::int64_t>> sizes,
                  DType dtype) {
  BoundCall call;
  call.op = &op;
  for (const auto &[name, size] : sizes) call.sizes[static_cast<std::size_t>(find_named(op.sizes, name))] = size;
  std::vector<DType> own;
  for (const OperandSpec &operand : op.operands) {
    if (operand.dtype.kind == DtypeRule::Kind::own) own.push_back(dtype);
  }
  call.dtypes = tune::DtypeTuple(op, own).array();
  return call;
}

}  // namespace

TEST_CASE("a read is of the streamed operands, and of an index as much as its documents are") {
  const OpSpec &dense = *ops::find_op(MSJ_DENSE_FORWARD)->spec;
  const auto call = call_of(dense, {{"Nq", 2}, {"Nd", 10}, {"Lq", 32}, {"Ld", 300}, {"d", 128}}, DType::bf16);
  CHECK(tune::ranges_of(call, nullptr).bytes() == 2 * (2 * 32 + 10 * 300) * 128);

  const OpSpec &residual = *ops::find_op(MSJ_RESIDUAL_FORWARD)->spec;
  auto index = call_of(
      residual, {{"Nq", 1}, {"Nd", 10}, {"Lq", 32}, {"Ld", 300}, {"N", 30'000}, {"K", 64}, {"d", 128}, {"nbits", 2}},
      DType::f16);
  const std::int64_t some = tune::ranges_of(index, nullptr).bytes();
  index.sizes[static_cast<std::size_t>(find_named(residual.sizes, "Nd"))] = 100;
  const std::int64_t all = tune::ranges_of(index, nullptr).bytes();
  CHECK(all - some == 27'000 * 32);
  index.sizes[static_cast<std::size_t>(find_named(residual.sizes, "Nd"))] = 1000;  // each token, several times
  CHECK(tune::ranges_of(index, nullptr).bytes() == all);
  index.sizes[static_cast<std::size_t>(find_named(residual.sizes, "Ld"))] = 0;  // not told
  CHECK(tune::ranges_of(index, nullptr).bytes() == all);
  index.sizes[static_cast<std::size_t>(find_named(residual.sizes, "Ld"))] = 300;
  index.sizes[static_cast<std::size_t>(find_named(residual.sizes, "N"))] = 0;  // every document is empty
  CHECK(all - tune::ranges_of(index, nullptr).bytes() == 30'000 * 32);
}

namespace {

// The ceilings of one small problem on the stand-in driver, and what was launched for them.
struct Timed {
  Timed(std::string_view architecture, int compute_capability, int least_rounds = 0) {
    Settings settings;
    settings.libcuda = MSJ_FAKE_LIBCUDA;
    const auto driver = cuda::Driver::load(settings);
    const cuda::ContextGuard current(*driver, gpu.create_context(0));
    const OpSpec &op = *ops::find_op(MSJ_DENSE_FORWARD)->spec;
    const BoundCall call = call_of(op, {{"Nq", 1}, {"Nd", 8}, {"Lq", 32}, {"Ld", 64}, {"d", 64}}, DType::bf16);
    const std::array own = {DType::bf16};
    tune::SweepProblem problem{.op = &op, .sizes = call.sizes, .dtypes = tune::DtypeTuple(op, own)};
    problem.sm_count = 132;
    problem.l2_bytes = std::int64_t{50} << 20;
    problem.compute_capability = compute_capability;
    problem.measuring = tune::Measuring{least_rounds, {}};
    ceilings = tune::time_ceilings(driver, problem, compiled_ceilings(architecture));
  }
  [[nodiscard]] std::size_t count(std::string_view entry) const {
    const auto launches = gpu.launches();
    return static_cast<std::size_t>(
        std::ranges::count_if(launches, [&](const fake::Launch &launch) { return launch.entry == entry; }));
  }

  fake::FakeCuda gpu{MSJ_FAKE_LIBCUDA};
  tune::Ceilings ceilings;
};

}  // namespace

TEST_CASE("an empty launch and reads are timed, and nothing stays") {
  const Timed timed("sm_90a", 90);
  CHECK(timed.ceilings.empty_ms == 1);  // as every launch of this driver
  CHECK(timed.ceilings.loads_ms == 1);
  CHECK(timed.ceilings.bulk_ms == 1);
  CHECK(timed.ceilings.read_ms() == 1);
  CHECK(timed.ceilings.read_bytes == 2 * (32 + 8 * 64) * 64);
  for (const fake::Launch &launch : timed.gpu.launches()) {
    const std::string_view entry = launch.entry;
    CAPTURE(entry);
    CHECK(launch.grid[0] % 132 == 0);
    CHECK(launch.shared_bytes == (entry == "pure_bulk_read" ? 4 * 16 * 1024 : 0));
    if (entry == "empty_launch") {
      CHECK(launch.grid[0] == 132);
      CHECK(launch.block[0] == 128);
      continue;
    }
    REQUIRE(launch.parameter_bytes == sizeof(tune::ReadRanges));
    tune::ReadRanges ranges;
    std::memcpy(&ranges, launch.parameters, sizeof ranges);
    CHECK(ranges.bytes() == timed.ceilings.read_bytes);
  }
  CHECK(timed.count("empty_launch") == 21);  // the first is to warm up
  CHECK(timed.count("pure_read") == 4 * 21);
  CHECK(timed.count("pure_bulk_read") == 3 * 21);
  for (const char *kind : {"buffer", "stream", "event", "library"}) {
    CAPTURE(kind);
    CHECK(timed.gpu.live_handles(kind) == 0);
  }
}

TEST_CASE("every kernel of the ceilings is launched once before any is timed") {
  const Timed timed("sm_90a", 90);
  const auto launches = timed.gpu.launches();
  REQUIRE(launches.size() > 16);
  const auto same = [&](std::size_t a, std::size_t b) {
    return launches[a].entry == std::string_view(launches[b].entry) && launches[a].grid[0] == launches[b].grid[0] &&
           launches[a].block[0] == launches[b].block[0];
  };
  for (std::size_t i = 0; i < 8; ++i) CHECK(same(i, 8 + i));  // the first round has the same order
}

TEST_CASE("a GPU without bulk copies has none, and rounds are as many as are wanted") {
  const Timed timed("sm_80", 80, 30);
  CHECK(timed.ceilings.loads_ms == 1);
  CHECK_FALSE(timed.ceilings.bulk_ms);
  CHECK(timed.ceilings.read_ms() == 1);
  CHECK(timed.count("empty_launch") == 31);
  CHECK(timed.count("pure_bulk_read") == 0);
}

TEST_CASE("the faster read counts") {
  CHECK(tune::Ceilings{.loads_ms = 2, .bulk_ms = 3.0}.read_ms() == 2);
  CHECK(tune::Ceilings{.loads_ms = 2, .bulk_ms = 1.0}.read_ms() == 1);
}
