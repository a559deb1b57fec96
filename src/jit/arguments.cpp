#include "jit/arguments.h"

#include <bit>

namespace msj::jit {

// NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): words_
Arguments::Arguments(const BoundCall &call, void *workspace) {
  const OpSpec &op = *call.op;
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const TensorView &tensor = call.operands[i];
    push(tensor.present ? reinterpret_cast<std::uintptr_t>(tensor.data) : 0);
    for (int r = 0; r < op.operands[i].rank; ++r) {
      // A present operand without elements may come with null and strides of 0, as an absent one has: it gets others.
      const bool is_empty = tensor.present && tensor.data == nullptr;
      push(std::bit_cast<std::uint64_t>(is_empty ? 1 : tensor.strides[static_cast<std::size_t>(r)]));
    }
  }
  for (std::size_t i = 0; i < op.sizes.size(); ++i) push(std::bit_cast<std::uint64_t>(call.sizes[i]));
  for (std::size_t i = 0; i < op.params.size(); ++i) push(std::bit_cast<std::uint64_t>(call.params[i]));
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    if (!has_run_time_dtype(op.operands[i])) continue;
    const DType passed = call.operands[i].present ? call.operands[i].dtype : call.dtypes[i];
    push(static_cast<std::uint64_t>(passed));
  }
  push(reinterpret_cast<std::uintptr_t>(workspace));
  if (op.in_rounds) {
    round_at_ = count_;
    push(0);
  }
}

void Arguments::add(const CUtensorMap &map) {
  while (count_ % kAlignedWords != 0) push(0);
  for (const std::uint64_t word : map.opaque) push(word);
}

}  // namespace msj::jit
