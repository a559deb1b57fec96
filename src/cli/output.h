// What the command says on stdout: one JSON object, or text for people.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/warm_request.h"
#include "maxsim_jit/maxsim_jit.h"

namespace msj::cli {

// Fields stay in the order in which they were written.
using Json = nlohmann::ordered_json;

// Throws Failure where the library's JSON is none.
[[nodiscard]] Json parse_library_json(std::string_view text);

// Throws Failure where stdout cannot be written (a full disk).
void print_text(std::string_view text);
void print_json(const Json &document);  // indented, one line end, no control character

// The counters under the names of msj_counters.
[[nodiscard]] Json to_json(const msj_counters &counters);

// In the op's order; sizes that are not there are left out.
[[nodiscard]] Json to_json(const OpInfo &op, const SizeMap &sizes);

// A float32 such that its shortest text is printed (0.1, not 0.10000000149011612). JSON has no NaN and no infinity:
// they are the strings "nan", "inf" and "-inf".
[[nodiscard]] Json to_json(float value);

// Columns as wide as their longest cell, two spaces between them; cells are made printable.
[[nodiscard]] std::string table(std::vector<std::vector<std::string>> rows);

}  // namespace msj::cli
