// JSON text that others may have written: bounded in depth, since whoever walks, prints or destroys it recurses.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "text/json_problem.h"

namespace msj {

// A discarded value, with one sentence in `why`, for what is no JSON text (UTF-8, as JSON is) or is nested deeper.
[[nodiscard]] inline nlohmann::ordered_json parse_bounded_json(std::string_view text, int max_depth, std::string &why) {
  using Json = nlohmann::ordered_json;
  bool too_deep = false;
  const auto keep = [&](int depth, Json::parse_event_t, Json &) {
    too_deep = too_deep || depth > max_depth;
    return depth <= max_depth;
  };
  Json json = Json::parse(text, keep, false);
  if (json.is_discarded() || too_deep) {
    why = too_deep ? "it is nested too deep" : "it is no JSON text: " + json_problem(text);
    json = Json(Json::value_t::discarded);
  }
  return json;
}

}  // namespace msj
