#include "cli/json_text.h"

#include <doctest/doctest.h>

#include <string>

#include "cli/failure.h"
#include "cli/made_up_ops.h"

using namespace msj::cli;
using namespace msj::testing;

namespace {

std::string refusal(const std::string &text) {
  return sentence_of<Failure>([&text] { static_cast<void>(parse_json_text(text, "m.json", "the manifest")); });
}

}  // namespace

TEST_CASE("what is no JSON is said by its place, what is there and what is accepted") {
  const auto says = [](const std::string &text, const std::string &problem) {
    CAPTURE(text);
    CHECK(refusal(text) == "m.json: the manifest is not JSON: " + problem);
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

// Found by tests/fuzz: the JSON library quotes all that it read since the last token, each control character as eight.
TEST_CASE("a manifest that is no JSON is not quoted") {
  CHECK(refusal("[{\"op\"" + std::string(5000, '\r') + "~").size() < 200);
  CHECK(refusal("[\"" + std::string(5000, 'x') + "\n").size() < 200);
  CHECK(refusal("[\"; expected " + std::string(5000, 'x') + "\n").size() < 200);
}
