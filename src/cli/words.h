// Text from outside (names of files, words of a manifest), made fit for a sentence on one line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace msj::cli {

// Control characters, and bytes that are no UTF-8, become \x0a and the like: a file's name may hold any of them, and
// must neither break the line nor reach the terminal.
[[nodiscard]] std::string printable(std::string_view text);

// At most about 80 bytes, and "…" where there were more.
[[nodiscard]] std::string shortened(std::string_view text);

// "a,b" → a, b; an empty part is a part too.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text);

}  // namespace msj::cli
