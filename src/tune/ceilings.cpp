#include "tune/ceilings.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "cuda/current_context.h"
#include "cuda/module.h"
#include "tune/cold_clock.h"
#include "tune/rounds.h"
#include "tune/scratch.h"

namespace msj::tune {

namespace {

// Of a contiguous operand.
std::int64_t streamed_bytes(const BoundCall &call, std::size_t operand) {
  const OpSpec &op = *call.op;
  const OperandSpec &spec = op.operands[operand];
  std::int64_t row = bytes(call.dtypes[operand]);  // of one step of the first dimension
  for (int r = 1; r < spec.rank; ++r) row *= dim_size(op, call.sizes, spec.dims[static_cast<std::size_t>(r)]);
  std::int64_t rows = dim_size(op, call.sizes, spec.dims[0]);
  if (spec.dims[0] == find_named(op.sizes, "N")) {
    const int documents = find_named(op.sizes, "Nd");
    const std::int64_t tokens =
        documents < 0 ? 0 : call.sizes[static_cast<std::size_t>(documents)] * document_tokens(op, call.sizes);
    if (tokens > 0) rows = std::min(rows, tokens);  // 0: not told
  }
  return rows * row;
}

// The launch that does nothing, and all ways to read that this GPU has.
struct Works {
  std::vector<CeilingLaunch> launches = {kEmptyLaunch};
  std::vector<int> groups = {0};  // those of a group compete

  explicit Works(int compute_capability) {
    add(kLoads);
    if (compute_capability >= kBulkCapability) add(kBulkCopies);
  }
  void add(std::span<const CeilingLaunch> ways) {
    const int group = groups.back() + 1;
    launches.insert(launches.end(), ways.begin(), ways.end());
    groups.resize(launches.size(), group);
  }
  // Nothing: no work is in that group.
  [[nodiscard]] std::optional<double> fastest(std::span<const Timing> timings, int group) const {
    std::optional<double> best;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (groups[i] == group) best = std::min(best.value_or(timings[i].median_ms), timings[i].median_ms);
    }
    return best;
  }
};

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
  ReadRanges ranges = ranges_of(scratch.call(Layout::aligned16), reinterpret_cast<void *>(sink.get()));
  const Works works(problem.compute_capability);
  std::vector<CUfunction> functions;
  for (const CeilingLaunch &work : works.launches) functions.push_back(module.function(work.entry, work.shared_bytes));
  const auto launch = [&](std::size_t i) {
    const CeilingLaunch &work = works.launches[i];
    std::array<void *, 2> parameters = {&ranges, nullptr};
    driver->check(
        driver->LaunchKernel(functions[i], static_cast<unsigned>(problem.sm_count * work.blocks_per_sm), 1, 1,
                             static_cast<unsigned>(work.threads), 1, 1, static_cast<unsigned>(work.shared_bytes),
                             stream.get(), parameters.data(), nullptr),
        "cuLaunchKernel");
  };
  // The first launch of a kernel pays for what is set up once; candidates have theirs before they are timed, too.
  for (std::size_t i = 0; i < functions.size(); ++i) launch(i);
  driver->check(driver->StreamSynchronize(stream.get()), "the kernels of ceilings.cu");
  const auto run_round = [&](std::span<const std::size_t> order) { return clock.round(order, launch); };
  const std::vector<Timing> timings = time_in_rounds(works.groups, run_round, rules_of(problem.measuring));
  return {.empty_ms = timings[0].median_ms,
          .loads_ms = works.fastest(timings, 1).value_or(0),
          .bulk_ms = works.fastest(timings, 2),
          .read_bytes = ranges.bytes()};
}

}  // namespace msj::tune
