// JSON files of others (a manifest, an index): read with care, and parsed into what a recursive walk and a person can
// trust. `what` is the file in sentences: "the manifest".
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace msj::cli {

enum class Pipes { refused, read };

// A regular file, or where pipes are read one up to its end, of at most 16 MiB. Throws Failure.
[[nodiscard]] std::string read_json_text(const std::filesystem::path &file, std::string_view what, Pipes pipes);

// JSON that is not nested too deeply and has no key twice in one object; `file` is for messages. Throws Failure.
[[nodiscard]] nlohmann::json parse_json_text(std::string_view text, std::string_view file, std::string_view what);

// A value as a sentence can hold it: in full if it is short.
[[nodiscard]] std::string shown(const nlohmann::json &value);

}  // namespace msj::cli
