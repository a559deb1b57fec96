// What a caller is told: a status, and one sentence with the words that matter.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "maxsim_jit/maxsim_jit.h"

namespace msj::testing {

// `status` has just come from the library.
inline void check_sentence(msj_status status, msj_status expected, const std::vector<std::string> &words) {
  const std::string sentence = msj_last_error();
  CAPTURE(sentence);
  CHECK(status == expected);
  CHECK(sentence.find('\n') == std::string::npos);
  for (const std::string &word : words) {
    CAPTURE(word);
    CHECK(sentence.find(word) != std::string::npos);
  }
}

}  // namespace msj::testing
