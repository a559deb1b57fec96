#include "text/json_problem.h"

#include <doctest/doctest.h>

#include <string>

using namespace msj;

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
}

TEST_CASE("a text that is JSON has no problem") {
  for (const char *text : {"{}", "[1, \"a\\n\", null]", " 1e300 "}) CHECK(json_problem(text).empty());
}
