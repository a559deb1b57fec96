#include "text/json_problem.h"

#include <doctest/doctest.h>

#include <string>

#include "text/json_reader.h"

using namespace msj;
using Json = nlohmann::json;

namespace {

// "" for what is JSON.
std::string json_problem(const std::string &text) {
  JsonReader<Json> reader({8, 100});
  const bool is_json = reader.read(text);
  CHECK(is_json == (reader.fault() == JsonFault::none));
  return reader.detail();
}

}  // namespace

TEST_CASE("what is no JSON is said by its place, what is there and what is accepted") {
  const auto says = [](const std::string &text, const std::string &problem) {
    CAPTURE(text);
    CHECK(json_problem(text) == problem);
  };
  says("", "line 1, column 1 has the end of the text, where a value is accepted");
  says("[{\n  \"op\": 1,\n  x}]", "line 3, column 3 has 'x', where a name in double quotes is accepted");
  says("[1 \"abc\"]", "line 1, column 8 has a string, where ',' or ']' is accepted");
  says("[1 nul]", "line 1, column 7 has ']', where ',' or ']' is accepted");
  says("[nul]", "line 1, column 5 has ']', where a value is accepted");
  says("[NaN]", "line 1, column 2 has 'N', where a value is accepted");
  says("{\"a\" 1}", "line 1, column 6 has '1', where ':' is accepted");
  says("{\"a\": 1]", "line 1, column 8 has ']', where ',' or '}' is accepted");
  says("[] more", "line 1, column 4 has 'm', where the end of the text is accepted");
  says("[\"\xff\"]", "line 1, column 3 has the byte \\xff, which is no UTF-8");
  says("[\"a", "line 1, column 4 has the end of the text within a string");
  says("[\"a\n\"]", "line 1, column 4 has '\\x0a', where a string needs an escape");
  says("[1e999]", "the number 1e999 is larger than any double");
  says("{\"a\": [1, 2}", "line 1, column 12 has '}', where ',' or ']' is accepted");
}

TEST_CASE("a text that is JSON has no problem") {
  for (const char *text : {"{}", "[1, \"a\\n\", null]", " 1e300 ", "\"a\\u0000b\""}) CHECK(json_problem(text).empty());
}

// The JSON library's sentence ends with the text that it read.
TEST_CASE("what a text says of itself is no part of the verdict") {
  const auto says = [](const std::string &text, const std::string &problem) {
    CAPTURE(text);
    CHECK(json_problem(text) == problem);
  };
  const std::string needs_escape = "line 1, column 15 has '\\x0a', where a string needs an escape";
  says("[ \"UTF-8 name \n\"]", needs_escape);
  says("[\"ill-formed UTF-8\n\"]", "line 1, column 19 has '\\x0a', where a string needs an escape");
  says("[\"while parsing object key\" 1]", "line 1, column 29 has '1', where ',' or ']' is accepted");
  says("[\"control character\\x\"]", "line 1, column 21 has 'x', where an escape needs another");
  says("[\" - invalid string:\" x]", "line 1, column 23 has 'x', where ',' or ']' is accepted");
}

TEST_CASE("of what is no UTF-8 the first byte of the character is named") {
  const auto says = [](const std::string &string, const std::string &place) {
    CAPTURE(string);
    CHECK(json_problem("[\"" + string + "\"]") == "line 1, column " + place + ", which is no UTF-8");
  };
  says("\xc3", "3 has the byte \\xc3");          // the closing quote is sound
  says("\xed\xa0\x80", "3 has the byte \\xed");  // a surrogate
  says("\xe0\x80\x80", "3 has the byte \\xe0");  // overlong
  says("\xf4\x90\x80\x80", "3 has the byte \\xf4");
  says("\xf0\x9f\x98", "3 has the byte \\xf0");
  says("\xc0\x80", "3 has the byte \\xc0");
  says("\x80", "3 has the byte \\x80");
  says("\xc3\xa9\x80", "5 has the byte \\x80");  // after a sound character
  says("a\xc3\xa9\xc3", "6 has the byte \\xc3");
  CHECK(json_problem("[\"\xf0\x9f") == "line 1, column 3 has the byte \\xf0, which is no UTF-8");
}

// The JSON library takes it for the end of the text.
TEST_CASE("a text does not end at a NUL") {
  const auto says = [](const std::string &text, const std::string &problem) {
    CAPTURE(text);
    CHECK(json_problem(text) == problem);
  };
  const std::string nul(1, '\0');
  says("[]" + nul + "{\"anything", "line 1, column 3 has '\\x00', where the end of the text is accepted");
  says("[]\n" + nul, "line 2, column 1 has '\\x00', where the end of the text is accepted");
  says("1" + nul, "line 1, column 2 has '\\x00', where the end of the text is accepted");
  says(nul, "line 1, column 1 has '\\x00', where a value is accepted");
  says("[1" + nul + "]", "line 1, column 3 has '\\x00', where ',' or ']' is accepted");
  says("[\"a" + nul + "\"]", "line 1, column 4 has '\\x00', where a string needs an escape");
}
