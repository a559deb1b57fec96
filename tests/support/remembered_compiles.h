// For tests that start from an empty cache again and again: NVRTC compiles each source once, and each further compile
// of it, which counts as before, takes no time. Not for tests of what happens while something is compiled.
#pragma once

#include <cstdlib>
#include <string>

#include "support/scratch.h"

namespace msj::testing {

// For contexts that are made while this lives.
class RememberedCompiles {
 private:
  [[nodiscard]] static std::string real_library() {
    const char *path = std::getenv("MAXSIM_JIT_LIBNVRTC");
    return path == nullptr ? "" : path;
  }

  ScopedEnvironment real_{"MSJ_REAL_LIBNVRTC", real_library()};
  ScopedEnvironment library_{"MAXSIM_JIT_LIBNVRTC", MSJ_REMEMBERING_NVRTC};
};

}  // namespace msj::testing
