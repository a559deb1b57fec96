#include "text/printable.h"

#include <doctest/doctest.h>

#include <string>

using namespace msj;

TEST_CASE("printable text stays as it is") {
  for (const std::string text : {"", "a plain word, with 'quotes' and \\", "naïve … 日本語 𝄞", "\xef\xbf\xbf"}) {
    CHECK(printable(text) == text);
  }
}

TEST_CASE("control characters are told by their bytes") {
  CHECK(printable("a\nb\r\tc") == "a\\x0ab\\x0d\\x09c");
  CHECK(printable("\x1b[2J\x7f") == "\\x1b[2J\\x7f");
  CHECK(printable(std::string_view("\0", 1)) == "\\x00");
  CHECK(printable("\xc2\x9b[2J") == "\\xc2\\x9b[2J");  // the same escape, as one character of Latin-1
}

TEST_CASE("bytes that are no UTF-8 are told as they are, and what follows them is text again") {
  CHECK(printable("caf\xe9!") == "caf\\xe9!");
  CHECK(printable("\xe9") == "\\xe9");
  CHECK(printable("\xc3") == "\\xc3");
  CHECK(printable("\xe6\x97"
                  "A") == "\\xe6\\x97A");
  CHECK(printable("\x80\xbf") == "\\x80\\xbf");
  CHECK(printable("\xc0\x8a") == "\\xc0\\x8a");                    // overlong line end
  CHECK(printable("\xe0\x80\x8a") == "\\xe0\\x80\\x8a");           // overlong
  CHECK(printable("\xf0\x80\x80\x8a") == "\\xf0\\x80\\x80\\x8a");  // overlong
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");           // a surrogate
  CHECK(printable("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");  // beyond U+10FFFF
  CHECK(printable("\xff") == "\\xff");
}

TEST_CASE("long text is cut between characters, and its length is told") {
  CHECK(shortened(std::string(80, 'x')) == std::string(80, 'x'));
  CHECK(shortened(std::string(81, 'x')) == std::string(80, 'x') + "… (81 bytes)");
  CHECK(shortened(std::string(79, 'x') + "é" + std::string(80, 'y')) == std::string(79, 'x') + "… (161 bytes)");
  CHECK(shortened(std::string(78, 'x') + "é" + std::string(80, 'y')) == std::string(78, 'x') + "é… (160 bytes)");
  CHECK(shortened(std::string(200, '\x80')) == "… (200 bytes)");  // no UTF-8 at all
}

TEST_CASE("what a sentence quotes is shortened first, then made printable") {
  CHECK(in_quotes("a\n") == "\"a\\x0a\"");
  CHECK(in_quotes(std::string(100'000, '\n')).ends_with("\\x0a… (100000 bytes)\""));
}
