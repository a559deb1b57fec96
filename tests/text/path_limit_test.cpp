#include "text/path_limit.h"

#include <doctest/doctest.h>

#include <string>

using namespace msj;

TEST_CASE("the longest name, and the longest path") {
  const std::string name(255, 'n');
  CHECK(fits_path(""));
  CHECK(fits_path("/a//b/"));
  CHECK(fits_path(name));
  CHECK(fits_path(name + "/" + name + "/"));
  CHECK_FALSE(fits_path(name + "n"));
  CHECK_FALSE(fits_path("a/" + name + "n/b"));
  std::string path;
  while (path.size() < 4095) path += "a/";
  CHECK(path.size() == 4096);
  CHECK_FALSE(fits_path(path));
  CHECK(fits_path(path.substr(1)));
}
