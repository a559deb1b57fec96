// Every op of the library: its table, and its truth on the CPU. The one place that knows them all.
#pragma once

#include <span>
#include <string_view>

#include "base/call.h"
#include "base/op_spec.h"

namespace msj::ops {

struct Op {
  const OpSpec *spec;
  void (*reference)(const BoundCall &);  // host tensors, float64 accumulation
};

[[nodiscard]] std::span<const Op> all_ops();
[[nodiscard]] const Op *find_op(msj_op id);  // null if there is none
[[nodiscard]] const Op *find_op(std::string_view name);

}  // namespace msj::ops
