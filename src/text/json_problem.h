// Where a text stops being JSON, what is there and what is accepted in its place, in this project's own words.
#pragma once

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "text/printable.h"

namespace msj {

// What is accepted where the parser's sentence ends: "…; expected TOKEN".
[[nodiscard]] inline std::string_view json_accepted(std::string_view sentence) {
  using Pair = std::pair<std::string_view, std::string_view>;
  constexpr std::array kAccepted = {Pair{"; expected ':'", "':'"}, Pair{"; expected '}'", "',' or '}'"},
                                    Pair{"; expected ']'", "',' or ']'"},
                                    Pair{"; expected end of input", "the end of the text"}};
  const auto *const found =
      std::ranges::find_if(kAccepted, [&](const Pair &pair) { return sentence.ends_with(pair.first); });
  if (found != kAccepted.end()) return found->second;
  return sentence.find("while parsing object key") != std::string_view::npos ? "a name in double quotes" : "a value";
}

// What the text has at `at`, the last that was read of it, and why that is wrong.
[[nodiscard]] inline std::string json_found(std::string_view text, std::size_t at, std::string_view sentence) {
  const auto says = [&](std::string_view part) { return sentence.find(part) != std::string_view::npos; };
  const std::string_view rest = text.substr(std::min(at, text.size()));
  const std::size_t bytes = rest.empty() ? 0 : std::max<std::size_t>(character_bytes(rest), 1);
  const std::string character = rest.empty() ? "the end of the text" : "'" + printable(rest.substr(0, bytes)) + "'";
  if (says(" - invalid string:")) {
    if (rest.empty()) return character + " within a string";
    if (says("UTF-8")) return "the byte " + printable(rest.substr(0, 1)) + ", which is no UTF-8";
    return character +
           (says("control character") ? ", where a string needs an escape" : ", where an escape needs another");
  }
  return fmt::format("{}, where {} is accepted", says("unexpected string literal") ? "a string" : character,
                     json_accepted(sentence));
}

// "line 3, column 7 has 'x', where ',' or ']' is accepted"; "" for a text that is JSON.
[[nodiscard]] inline std::string json_problem(std::string_view text) {
  using nlohmann::json;
  std::string sentence;
  std::size_t at = 0;
  try {
    // For what it throws alone: of its values only the outermost is kept.
    const json value = json::parse(text, [](int depth, json::parse_event_t, const json &) { return depth == 0; });
    return {};
  } catch (const json::parse_error &error) {
    sentence = error.what();
    at = error.byte == 0 ? 0 : error.byte - 1;
  } catch (const json::out_of_range &error) {  // "number overflow parsing '1e999'"
    sentence = error.what();
    const std::string_view number = std::string_view(sentence).substr(sentence.find('\'') + 1);
    return fmt::format("the number {} is larger than any double",
                       printable(shortened(number.substr(0, number.size() - 1))));
  }
  const std::string_view before = text.substr(0, at);
  const auto line = std::ranges::count(before, '\n') + 1;
  const std::size_t start = before.rfind('\n');
  const std::size_t column = at - (start == std::string_view::npos ? 0 : start + 1) + 1;
  return fmt::format("line {}, column {} has {}", line, column, json_found(text, at, sentence));
}

}  // namespace msj
