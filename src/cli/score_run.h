// One call of the library on tensors in host memory: on the CPU in place, on a GPU by way of copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cli/console.h"
#include "cli/op_table.h"
#include "cli/score_input.h"
#include "cli/warm_request.h"
#include "maxsim_jit/maxsim_jit.hpp"

namespace msj::cli {

struct HostResult {
  const OperandInfo *operand = nullptr;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> data;  // C order
};

struct ScoreJob {
  const OpInfo *op = nullptr;
  std::vector<HostTensor> inputs;
  std::vector<HostResult> results;  // the op's first result, then those that were asked for
  std::uint64_t flags = 0;
  std::vector<msj_param> params;
};

// Zeroed and of the shape that the sizes give. Throws Failure where its bytes cannot be counted.
[[nodiscard]] HostResult make_result(const OperandInfo &operand, const SizeMap &sizes);

// The device asked for; else the first CUDA device, or the CPU (said on the console) where there is none.
[[nodiscard]] std::int32_t choose_device(const maxsim_jit::Context &context, std::optional<std::int32_t> asked_for,
                                         Console &console);

// Fills job.results. Throws maxsim_jit::Error.
void run_score_job(const maxsim_jit::Context &context, ScoreJob &job, std::int32_t device);

}  // namespace msj::cli
