// The date, as provenance records it.
#pragma once

#include <string>

namespace msj {

[[nodiscard]] std::string utc_now();  // "2026-01-31T23:59:59Z"

}  // namespace msj
