#include "cli/dtype.h"

#include <algorithm>
#include <array>

namespace msj::cli {
namespace {

struct DTypeInfo {
  DType dtype;
  std::string_view name;
  std::string_view other_name;
  std::int64_t bytes;
};

constexpr std::array<DTypeInfo, 10> kDTypes{{
    {DType::f32, "f32", "fp32", 4},
    {DType::f16, "f16", "fp16", 2},
    {DType::bf16, "bf16", "bf16", 2},
    {DType::fp8_e4m3, "fp8_e4m3", "fp8_e4m3", 1},
    {DType::fp8_e5m2, "fp8_e5m2", "fp8_e5m2", 1},
    {DType::i8, "i8", "i8", 1},
    {DType::u8, "u8", "u8", 1},
    {DType::boolean, "bool", "bool", 1},
    {DType::i32, "i32", "i32", 4},
    {DType::i64, "i64", "i64", 8},
}};

const DTypeInfo &info(DType dtype) { return *std::ranges::find(kDTypes, dtype, &DTypeInfo::dtype); }

}  // namespace

std::string_view name(DType dtype) { return info(dtype).name; }

std::int64_t bytes(DType dtype) { return info(dtype).bytes; }

std::optional<DType> dtype_from(std::string_view name) {
  const auto *const found = std::ranges::find_if(
      kDTypes, [name](const DTypeInfo &candidate) { return candidate.name == name || candidate.other_name == name; });
  return found == kDTypes.end() ? std::nullopt : std::optional(found->dtype);
}

}  // namespace msj::cli
