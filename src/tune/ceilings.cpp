#include "tune/ceilings.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "cuda/current_context.h"
#include "cuda/module.h"
#include "tune/cold_clock.h"
#include "tune/rounds.h"
#include "tune/scratch.h"

namespace msj::tune {

namespace {

struct Grid {
  int blocks_per_sm;
  int threads;
};
constexpr std::array<Grid, 4> kGrids = {{{2, 512}, {4, 512}, {8, 256}, {4, 256}}};

// Of a contiguous operand.
std::int64_t streamed_bytes(const BoundCall &call, std::size_t operand) {
  const OpSpec &op = *call.op;
  const OperandSpec &spec = op.operands[operand];
  std::int64_t total = bytes(call.dtypes[operand]);
  for (int r = 0; r < spec.rank; ++r) total *= dim_size(op, call.sizes, spec.dims[static_cast<std::size_t>(r)]);
  const auto size = [&](std::string_view name) {
    const int index = find_named(op.sizes, name);
    return index < 0 ? 0 : call.sizes[static_cast<std::size_t>(index)];
  };
  const std::int64_t documents_tokens = size("Nd") * size("Ld");  // 0: not told
  if (spec.dims[0] != find_named(op.sizes, "N") || documents_tokens == 0) return total;
  return std::min(total, total / size("N") * documents_tokens);
}

}  // namespace

ReadRanges ranges_of(const BoundCall &call, void *sink) {
  ReadRanges ranges;
  ranges.sink = sink;
  std::size_t count = 0;
  for (std::size_t i = 0; i < call.op->operands.size(); ++i) {
    if (!call.op->operands[i].streamed) continue;
    if (count == ReadRanges::kMost) throw_error(MSJ_ERROR_INTERNAL, "{} streams too many operands", call.op->name);
    ranges.data[count] = call.operands[i].data;
    ranges.words[count++] = streamed_bytes(call, i) / ReadRanges::kWordBytes;
  }
  return ranges;
}

Ceilings time_ceilings(const std::shared_ptr<const cuda::Driver> &driver, const SweepProblem &problem,
                       std::string_view cubin) {
  const cuda::RelaxedCapture relaxed(*driver);
  const cuda::Stream stream(driver);
  const Scratch scratch(driver, stream, problem);
  const cuda::Buffer sink(driver, sizeof(unsigned));
  ColdClock clock(driver, stream, problem.l2_bytes);
  const cuda::Module module(driver, cubin);
  const CUfunction empty = module.function("empty_launch", 0);
  const CUfunction read = module.function("pure_read", 0);
  ReadRanges ranges = ranges_of(scratch.call(Layout::aligned16), reinterpret_cast<void *>(sink.get()));
  // Work 0 is the empty launch; the reads are the others, and compete.
  const auto launch = [&](std::size_t work) {
    const Grid grid = kGrids[work == 0 ? 0 : work - 1];
    std::array<void *, 2> parameters = {&ranges, nullptr};
    driver->check(
        driver->LaunchKernel(work == 0 ? empty : read, static_cast<unsigned>(problem.sm_count * grid.blocks_per_sm), 1,
                             1, static_cast<unsigned>(grid.threads), 1, 1, 0, stream.get(), parameters.data(), nullptr),
        "cuLaunchKernel");
  };
  const std::array<int, 1 + kGrids.size()> groups = {0, 1, 1, 1, 1};
  const auto timings =
      time_in_rounds(groups, [&](std::span<const std::size_t> order) { return clock.round(order, launch); });
  const auto fastest = std::min_element(timings.begin() + 1, timings.end(),
                                        [](const Timing &a, const Timing &b) { return a.median_ms < b.median_ms; });
  return {timings[0].median_ms, fastest->median_ms, ranges.bytes()};
}

}  // namespace msj::tune
