#include "base/tile_config.h"

#include <fmt/format.h>

namespace msj {

std::string to_string(const TileConfig &config) {
  std::string text = config.path;
  for (const auto &[tunable, value] : config.tunables) text += fmt::format(" {}={}", tunable, value);
  return text;
}

}  // namespace msj
