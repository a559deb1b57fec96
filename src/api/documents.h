// The JSON documents of the ABI: what the library can do, what it holds, and what it found on this machine.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "ops/pipeline.h"

namespace msj::api {

// JSON text for a caller: bytes that are no UTF-8 (a path may hold any) become U+FFFD.
[[nodiscard]] std::string to_text(const nlohmann::ordered_json &json);

[[nodiscard]] std::string describe();  // maxsim-jit/ops/1
[[nodiscard]] std::string inspect_entries(ops::Pipeline &pipeline, std::string_view op, std::string_view arch);
[[nodiscard]] std::string inspect_cubins(ops::Pipeline &pipeline, std::string_view op, std::string_view arch);
// maxsim-jit/measure/1
[[nodiscard]] std::string measure(ops::Pipeline &pipeline, const BoundCall &call, const ops::LaunchSite &site,
                                  const ops::Pipeline::MeasureWish &wish);
[[nodiscard]] std::string doctor(ops::Pipeline &pipeline);      // maxsim-jit/doctor/1
[[nodiscard]] std::string cache_path(ops::Pipeline &pipeline);  // maxsim-jit/cache/1
[[nodiscard]] std::string cache_verify(ops::Pipeline &pipeline);
[[nodiscard]] nlohmann::ordered_json verified_files(ops::Pipeline &pipeline);  // of cache_verify: problems, files
[[nodiscard]] std::string cache_clear(ops::Pipeline &pipeline);
[[nodiscard]] std::string cache_prune(ops::Pipeline &pipeline);
[[nodiscard]] nlohmann::ordered_json cache_layers(ops::Pipeline &pipeline);  // what all of them begin with
// "" for all. Throw Error as store/archive.h says, and where there is no cache.
[[nodiscard]] std::string cache_export(ops::Pipeline &pipeline, const std::string &file, std::string_view op,
                                       std::string_view arch);
[[nodiscard]] std::string cache_import(ops::Pipeline &pipeline, const std::string &file);

}  // namespace msj::api
