// Paths as lists of names. Bytes, not characters: any encoding, spaces and all.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace msj::store {

// "/a//b/./c/" → {"a", "b", "c"}. ".." is kept: only the file system knows where it leads.
[[nodiscard]] std::vector<std::string> split(std::string_view path);
[[nodiscard]] std::string join(std::string_view directory, std::string_view name);  // "" joins to the other

// Whether `relative` stays below where it starts and names nothing hidden: no part is empty or starts with a dot.
[[nodiscard]] bool stays_below(std::string_view relative);

// "a/b/c" → "a/b" and "c".
[[nodiscard]] std::string_view parent_of(std::string_view path);
[[nodiscard]] std::string_view name_of(std::string_view path);

}  // namespace msj::store
