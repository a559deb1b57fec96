// Wider floats given for an fp8 operand: quantized, with a scale for each token, by the library's own fp8_quantize.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "cli/score_input.h"
#include "maxsim_jit/maxsim_jit.hpp"

namespace msj::cli {

struct Quantized {
  HostTensor values;  // of the operand
  HostTensor scales;  // of the operand that its table names as its scales
};

// Nothing where the operand has no scales, or where `file` holds fp8 (or bytes) already. `to`: --dtype; e4m3 without
// it. `has_scales`: the call has scales of its own. Throws UsageError where they meet wider floats, Failure, and
// maxsim_jit::Error.
[[nodiscard]] std::optional<Quantized> load_quantized(const maxsim_jit::Context &context, std::span<const OpInfo> ops,
                                                      const OpInfo &op, const OperandInfo &operand,
                                                      const std::string &file, bool has_scales, std::optional<DType> to,
                                                      Console &console);

}  // namespace msj::cli
