// The dtypes of the ABI: their names, as JSON, the command and kernels write them, and sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "maxsim_jit/maxsim_jit.h"

namespace msj {

enum class DType : std::int32_t {
  f32 = MSJ_F32,
  f16 = MSJ_F16,
  bf16 = MSJ_BF16,
  fp8_e4m3 = MSJ_FP8_E4M3,
  fp8_e5m2 = MSJ_FP8_E5M2,
  i8 = MSJ_I8,
  u8 = MSJ_U8,
  boolean = MSJ_BOOL,
  i32 = MSJ_I32,
  i64 = MSJ_I64,
};

struct DTypeInfo {
  DType dtype;
  std::string_view name;        // "bf16"
  std::string_view enumerator;  // in kernel sources: "bf16"; `boolean` for bool
  int bytes;
};

[[nodiscard]] std::span<const DTypeInfo> all_dtypes();
[[nodiscard]] const DTypeInfo &info(DType dtype);
[[nodiscard]] inline std::string_view name(DType dtype) { return info(dtype).name; }
[[nodiscard]] inline int bytes(DType dtype) { return info(dtype).bytes; }

// From the ABI's number, or from a name ("bf16"; "fp16" and "fp32" too); nullopt if it is none.
[[nodiscard]] std::optional<DType> dtype_from(msj_dtype value);
[[nodiscard]] std::optional<DType> dtype_from(std::string_view name);

}  // namespace msj
