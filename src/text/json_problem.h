// Where a text stops being JSON, what is there and what is accepted in its place, in this project's own words.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "text/printable.h"

namespace msj {

// Where the JSON library stopped, and what it says of it.
struct JsonStop {
  std::size_t at = 0;        // of the byte that it did not take; the text's size where it ends too early
  bool is_overflow = false;  // of the number `token`
  std::string token;         // the last one that was read
  std::string sentence;

  // After "; last read: '" the sentence quotes the text, which may say anything.
  [[nodiscard]] bool says(std::string_view part) const {
    return std::string_view(sentence).substr(0, sentence.find("; last read: '")).find(part) != std::string_view::npos;
  }
  [[nodiscard]] bool is_in_string() const { return says(" - invalid string:"); }
  [[nodiscard]] bool is_no_utf8() const { return is_in_string() && says("ill-formed UTF-8"); }
};

// What is accepted where the sentence ends: "…; expected TOKEN".
[[nodiscard]] inline std::string_view json_accepted(const JsonStop &stop) {
  using Pair = std::pair<std::string_view, std::string_view>;
  constexpr std::array kAccepted = {Pair{"; expected ':'", "':'"}, Pair{"; expected '}'", "',' or '}'"},
                                    Pair{"; expected ']'", "',' or ']'"},
                                    Pair{"; expected end of input", "the end of the text"}};
  const auto *const found =
      std::ranges::find_if(kAccepted, [&](const Pair &pair) { return stop.sentence.ends_with(pair.first); });
  if (found != kAccepted.end()) return found->second;
  return stop.says("while parsing object key") ? "a name in double quotes" : "a value";
}

// The byte at `at` is where UTF-8 ends: the first one of the character that it belongs to or cuts off.
[[nodiscard]] inline std::size_t start_of_character(std::string_view text, std::size_t at) {
  constexpr std::size_t kMostBytes = 4;
  for (std::size_t back = 1; back < kMostBytes && back <= at; ++back) {
    if (is_continuation(text[at - back])) continue;
    const auto first = static_cast<unsigned char>(text[at - back]);
    const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 1;
    return size > back ? at - back : at;
  }
  return at;
}

// What the text has where it stops being JSON, and why that is wrong.
[[nodiscard]] inline std::string json_found(std::string_view text, const JsonStop &stop) {
  const std::string_view rest = text.substr(stop.at);
  if (stop.is_no_utf8()) return fmt::format("the byte {}, which is no UTF-8", printable(rest.substr(0, 1)));
  const std::size_t bytes = rest.empty() ? 0 : std::max<std::size_t>(character_bytes(rest), 1);
  const std::string character = rest.empty() ? "the end of the text" : "'" + printable(rest.substr(0, bytes)) + "'";
  if (stop.is_in_string()) {
    if (rest.empty()) return character + " within a string";
    return character +
           (stop.says("control character") ? ", where a string needs an escape" : ", where an escape needs another");
  }
  return fmt::format("{}, where {} is accepted", stop.says("unexpected string literal") ? "a string" : character,
                     json_accepted(stop));
}

// "line 3, column 7 has 'x', where ',' or ']' is accepted".
[[nodiscard]] inline std::string json_problem(std::string_view text, JsonStop stop) {
  if (stop.is_overflow) return fmt::format("the number {} is larger than any double", printable(shortened(stop.token)));
  stop.at = std::min(stop.at, text.size());
  if (stop.is_no_utf8()) stop.at = start_of_character(text, stop.at);
  const std::string_view before = text.substr(0, stop.at);
  const auto line = std::ranges::count(before, '\n') + 1;
  const std::size_t start = before.rfind('\n');
  const std::size_t column = stop.at - (start == std::string_view::npos ? 0 : start + 1) + 1;
  return fmt::format("line {}, column {} has {}", line, column, json_found(text, stop));
}

}  // namespace msj
