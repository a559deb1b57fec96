// The ceilings on the stand-in driver: what is launched, over how many bytes, and that nothing stays.
#include "tune/ceilings.h"

#include <doctest/doctest.h>

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

std::string compiled_ceilings() {
  jit::KernelSources sources("");
  const std::string name(tune::kCeilingsSource);
  Settings settings;
  Counters counters;
  return cuda::Nvrtc::load(settings)
      ->compile(sources.expanded(name), name, toy_device().architecture, jit::compile_options(), counters)
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
}

TEST_CASE("an empty launch and reads are timed, and nothing stays") {
  fake::FakeCuda gpu(MSJ_FAKE_LIBCUDA);
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
  const tune::Ceilings ceilings = tune::time_ceilings(driver, problem, compiled_ceilings());
  CHECK(ceilings.empty_ms == 1);  // as every launch of this driver
  CHECK(ceilings.read_ms == 1);
  CHECK(ceilings.read_bytes == 2 * (32 + 8 * 64) * 64);
  std::size_t reads = 0;
  std::size_t empties = 0;
  for (const fake::Launch &launch : gpu.launches()) {
    CHECK(launch.grid[0] % 132 == 0);
    if (launch.entry == std::string("empty_launch")) {
      ++empties;
      continue;
    }
    ++reads;
    REQUIRE(launch.entry == std::string("pure_read"));
    REQUIRE(launch.parameter_bytes == sizeof(tune::ReadRanges));
    tune::ReadRanges ranges;
    std::memcpy(&ranges, launch.parameters, sizeof ranges);
    CHECK(ranges.bytes() == ceilings.read_bytes);
  }
  CHECK(empties >= 5);
  CHECK(reads == 4 * empties);
  for (const char *kind : {"buffer", "stream", "event", "library"}) {
    CAPTURE(kind);
    CHECK(gpu.live_handles(kind) == 0);
  }
}
