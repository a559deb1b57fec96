// The command line's rules that CLI11 does not have by itself, and its errors in this command's words: which option or
// word was wrong, what it was, what is accepted, and whose --help tells more.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace msj::cli {

// Values of an option, for ->check(…).
[[nodiscard]] CLI::Validator one_of(const std::vector<std::string> &accepted);
[[nodiscard]] CLI::Validator whole_number(std::int64_t least, std::int64_t most);

// For `app` and all commands below it: no option has an empty value or the next option as its value, and no flag has
// any.
void refuse_odd_values(CLI::App &app);

// Throws UsageError for the `words` that `app` could not parse.
[[noreturn]] void refuse_words(CLI::App &app, const CLI::ParseError &error, const std::vector<std::string> &words);

}  // namespace msj::cli
