#include "cli/console.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string>

#include "maxsim_jit/maxsim_jit.h"

using namespace msj::cli;

namespace {

// A stream into memory.
class Memory {
 public:
  Memory() { REQUIRE(stream_ != nullptr); }

  [[nodiscard]] std::FILE *stream() const { return stream_.get(); }
  [[nodiscard]] std::string text() const {
    std::fflush(stream());
    return {bytes_.data(), static_cast<std::size_t>(std::ftell(stream()))};
  }

 private:
  std::array<char, 4096> bytes_{};
  std::unique_ptr<std::FILE, int (*)(std::FILE *)> stream_{fmemopen(bytes_.data(), bytes_.size(), "w"), std::fclose};
};

}  // namespace

TEST_CASE("a bar fills with the work done") {
  CHECK(bar_text("compile", 0, 24) == "compile  [                              ] 0/24   0 %");
  CHECK(bar_text("compile", 12, 24) == "compile  [###############               ] 12/24  50 %");
  CHECK(bar_text("compile", 24, 24) == "compile  [##############################] 24/24 100 %");
  CHECK(bar_text("sweep", 5, 0).ends_with("100 %"));  // nonsense must not divide by zero
  CHECK(bar_text("sweep", 9, 3).ends_with("100 %"));
  CHECK(bar_text("sweep", -2, 3).ends_with("  0 %"));
}

TEST_CASE("elsewhere than on a terminal, progress is whole lines, and not one for each step") {
  Memory memory;
  Console console(memory.stream(), false);
  for (int i = 1; i <= 1000; ++i) console.progress("sweep", i, 1000);
  console.clear_bar();
  const std::string text = memory.text();
  CHECK(text.find('\r') == std::string::npos);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.ends_with("maxsim-jit: sweep 1000 of 1000\n"));
  CHECK(std::count(text.begin(), text.end(), '\n') <= 4);
}

TEST_CASE("on a terminal the bar is the last line, and is gone at the end") {
  Memory memory;
  {
    Console console(memory.stream(), true);
    console.progress("sweep", 1, 2);
    CHECK(memory.text() == bar_text("sweep", 1, 2));
    console.progress("sweep", 1, 2);  // nothing new to draw
    CHECK(memory.text() == bar_text("sweep", 1, 2));
    console.note("a note");
    CHECK(memory.text().ends_with("\r\x1b[Kmaxsim-jit: a note\n"));
    console.progress("sweep", 2, 2);
    CHECK(memory.text().ends_with(bar_text("sweep", 2, 2)));
  }
  CHECK(memory.text().ends_with("\r\x1b[K"));
}

TEST_CASE("the library's log: warnings and errors always, the rest on request") {
  Memory memory;
  Console console(memory.stream(), false);
  console.log(MSJ_LOG_INFO, "quiet");
  console.log(MSJ_LOG_DEBUG, "quiet");
  CHECK(memory.text().empty());
  console.log(MSJ_LOG_WARNING, "no cache");
  console.log(MSJ_LOG_ERROR, "no disk");
  CHECK(memory.text() == "maxsim-jit: warning: no cache\nmaxsim-jit: error: no disk\n");
  console.set_verbose(true);
  console.log(MSJ_LOG_INFO, "told");
  CHECK(memory.text().ends_with("maxsim-jit: told\n"));
}
