#include "tune/entry_place.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace msj::tune {

namespace {

using Json = nlohmann::ordered_json;

// As ShapeBucket::text and AutotuneKey::text write it.
std::string key_text(const Json &key) {
  std::string text;
  for (const auto &[size, edge] : key.at("bucket").items()) {
    if (size == "version") continue;
    text += fmt::format("{}{}-", size, edge.is_string() ? edge.get<std::string>() : edge.dump());
  }
  std::string_view separator;
  for (const Json &dtype : key.at("dtypes")) {
    text += fmt::format("{}{}", separator, dtype.get<std::string>());
    separator = "-";
  }
  return text;
}

}  // namespace

std::string entry_place(std::string_view text) {
  const Json entry = Json::parse(text);
  const Json &key = entry.at("key");
  return fmt::format("{}/autotune/{}/{}.json", entry.at("environment").get<std::string>(),
                     key.at("op").get<std::string>(), key_text(key));
}

}  // namespace msj::tune
