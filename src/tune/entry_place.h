// Where the file of an entry belongs, from what the entry itself says: for `cache verify`, which has no key in hand.
#pragma once

#include <string>
#include <string_view>

namespace msj::tune {

// "<environment>/autotune/<op>/<key>.json", below the format's directory; `json` is an entry (entry_problem is "").
[[nodiscard]] std::string entry_place(std::string_view json);

}  // namespace msj::tune
