// From the ABI's call to a BoundCall: every rule that a caller can break is checked here, once, from the op's table.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/call.h"
#include "maxsim_jit/maxsim_jit.h"

namespace msj::ops {

// The size of a public struct when `last` was its last field: what the oldest caller passes.
#define MSJ_SIZE_UP_TO(type, last) (offsetof(type, last) + sizeof(type::last))

// A caller's struct of any version: at least `least` bytes, what we do not know must be zero, what it lacks reads zero.
// Throws Error(MSJ_ERROR_INVALID_ARGUMENT) that names `what`.
void check_struct(const void *given, std::size_t known_size, std::size_t least, const char *what);
template <typename T>
[[nodiscard]] T read_struct(const T *given, std::size_t least, const char *what) {
  check_struct(given, sizeof(T), least, what);
  T copy{};
  __builtin_memcpy(&copy, given, given->struct_size < sizeof(T) ? given->struct_size : sizeof(T));
  return copy;
}

enum class DataRule : std::uint8_t {
  needed,   // null data only where no element exists
  ignored,  // prepare: shapes, strides and alignment alone
};

// Throws Error: MSJ_ERROR_INVALID_ARGUMENT naming the argument, or MSJ_ERROR_UNSUPPORTED for a size beyond the limits.
[[nodiscard]] BoundCall bind(const msj_call &call, DataRule data);

// Throws Error(MSJ_ERROR_INVALID_ARGUMENT) that names both operands where a result shares bytes with another operand,
// or where a bounded search can't tell: the order of reads and writes would decide what it holds. Needs data; not asked
// of calls with a plan.
void check_results_apart(const BoundCall &call);

[[nodiscard]] bool has_elements(const TensorView &tensor);
// Nothing to launch: the results have no element.
[[nodiscard]] bool has_no_result(const BoundCall &call);

}  // namespace msj::ops
