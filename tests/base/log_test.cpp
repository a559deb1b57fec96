#include "base/log.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "support/float_environments.h"

namespace msj {

namespace {

struct Messages {
  std::vector<std::pair<std::int32_t, std::string>> all;
  static void add(void *self, std::int32_t level, const char *message) {
    static_cast<Messages *>(self)->all.emplace_back(level, message);
  }
};

// What `action` writes to a descriptor of this process.
std::string captured(int descriptor, const std::function<void()> &action) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE *)> file{std::tmpfile(), std::fclose};
  REQUIRE(file != nullptr);
  std::fflush(nullptr);
  const int saved = ::dup(descriptor);
  ::dup2(::fileno(file.get()), descriptor);
  action();
  std::fflush(nullptr);
  ::dup2(saved, descriptor);
  ::close(saved);
  std::string text(4096, '\0');
  std::rewind(file.get());
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  return text;
}

void one_of_each(Log &log) {
  log.error("an error");
  log.warn("a warning");
  log.info("an info");
  log.debug("a debug");
}

std::string on_stderr(const char *level) {
  return captured(STDERR_FILENO, [&] {
    Log log(level, nullptr, nullptr);
    one_of_each(log);
  });
}

}  // namespace

TEST_CASE("a callback gets level and text as they are, up to info") {
  Messages messages;
  Log log("", &Messages::add, &messages);
  one_of_each(log);
  log.warn("{} braces and %v stay");
  const std::vector<std::pair<std::int32_t, std::string>> expected = {
      {MSJ_LOG_ERROR, "an error"},
      {MSJ_LOG_WARNING, "a warning"},
      {MSJ_LOG_INFO, "an info"},
      {MSJ_LOG_WARNING, "{} braces and %v stay"},
  };
  CHECK(messages.all == expected);
}

TEST_CASE("a message is one line, whatever bytes it has") {
  Messages messages;
  Log log("", &Messages::add, &messages);
  log.warn("cache: /a\n\x1b[2J\xff is odd");
  REQUIRE(messages.all.size() == 1);
  CHECK(messages.all.front().second == "cache: /a\\x0a\\x1b[2J\\xff is odd");
}

TEST_CASE("a callback has the default floating-point environment, and what it makes of it ends with it") {
  struct Seen {
    bool is_default = false;
    static void log(void *self, std::int32_t, const char *) {
      static_cast<Seen *>(self)->is_default = std::fegetround() == FE_TONEAREST && fegetexcept() == 0;
      std::fesetround(FE_UPWARD);
      testing::flush_subnormals();
      feenableexcept(FE_ALL_EXCEPT);
    }
  } seen;
  Log log("", &Seen::log, &seen);
  CHECK(testing::keeps_environment({"downward", [] { std::fesetround(FE_DOWNWARD); }}, [&] { log.warn("a warning"); }));
  CHECK(seen.is_default);
}

TEST_CASE("a callback gets debug messages where they are asked for") {
  Messages messages;
  Log log("debug", &Messages::add, &messages);
  one_of_each(log);
  REQUIRE(messages.all.size() == 4);
  CHECK(messages.all.back() == std::pair<std::int32_t, std::string>(MSJ_LOG_DEBUG, "a debug"));
}

TEST_CASE("a callback gets no more than what is asked for") {
  for (const auto &asked : {std::pair("info", 3), std::pair("warn", 2), std::pair("error", 1), std::pair("off", 0)}) {
    // Not [level, count]: CAPTURE is a lambda, and clang before 16 captures no binding.
    const char *level = asked.first;
    Messages messages;
    Log log(level, &Messages::add, &messages);
    one_of_each(log);
    CAPTURE(level);
    CHECK(messages.all.size() == static_cast<std::size_t>(asked.second));
  }
}

TEST_CASE("without a callback, warnings and errors go to stderr, nothing to stdout") {
  CHECK(on_stderr("") == "maxsim-jit: error: an error\nmaxsim-jit: warning: a warning\n");
  CHECK(on_stderr("warn") == on_stderr(""));
  CHECK(on_stderr("error") == "maxsim-jit: error: an error\n");
  CHECK(on_stderr("off").empty());
  CHECK(on_stderr("info").find("an info") != std::string::npos);
  CHECK(on_stderr("info").find("a debug") == std::string::npos);
  CHECK(on_stderr("debug").find("a debug") != std::string::npos);
  CHECK(captured(STDOUT_FILENO, [] { (void)on_stderr("debug"); }).empty());
}

TEST_CASE("info_once says once for each key") {
  Messages messages;
  Log log("", &Messages::add, &messages);
  log.info_once("a", "first");
  log.info_once("a", "again");
  CHECK(messages.all.size() == 1);
}

TEST_CASE("warn_once warns once for each key, in each log") {
  Messages messages;
  Log log("", &Messages::add, &messages);
  log.warn_once("a", "first");
  log.warn_once("a", "again");
  log.warn_once("b", "other");
  CHECK(messages.all.size() == 2);
  Log other("", &Messages::add, &messages);
  other.warn_once("a", "another context");
  CHECK(messages.all.size() == 3);
}

TEST_CASE("a callback sees one call at a time, from any number of threads") {
  struct Guarded {
    std::atomic<int> inside{0};
    std::atomic<int> overlaps{0};
    int calls = 0;
  } guarded;
  const msj_log_callback callback = [](void *user, std::int32_t, const char *) {
    auto &self = *static_cast<Guarded *>(user);
    if (self.inside.fetch_add(1) != 0) ++self.overlaps;
    ++self.calls;
    std::this_thread::yield();
    --self.inside;
  };
  Log log("", callback, &guarded);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 200; ++i) log.warn("x");
        log.warn_once("shared", "y");
      });
    }
  }
  CHECK(guarded.overlaps == 0);
  CHECK(guarded.calls == 8 * 200 + 1);
}

TEST_CASE("a callback may log itself") {
  struct Nested {
    Log *log = nullptr;
    int calls = 0;
  } nested;
  const msj_log_callback callback = [](void *user, std::int32_t, const char *) {
    auto &self = *static_cast<Nested *>(user);
    if (++self.calls == 1) self.log->warn("from within");
  };
  Log log("", callback, &nested);
  nested.log = &log;
  log.warn("outer");
  CHECK(nested.calls == 2);
}

}  // namespace msj
