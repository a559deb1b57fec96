// JSON text of the cache's files, which others may have written.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "text/json_reader.h"

namespace msj {

// Ample: an entry has about 25 parts for each of its candidates, of which there are tens.
inline constexpr std::size_t kMostFileParts = 65536;

// A discarded value, with one sentence in `why`, for what is no JSON text (UTF-8, as JSON is), is nested deeper or has
// more in it than any such file needs.
[[nodiscard]] inline nlohmann::ordered_json parse_bounded_json(std::string_view text, std::size_t max_depth,
                                                               std::string &why) {
  using Json = nlohmann::ordered_json;
  JsonReader<Json> reader({max_depth, kMostFileParts});
  why.clear();
  if (reader.read(text)) return reader.take();
  switch (reader.fault()) {
    case JsonFault::too_deep:
      why = "it is nested too deep";
      break;
    case JsonFault::too_many_parts:
      why = fmt::format("it has more than {} objects, lists and names", kMostFileParts);
      break;
    case JsonFault::too_many_names:
      why = fmt::format("it has an object of more than {} names", kMostJsonNames);
      break;
    case JsonFault::twice:
      why = fmt::format("it has {} twice in one object", in_quotes(reader.detail()));
      break;
    case JsonFault::no_json:
    case JsonFault::none:
      why = "it is no JSON text: " + reader.detail();
  }
  Json none(Json::value_t::discarded);  // in braces it would be a list of one
  return none;
}

}  // namespace msj
