// Words of the command line and of files, and how a sentence shows them.
#pragma once

#include <string_view>
#include <vector>

#include "text/printable.h"

namespace msj::cli {

// "a,b" → a, b; an empty part is a part too.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text);

}  // namespace msj::cli
