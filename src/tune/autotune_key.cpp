#include "tune/autotune_key.h"

#include <algorithm>

#include "base/error.h"

namespace msj::tune {

namespace {

std::string names(std::span<const DType> dtypes, std::string_view separator) {
  std::string text;
  for (const DType dtype : dtypes) {
    if (!text.empty()) text += separator;
    text += name(dtype);
  }
  return text;
}

}  // namespace

DtypeTuple::DtypeTuple(const OpSpec &op, std::span<const DType> own) : count_(op.operands.size()) {
  std::size_t taken = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    const OperandSpec &operand = op.operands[i];
    if (operand.dtype.kind == DtypeRule::Kind::fixed) dtypes_[i] = operand.dtype.canonical;
    if (operand.dtype.kind != DtypeRule::Kind::own) continue;
    if (taken == own.size()) break;
    const auto &accepted = operand.dtype.accepted;
    if (std::find(accepted.begin(), accepted.end(), own[taken]) == accepted.end()) {
      throw_error(MSJ_ERROR_INVALID_ARGUMENT, "dtype of {} is {}; {} are accepted", operand.name, name(own[taken]),
                  names(accepted, ", "));
    }
    dtypes_[i] = own[taken++];
  }
  const auto wanted = std::count_if(op.operands.begin(), op.operands.end(), [](const OperandSpec &operand) {
    return operand.dtype.kind == DtypeRule::Kind::own;
  });
  if (static_cast<std::size_t>(wanted) != own.size()) {
    throw_error(MSJ_ERROR_INVALID_ARGUMENT, "{} dtypes are given for {}; it takes {}", own.size(), op.name, wanted);
  }
  for (std::size_t i = 0; i < count_; ++i) {
    const DtypeRule &rule = op.operands[i].dtype;
    if (rule.kind == DtypeRule::Kind::follows) dtypes_[i] = dtypes_[static_cast<std::size_t>(rule.follows)];
  }
}

std::string DtypeTuple::text() const { return names(all(), "-"); }

std::string AutotuneKey::text() const { return bucket_.text() + "-" + dtypes_.text(); }

}  // namespace msj::tune
