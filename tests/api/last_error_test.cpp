// msj_last_error: one sentence, of this thread's last call.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "maxsim_jit/maxsim_jit.h"

TEST_CASE("the sentence lasts until this thread's next call, and is no other thread's") {
  CHECK(msj_freeze(nullptr, 1) == MSJ_ERROR_INVALID_ARGUMENT);
  const std::string sentence = msj_last_error();
  CHECK(sentence.find("context is null") != std::string::npos);
  CHECK(std::string(msj_last_error()) == sentence);  // asking is no call
  CHECK(std::string(msj_version()) == "0.1.0");
  CHECK(std::string(msj_last_error()) == sentence);

  std::string before;
  std::string after;
  std::thread([&] {
    before = msj_last_error();
    (void)msj_describe(nullptr);
    after = msj_last_error();
  }).join();
  CHECK(before.empty());
  CHECK(after.find("json is null") != std::string::npos);
  CHECK(std::string(msj_last_error()) == sentence);

  char *json = nullptr;
  CHECK(msj_describe(&json) == MSJ_OK);
  msj_string_free(json);
  CHECK(std::string(msj_last_error()).empty());
}

TEST_CASE("a caller's text is quoted on one line, and shortened") {
  msj_context_options options{};
  options.struct_size = sizeof options;
  msj_context *context = nullptr;
  REQUIRE(msj_context_create(&options, &context) == MSJ_OK);
  char *json = nullptr;
  const auto inspect = [&](const char *op, const char *arch) {
    msj_inspect_options wanted{};
    wanted.struct_size = sizeof wanted;
    wanted.op = op;
    wanted.arch = arch;
    return msj_inspect(context, &wanted, &json);
  };
  const std::vector<std::function<msj_status(const char *)>> calls = {
      [&](const char *text) { return inspect(text, nullptr); },
      [&](const char *text) { return inspect(nullptr, text); },
      [&](const char *text) { return msj_cache_import(context, text, &json); },
      [&](const char *text) { return msj_cache_export(context, nullptr, text, &json); },
      [&](const char *text) {
        msj_context *other = nullptr;
        options.tune = text;
        return msj_context_create(&options, &other);
      },
  };
  const std::string odd = "/no/where/\x1b[31m\nred \xff";
  const std::string endless(100'000, 'x');
  for (const auto &call : calls) {
    CHECK(call(odd.c_str()) != MSJ_OK);
    const std::string sentence = msj_last_error();
    CAPTURE(sentence);
    CHECK(sentence.find("/no/where/\\x1b[31m\\x0ared \\xff") != std::string::npos);
    CHECK(call(endless.c_str()) == MSJ_ERROR_INVALID_ARGUMENT);
    const std::string short_sentence = msj_last_error();
    CHECK(short_sentence.size() < 500);
    CHECK(short_sentence.find("xxx… (100000 bytes)\"") != std::string::npos);
  }
  CHECK(msj_context_destroy(context) == MSJ_OK);
}
