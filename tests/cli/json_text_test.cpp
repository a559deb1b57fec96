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

// Found by tests/fuzz: the JSON library quotes all that it read since the last token, each control character as eight.
TEST_CASE("a manifest that is no JSON is not quoted whole") {
  const std::string spaces = refusal("[{\"op\"" + std::string(5000, '\r') + "~");
  CHECK(spaces.size() < 300);
  CHECK(contains(spaces, "m.json: the manifest is not JSON: parse error at line 1, column "));
  CHECK(contains(spaces, "…"));
  const std::string word = refusal("[\"" + std::string(5000, 'x') + "\n");
  CHECK(word.size() < 300);
  const std::string expected = refusal("[\"; expected " + std::string(5000, 'x') + "\n");
  CHECK(expected.size() < 300);
}

TEST_CASE("what was expected instead is said") {
  CHECK(contains(refusal("[1 \"abc\"]"), "unexpected string literal; expected ']'"));
  CHECK(contains(refusal("[1 nul]"), "last read: '1 nul]'; expected ']'"));
  CHECK(contains(refusal("[nul]"), "last read: '[nul]'"));
  const std::string nothing = refusal("");  // as nlohmann/json 3.11.2 and 3.11.3 say it
  CHECK((contains(nothing, "unexpected end of input") || contains(nothing, "empty input")));
}
