#include "store/path.h"

#include <doctest/doctest.h>

namespace msj::store {

TEST_CASE("paths as names") {
  using Names = std::vector<std::string>;
  CHECK(split("/a//b/./c d/") == Names{"a", "b", "c d"});
  CHECK(split("a/../é") == Names{"a", "..", "é"});
  CHECK(split("/").empty());
  CHECK(split("").empty());
  CHECK(join("/a", "b") == "/a/b");
  CHECK(join("/", "b") == "/b");
  CHECK(join("", "b") == "b");
  CHECK(join("/a", "") == "/a");
  CHECK(parent_of("a/b/c") == "a/b");
  CHECK(parent_of("c").empty());
  CHECK(name_of("a/b/c") == "c");
  CHECK(name_of("c") == "c");
}

TEST_CASE("a name of a cache file can't lead out of the cache") {
  CHECK(stays_below("v1/cubins/ab/x.cubin"));
  CHECK(stays_below("v1/NVIDIA H200 9.0/x"));
  for (const char *bad : {"", "/etc/passwd", "v1/../x", "..", "v1//x", "v1/", "v1/.tmp-1", "."}) {
    CAPTURE(bad);
    CHECK_FALSE(stays_below(bad));
  }
  CHECK_FALSE(stays_below(std::string_view("v1/a\0b", 6)));
}

}  // namespace msj::store
