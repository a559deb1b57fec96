// The files of configs/ as texts, embedded at build (the definition is generated): "buckets.json",
// "spaces/<op>.json", "tuned/<environment>/<op>/<key>.json".
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace msj::tune {

using ConfigTexts = std::map<std::string, std::string_view, std::less<>>;

[[nodiscard]] const ConfigTexts &embedded_configs();

// The text of one of them. Throws Error(MSJ_ERROR_INTERNAL) if there is none of that name.
[[nodiscard]] std::string_view config_text(const ConfigTexts &configs, std::string_view name);

}  // namespace msj::tune
