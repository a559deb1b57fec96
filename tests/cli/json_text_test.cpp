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

TEST_CASE("what is no JSON is said by its place, with the file") {
  CHECK(refusal("[{\n  \"op\": 1,\n  x}]") ==
        "m.json: the manifest is not JSON: line 3, column 3 has 'x', where a name in double quotes is accepted");
}

// Found by tests/fuzz: the JSON library quotes all that it read since the last token, each control character as eight.
TEST_CASE("a manifest that is no JSON is not quoted") {
  CHECK(refusal("[{\"op\"" + std::string(5000, '\r') + "~").size() < 200);
  CHECK(refusal("[\"" + std::string(5000, 'x') + "\n").size() < 200);
  CHECK(refusal("[\"; expected " + std::string(5000, 'x') + "\n").size() < 200);
}

TEST_CASE("what no manifest needs is refused with the bound") {
  std::string names = "{";
  for (int i = 0; i < 1025; ++i) names += "\"" + std::to_string(i) + "\":0,";
  names.back() = '}';
  CHECK(refusal(names) == "m.json: the manifest has more than 1024 names in one object, the most accepted");
  std::string lists = "[";
  for (int i = 0; i < 1 << 20; ++i) lists += "[],";
  lists.back() = ']';
  CHECK(refusal(lists) == "m.json: the manifest has more than 1048576 objects, lists and names, the most accepted");
  CHECK(refusal(std::string(17, '[') + std::string(17, ']')) == "m.json: the manifest is nested deeper than 16 levels");
}

TEST_CASE("a sentence does not end at a NUL, nor at another byte of a file") {
  CHECK(refusal(R"({"a\u0000b": 1, "a\u0000b": 2})") ==
        "m.json: the manifest has 'a\\x00b' twice in one object; once is accepted");
  CHECK(refusal(R"({"a\nb": 1, "a\nb": 2})") ==
        "m.json: the manifest has 'a\\x0ab' twice in one object; once is accepted");
}
