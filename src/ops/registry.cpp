#include "ops/registry.h"

#include <array>

#include "ops/dense_forward.h"
#include "ops/fp8_forward.h"
#include "ops/fp8_quantize.h"
#include "ops/fused_head_forward.h"
#include "ops/residual_forward.h"
#include "ops/residual_norms.h"
#include "reference/dense_forward.h"
#include "reference/fp8_forward.h"
#include "reference/fp8_quantize.h"
#include "reference/fused_head_forward.h"
#include "reference/residual_forward.h"
#include "reference/residual_norms.h"

namespace msj::ops {

std::span<const Op> all_ops() {
  static const std::array<Op, 6> ops = {{
      {&dense_forward_spec(), reference::dense_forward},
      {&fp8_forward_spec(), reference::fp8_forward},
      {&fp8_quantize_spec(), reference::fp8_quantize},
      {&fused_head_forward_spec(), reference::fused_head_forward},
      {&residual_forward_spec(), reference::residual_forward},
      {&residual_norms_spec(), reference::residual_norms},
  }};
  return ops;
}

const Op *find_op(msj_op id) {
  for (const Op &op : all_ops()) {
    if (op.spec->id == id) return &op;
  }
  return nullptr;
}

const Op *find_op(std::string_view name) {
  for (const Op &op : all_ops()) {
    if (op.spec->name == name) return &op;
  }
  return nullptr;
}

}  // namespace msj::ops
