// A tile config in JSON, as spaces and entries write it: {"path": "portable", "tunables": {"block_doc": 64, …}}.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/tile_config.h"

namespace msj::tune {

[[nodiscard]] inline nlohmann::ordered_json config_to_json(const TileConfig &config) {
  nlohmann::ordered_json tunables = nlohmann::ordered_json::object();
  for (const auto &[name, value] : config.tunables) tunables[name] = value;
  return {{"path", config.path}, {"tunables", std::move(tunables)}};
}

// nullopt for anything of another shape, or a tunable that is no int.
[[nodiscard]] inline std::optional<TileConfig> config_from_json(const nlohmann::ordered_json &json) {
  if (!json.is_object()) return std::nullopt;
  const auto path = json.find("path");
  const auto tunables = json.find("tunables");
  if (path == json.end() || !path->is_string() || tunables == json.end() || !tunables->is_object()) return std::nullopt;
  TileConfig config;
  config.path = path->get<std::string>();
  for (const auto &[name, value] : tunables->items()) {
    if (!value.is_number_integer()) return std::nullopt;
    const auto wide = value.get<std::int64_t>();
    if (value.is_number_unsigned() && wide < 0) return std::nullopt;  // 2^63 and more, which wrapped around
    const auto narrow = static_cast<int>(wide);
    if (narrow != wide) return std::nullopt;
    config.tunables[name] = narrow;
  }
  return config;
}

}  // namespace msj::tune
