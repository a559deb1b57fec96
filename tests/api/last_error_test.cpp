// msj_last_error: one sentence, of this thread's last call.
#include <doctest/doctest.h>

#include <string>
#include <thread>

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
