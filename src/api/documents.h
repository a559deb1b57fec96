// The JSON documents of the ABI: what the library can do, what it holds, and what it found on this machine.
#pragma once

#include <string>
#include <string_view>

#include "ops/pipeline.h"

namespace msj::api {

[[nodiscard]] std::string describe();  // maxsim-jit/ops/1
[[nodiscard]] std::string inspect_entries(ops::Pipeline &pipeline, std::string_view op, std::string_view arch);
[[nodiscard]] std::string inspect_cubins(ops::Pipeline &pipeline, std::string_view op, std::string_view arch);
[[nodiscard]] std::string doctor(ops::Pipeline &pipeline);      // maxsim-jit/doctor/1
[[nodiscard]] std::string cache_path(ops::Pipeline &pipeline);  // maxsim-jit/cache/1
[[nodiscard]] std::string cache_verify(ops::Pipeline &pipeline);
[[nodiscard]] std::string cache_clear(ops::Pipeline &pipeline);

}  // namespace msj::api
