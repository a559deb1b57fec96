// `--normalize` where rows are normalized by an operand that another op computes: residual_norms of the same documents,
// on the same device.
#pragma once

#include <cstdint>
#include <span>

#include "cli/score_run.h"

namespace msj::cli {

// The operand whose presence is the op's feature `normalize`, and which residual_norms gives; null: none.
[[nodiscard]] const OperandInfo *norms_operand(const OpInfo &op);

// That operand, for the documents that the job's inputs name. Throws maxsim_jit::Error.
[[nodiscard]] HostTensor compute_norms(const maxsim_jit::Context &context, std::span<const OpInfo> ops,
                                       const ScoreJob &job, const SizeMap &sizes, std::int32_t device);

}  // namespace msj::cli
