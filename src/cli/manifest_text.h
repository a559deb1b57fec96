// A manifest as text: read from a file with care, and parsed into JSON that a recursive walk and a person can trust.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace msj::cli {

// A regular file, or a pipe up to its end, of at most 16 MiB. Throws Failure.
[[nodiscard]] std::string read_manifest_text(const std::filesystem::path &file);

// JSON that is not nested too deeply and has no key twice in one object; `file` is for messages. Throws Failure.
[[nodiscard]] nlohmann::json parse_manifest_text(std::string_view text, std::string_view file);

}  // namespace msj::cli
