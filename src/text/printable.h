// Text from outside (names of files, words of a manifest or of a caller), made fit for a sentence on one line.
//
// Of the library and of the command, which share these headers, those of src/file and the public one alone.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace msj {

[[nodiscard]] inline bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

// The bytes of the printable character that `text` starts with; 0 if it starts with none. (RFC 3629; U+0080 to U+009F
// are control characters as well, and terminals obey them.)
[[nodiscard]] inline std::size_t character_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  if (first < 0x80) return first >= ' ' && first != 0x7F ? 1 : 0;
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < size) return 0;
  if (!std::ranges::all_of(text.substr(1, size - 1), is_continuation)) return 0;
  const auto second = static_cast<unsigned char>(text[1]);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool surrogate = first == 0xED && second >= 0xA0;
  const bool too_large = first == 0xF4 && second >= 0x90;
  const bool control = first == 0xC2 && second < 0xA0;
  return overlong || surrogate || too_large || control ? 0 : size;
}

// Control characters, and bytes that are no UTF-8, become \x0a and the like: a file's name may hold any of them, and
// must neither break the line nor reach the terminal.
[[nodiscard]] inline std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    if (bytes == 0) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
    } else {
      result += text.substr(0, bytes);
    }
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return result;
}

// At most about 80 bytes, and where there were more, how many: "xxx… (100000 bytes)".
[[nodiscard]] inline std::string shortened(std::string_view text) {
  constexpr std::size_t kMost = 80;
  if (text.size() <= kMost) return std::string(text);
  std::size_t end = kMost;
  while (end > 0 && is_continuation(text[end])) --end;
  return fmt::format("{}… ({} bytes)", text.substr(0, end), text.size());
}

// As a sentence quotes it: "text".
[[nodiscard]] inline std::string in_quotes(std::string_view text) {
  return fmt::format("\"{}\"", printable(shortened(text)));
}

}  // namespace msj
