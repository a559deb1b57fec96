// A tile config: the tunables of one candidate, by name. Which names exist is the op's table's business.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace msj {

struct TileConfig {
  std::string path;  // kernel path: kernels/<op>.<path>.cu
  std::map<std::string, int, std::less<>> tunables;

  [[nodiscard]] int at(std::string_view tunable) const { return tunables.find(tunable)->second; }
  friend bool operator==(const TileConfig &, const TileConfig &) = default;
  friend auto operator<=>(const TileConfig &, const TileConfig &) = default;
};

// "portable block_doc=64 block_query=32 …": for logs and rejections.
[[nodiscard]] std::string to_string(const TileConfig &config);

}  // namespace msj
