// Calls made from names: sizes, dtypes and a feature set of any op give the call that has them.
#pragma once

#include <cstdint>

#include "cli/op_table.h"
#include "cli/warm_request.h"
#include "maxsim_jit/maxsim_jit.hpp"

namespace msj::cli {

// C-contiguous tensors without data: all that msj_prepare reads. Optional operands are there as the features say, and
// not where no feature speaks of them.
[[nodiscard]] maxsim_jit::Call shapes_only_call(const OpInfo &op, const SizeMap &sizes, const DTypeMap &dtypes,
                                                FeatureSet features, std::int32_t device);

// That of `operand`, where operands with a dtype of their own have `own`.
[[nodiscard]] DType dtype_of(const OperandInfo &operand, const DTypeMap &own);

}  // namespace msj::cli
