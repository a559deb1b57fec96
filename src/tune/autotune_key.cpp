#include "tune/autotune_key.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace msj::tune {

namespace {

std::vector<std::string_view> names(std::span<const DType> dtypes) {
  std::vector<std::string_view> result;
  for (const DType dtype : dtypes) result.push_back(name(dtype));
  return result;
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
                  fmt::join(names(accepted), ", "));
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

std::string key_text(std::string_view bucket, std::span<const std::string_view> dtypes) {
  return fmt::format("{}-{}", bucket, fmt::join(dtypes, "-"));
}

std::string AutotuneKey::text() const { return key_text(bucket_.text(), names(dtypes_.all())); }

}  // namespace msj::tune
