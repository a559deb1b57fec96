#include "cuda/shared_library.h"

#include <doctest/doctest.h>

#include <utility>

using msj::cuda::SharedLibrary;

TEST_CASE("the first candidate that loads is taken; those before it are remembered with a reason") {
  const std::vector<std::string> candidates = {"/nowhere/libm.so.6", "libm.so.6", "libc.so.6"};
  const SharedLibrary library = SharedLibrary::open(candidates);
  REQUIRE(library);
  CHECK(library.opened_as() == "libm.so.6");
  CHECK(library.symbol("cos") != nullptr);
  CHECK(library.symbol("no_such_function") == nullptr);
  REQUIRE(library.attempts().size() == 1);
  CHECK(library.attempts()[0] == "/nowhere/libm.so.6");
}

TEST_CASE("none loads: it holds nothing and says why, each candidate once") {
  const std::vector<std::string> candidates = {"libno_such.so.1", MSJ_SOURCE_DIR};
  const SharedLibrary library = SharedLibrary::open(candidates);
  CHECK_FALSE(library);
  CHECK(library.symbol("cos") == nullptr);
  REQUIRE(library.attempts().size() == 2);
  CHECK(library.attempts()[0] == candidates[0]);  // as it isn't there
  CHECK(library.attempts()[1].starts_with(candidates[1] + ": "));
  CHECK(library.attempts()[1].find(candidates[1], 1) == std::string::npos);
}

TEST_CASE("moving hands the library over") {
  const std::vector<std::string> candidates = {"libm.so.6"};
  SharedLibrary first = SharedLibrary::open(candidates);
  SharedLibrary second = std::move(first);
  CHECK(second);
  SharedLibrary third;
  third = std::move(second);
  CHECK(third.symbol("cos") != nullptr);
  CHECK(third.opened_as() == "libm.so.6");
}
