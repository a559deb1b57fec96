// What a reference asks of a checked call, by the names of the op's table: one engine serves ops whose operands lie at
// different places.
#pragma once

#include "base/call.h"
#include "base/error.h"

namespace msj::reference {

template <typename Spec>
[[nodiscard]] inline std::size_t index_of(const BoundCall &call, std::span<const Spec> specs, std::string_view name) {
  const int index = find_named(specs, name);
  if (index < 0) throw_error(MSJ_ERROR_INTERNAL, "{} has no {} in its table", call.op->name, name);
  return static_cast<std::size_t>(index);
}

[[nodiscard]] inline const TensorView &operand(const BoundCall &call, std::string_view name) {
  return call.operands[index_of(call, call.op->operands, name)];
}

[[nodiscard]] inline std::int64_t size(const BoundCall &call, std::string_view name) {
  return call.sizes[index_of(call, call.op->sizes, name)];
}

[[nodiscard]] inline bool has_feature(const BoundCall &call, std::string_view name) {
  return ((call.features >> index_of(call, call.op->features, name)) & 1U) != 0;
}

[[nodiscard]] inline std::int64_t param(const BoundCall &call, std::string_view name) {
  return call.params[index_of(call, call.op->params, name)];
}

// The element offset of (a, b) in the leading dimensions; of a single value, whose strides are 0, always its own.
[[nodiscard]] inline std::int64_t offset(const TensorView &view, std::int64_t a, std::int64_t b) {
  return a * view.strides[0] + b * view.strides[1];
}

}  // namespace msj::reference
