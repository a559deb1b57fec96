// The dtypes' names in help, sentences and JSON: those of the library and its op tables. On the command line and in
// manifests fp16 and fp32 are accepted too, for f16 and f32.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "maxsim_jit/maxsim_jit.hpp"

namespace msj::cli {

using maxsim_jit::DType;

[[nodiscard]] std::string_view name(DType dtype);
[[nodiscard]] std::optional<DType> dtype_from(std::string_view name);
[[nodiscard]] std::int64_t bytes(DType dtype);

}  // namespace msj::cli
