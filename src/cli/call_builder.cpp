#include "cli/call_builder.h"

#include <vector>

#include "cli/failure.h"

namespace msj::cli {
namespace {

std::vector<std::int64_t> shape_of(const OpInfo &op, const OperandInfo &operand, const SizeMap &sizes, bool full_rank) {
  if (!full_rank) return {1};  // one scale for the whole tensor
  std::vector<std::int64_t> shape;
  for (const std::string &dim : operand.dims) shape.push_back(op.dim_size(sizes, dim));
  return shape;
}

struct Presence {
  bool present;
  bool full_rank;
};

Presence presence_of(const OpInfo &op, const OperandInfo &operand, FeatureSet features) {
  Presence presence{!operand.optional, true};
  for (std::size_t f = 0; f < op.features.size(); ++f) {
    const FeatureInfo &feature = op.features[f];
    if (feature.source == FeatureInfo::Source::flag || feature.operand != operand.name) continue;
    const bool on = (features >> f & 1) != 0;
    if (on || feature.source == FeatureInfo::Source::presence) presence.present = on;
    if (feature.source == FeatureInfo::Source::rank) presence.full_rank = on;
  }
  return presence;
}

}  // namespace

DType dtype_of(const OperandInfo &operand, const DTypeMap &own) {
  if (operand.kind == OperandInfo::DTypeKind::fixed) return operand.canonical;
  return own.find(operand.kind == OperandInfo::DTypeKind::own ? operand.name : operand.follows)->second;
}

maxsim_jit::Call shapes_only_call(const OpInfo &op, const SizeMap &sizes, const DTypeMap &dtypes, FeatureSet features,
                                  std::int32_t device) {
  maxsim_jit::Call call(op.id);
  for (const OperandInfo &operand : op.operands) {
    const Presence presence = presence_of(op, operand, features);
    if (!presence.present) continue;
    const auto shape = shape_of(op, operand, sizes, presence.full_rank);
    call.operand(operand.index, {nullptr, dtype_of(operand, dtypes), shape.data(), shape.size()});
  }
  for (std::size_t f = 0; f < op.features.size(); ++f) {
    if ((features >> f & 1) != 0) call.flag(op.features[f].flag);
  }
  for (const ParamInfo &param : op.params) {
    if (!param.size.empty()) call.param(param.id, sizes.find(param.size)->second);
  }
  return call.launch({.device = device, .stream = nullptr, .workspace = nullptr, .workspace_size = 0, .plan = nullptr});
}

}  // namespace msj::cli
