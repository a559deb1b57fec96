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
