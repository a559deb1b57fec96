#include "base/tile_config.h"

#include <doctest/doctest.h>

namespace msj {

TEST_CASE("a config as text, its tunables by name") {
  const TileConfig config{"portable", {{"stages", 3}, {"block_doc", 64}}};
  CHECK(to_string(config) == "portable block_doc=64 stages=3");
  CHECK(to_string(TileConfig{"hopper", {}}) == "hopper");
  CHECK(config.at("block_doc") == 64);
}

TEST_CASE("configs compare by path and every tunable") {
  const TileConfig config{"portable", {{"block_doc", 64}}};
  CHECK(config == TileConfig{"portable", {{"block_doc", 64}}});
  CHECK(config != TileConfig{"portable", {{"block_doc", 128}}});
  CHECK(config != TileConfig{"hopper", {{"block_doc", 64}}});
  CHECK(config < TileConfig{"portable", {{"block_doc", 128}}});
}

}  // namespace msj
