#include "cli/score_norms.h"

#include <algorithm>

namespace msj::cli {

const OperandInfo *norms_operand(const OpInfo &op) {
  const auto normalize = std::ranges::find(op.features, "normalize", &FeatureInfo::name);
  if (normalize == op.features.end() || normalize->source != FeatureInfo::Source::presence) return nullptr;
  return op.find_operand(normalize->operand);
}

HostTensor compute_norms(const maxsim_jit::Context &context, std::span<const OpInfo> ops, const ScoreJob &job,
                         const SizeMap &sizes, std::int32_t device) {
  ScoreJob norms;
  norms.op = &find_op(ops, "residual_norms");
  norms.flags = job.flags;  // how bits are read is said to both in the same words
  for (const HostTensor &input : job.inputs) {
    const OperandInfo *operand = norms.op->find_operand(input.operand->name);
    if (operand == nullptr) continue;
    norms.inputs.push_back(input);
    norms.inputs.back().operand = operand;
  }
  norms.results.push_back(make_result(*norms.op->find_operand("inv_norms"), sizes));
  run_score_job(context, norms, device);
  HostResult &result = norms.results.front();
  return make_tensor(*norms_operand(*job.op), "--normalize", result.operand->canonical, result.shape,
                     std::make_shared<std::vector<std::byte>>(std::move(result.data)));
}

}  // namespace msj::cli
