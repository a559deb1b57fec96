#include "cli/output.h"

#include <doctest/doctest.h>

#include <limits>

#include "cli/failure.h"

using namespace msj::cli;

TEST_CASE("floats are printed with no more digits than tell them apart") {
  CHECK(to_json(0.1F).dump() == "0.1");
  CHECK(to_json(18.3125F).dump() == "18.3125");
  CHECK(to_json(16777216.0F).get<float>() == 16777216.0F);
  CHECK(to_json(1.17549435e-38F).get<float>() == 1.17549435e-38F);
}

TEST_CASE("what JSON has no number for is a string") {
  CHECK(to_json(std::numeric_limits<float>::quiet_NaN()).dump() == "\"nan\"");
  CHECK(to_json(-std::numeric_limits<float>::quiet_NaN()).dump() == "\"nan\"");
  CHECK(to_json(std::numeric_limits<float>::infinity()).dump() == "\"inf\"");
  CHECK(to_json(-std::numeric_limits<float>::infinity()).dump() == "\"-inf\"");
}

TEST_CASE("counters have the names of msj_counters") {
  msj_counters counters{};
  counters.sweeps = 3;
  counters.launches = 7;
  const Json json = to_json(counters);
  CHECK(json.size() == 9);
  CHECK(json["sweeps"] == 3);
  CHECK(json["launches"] == 7);
  CHECK(json.begin().key() == "nvrtc_invocations");
}

TEST_CASE("columns are as wide as their longest cell") {
  CHECK(table({{"op", "config"}, {"dense_forward", "a=1"}}) == "op             config\ndense_forward  a=1\n");
  CHECK(table({{"×", "b"}, {"aa", "c"}}) == "×   b\naa  c\n");  // one column, though two bytes
  CHECK(table({}).empty());
}

TEST_CASE("JSON keeps its order; what is none is a failure") {
  CHECK(parse_library_json(R"({"b": 1, "a": 2})").dump() == R"({"b":1,"a":2})");
  CHECK_THROWS_AS(static_cast<void>(parse_library_json("{")), Failure);
}
