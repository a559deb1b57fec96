#include "tune/entry_place.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "tune/autotune_key.h"

namespace msj::tune {

namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json &key) {
  std::vector<NamedEdge> edges;
  for (const auto &[size, edge] : key.at("bucket").items()) {
    if (size != "version") edges.emplace_back(size, edge.is_string() ? kMore : edge.get<std::int64_t>());
  }
  const auto dtypes = key.at("dtypes").get<std::vector<std::string>>();
  return key_text(bucket_text(edges), std::vector<std::string_view>(dtypes.begin(), dtypes.end()));
}

}  // namespace

std::string entry_place(std::string_view text) {
  const Json entry = Json::parse(text);
  const Json &key = entry.at("key");
  return fmt::format("{}/autotune/{}/{}.json", entry.at("environment").get<std::string>(),
                     key.at("op").get<std::string>(), text_of(key));
}

}  // namespace msj::tune
