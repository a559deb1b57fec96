#include "text/json_reader.h"

#include <doctest/doctest.h>

#include <ctime>
#include <string>

using namespace msj;
using Json = nlohmann::json;
using Ordered = nlohmann::ordered_json;

namespace {

template <typename Any>
Any value_of(const std::string &text) {
  JsonReader<Any> reader({8, 1000});
  CAPTURE(text);
  REQUIRE(reader.read(text));
  CHECK(reader.fault() == JsonFault::none);
  return reader.take();
}

JsonFault fault_of(const std::string &text, JsonBounds bounds = {8, 1000}) {
  JsonReader<Ordered> reader(bounds);
  CHECK_FALSE(reader.read(text));
  return reader.fault();
}

std::string repeated(int times, const std::string &part, const std::string &between) {
  std::string text;
  for (int i = 0; i < times; ++i) text += (i == 0 ? "" : between) + part;
  return text;
}

std::string names(std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":0";
  return "{" + text + "}";
}

// Processor time: the machine may be busy.
template <typename Body>
double seconds_of(const Body &body) {
  const std::clock_t begin = std::clock();
  body();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

}  // namespace

TEST_CASE("what is read is what the JSON library reads") {
  for (const char *text :
       {"null", "true", "-1", "18446744073709551615", "1.5", "\"a\\u0000b\"", "[]", "{}", "[1, [2, {\"a\": []}], {}]",
        "{\"b\": {\"y\": [false, null], \"x\": -0.0}, \"a\": [[[]]]}", " [ 1 ] \n", "\xef\xbb\xbf[1]"}) {
    CHECK(value_of<Json>(text) == Json::parse(text));
    CHECK(value_of<Ordered>(text).dump() == Ordered::parse(text).dump());
  }
}

TEST_CASE("bounds are taken to their last") {
  CHECK(value_of<Json>("[[[[[[[[1]]]]]]]]").is_array());
  CHECK(fault_of("[[[[[[[[[]]]]]]]]]") == JsonFault::too_deep);
  CHECK(fault_of(std::string(1000000, '[')) == JsonFault::too_deep);
  CHECK(value_of<Json>("[" + repeated(999, "{}", ",") + "]").size() == 999);
  CHECK(fault_of("[" + repeated(1000, "{}", ",") + "]") == JsonFault::too_many_parts);
  CHECK(value_of<Json>("[" + repeated(499, "{\"a\":1}", ",") + "]").size() == 499);
  CHECK(fault_of("[" + repeated(500, "{\"a\":1}", ",") + "]") == JsonFault::too_many_parts);
  CHECK(value_of<Json>("[" + repeated(100000, "1", ",") + "]").size() == 100000);  // a list of lengths
  const JsonBounds ample = {8, 100000};
  JsonReader<Ordered> reader(ample);
  CHECK(reader.read(names(kMostJsonNames)));
  CHECK(fault_of(names(kMostJsonNames + 1), ample) == JsonFault::too_many_names);
}

TEST_CASE("a name is there once in one object") {
  JsonReader<Json> reader({8, 1000});
  CHECK_FALSE(reader.read(R"({"a": {"b": 1}, "b": [{"a": 1}, {"a": 2, "x\u0000y": 0, "x\u0000y": 0}]})"));
  CHECK(reader.fault() == JsonFault::twice);
  CHECK(reader.detail() == std::string("x\0y", 3));
  CHECK(fault_of(R"({"a": 1, "b": 2, "a": 1})") == JsonFault::twice);
  CHECK(value_of<Json>(R"({"a": {"a": {"a": 1}}, "b": {"a": 1}})").size() == 2);
}

// An hour, when the whole list was looked at for each object in it.
TEST_CASE("the time is that of the text's length") {
  const JsonBounds wide = {8, std::size_t{1} << 24};
  for (const std::string part : {"{}", "[]", "{\"a\":[]}", "1"}) {
    CAPTURE(part);
    const std::string text = "[" + repeated(400000, part, ",") + "]";
    CHECK(seconds_of([&] {
            JsonReader<Ordered> reader(wide);
            CHECK(reader.read(text));
          }) < 5);
  }
}
