#include "base/error.h"

#include <doctest/doctest.h>

#include <set>

namespace msj {

TEST_CASE("an error carries its status and one formatted sentence") {
  try {
    throw_error(MSJ_ERROR_UNSUPPORTED, "d is {}; at most {} is accepted", 5000, 4096);
    FAIL("nothing was thrown");
  } catch (const Error &error) {
    CHECK(error.status() == MSJ_ERROR_UNSUPPORTED);
    CHECK(std::string(error.what()) == "d is 5000; at most 4096 is accepted");
  }
}

TEST_CASE("an error says all of a text with bytes of any kind in it") {
  try {
    throw_error(MSJ_ERROR_INVALID_ARGUMENT, "op is '{}'; others are accepted", std::string("a\0b\n\xff", 5));
    FAIL("nothing was thrown");
  } catch (const Error &error) {
    CHECK(std::string(error.what()) == "op is 'a\\x00b\\x0a\\xff'; others are accepted");
  }
}

TEST_CASE("every status has a name of its own") {
  std::set<std::string> names;
  for (msj_status status = MSJ_OK; status <= MSJ_ERROR_INTERNAL; ++status) {
    const std::string name = status_name(status);
    CHECK(name.starts_with("MSJ_"));
    names.insert(name);
  }
  CHECK(names.size() == 13);
  CHECK(status_name(MSJ_ERROR_COLD) == "MSJ_ERROR_COLD");
  CHECK(status_name(77) == "unknown status 77");
  CHECK(status_name(-1) == "unknown status -1");
}

}  // namespace msj
