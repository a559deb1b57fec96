#include "base/dtype.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace msj {

namespace {

constexpr std::array<DTypeInfo, 10> kDTypes = {{
    {DType::f32, "f32", "f32", 4},
    {DType::f16, "f16", "f16", 2},
    {DType::bf16, "bf16", "bf16", 2},
    {DType::fp8_e4m3, "fp8_e4m3", "fp8_e4m3", 1},
    {DType::fp8_e5m2, "fp8_e5m2", "fp8_e5m2", 1},
    {DType::i8, "i8", "i8", 1},
    {DType::u8, "u8", "u8", 1},
    {DType::boolean, "bool", "boolean", 1},
    {DType::i32, "i32", "i32", 4},
    {DType::i64, "i64", "i64", 8},
}};

}  // namespace

std::span<const DTypeInfo> all_dtypes() { return kDTypes; }

const DTypeInfo &info(DType dtype) {
  const auto found = std::ranges::find(kDTypes, dtype, &DTypeInfo::dtype);
  if (found == kDTypes.end()) {
    throw_error(MSJ_ERROR_INTERNAL, "dtype is {}; an msj_dtype from 1 to {} is accepted", static_cast<int>(dtype),
                kDTypes.size());
  }
  return *found;
}

std::optional<DType> dtype_from(msj_dtype value) {
  const auto found = std::ranges::find(kDTypes, static_cast<DType>(value), &DTypeInfo::dtype);
  if (found == kDTypes.end()) return std::nullopt;
  return found->dtype;
}

std::optional<DType> dtype_from(std::string_view name) {
  if (name == "fp32") return DType::f32;
  if (name == "fp16") return DType::f16;
  const auto found = std::ranges::find(kDTypes, name, &DTypeInfo::name);
  if (found == kDTypes.end()) return std::nullopt;
  return found->dtype;
}

}  // namespace msj
