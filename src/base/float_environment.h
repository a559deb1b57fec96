// The floating-point environment in which this library computes: round to nearest, subnormals as they are, no traps.
//
// It belongs to the thread, so a caller may have set another: -ffast-math flushes subnormals in a whole program,
// interval arithmetic rounds upward, a debugger's aid traps. What is computed on the host (a reference, a sweep's
// medians, a number in JSON) must neither follow it nor be seen in it. glibc's functions cover all of it: x87 and MXCSR
// on x86-64, FPCR and FPSR on AArch64. Threads that are started meanwhile have it too.
#pragma once

#include <cfenv>

namespace msj {

// The default environment while this lives, then the caller's again, with the flags that were raised in it and no
// other. What is computed must be out of the compiler's sight from here: it may move arithmetic past these calls. A
// pair of them takes about 0.1 us, too much for a launch that is ready.
class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment() {
    std::fegetenv(&callers_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatEnvironment() { std::fesetenv(&callers_); }
  DefaultFloatEnvironment(const DefaultFloatEnvironment &) = delete;
  DefaultFloatEnvironment &operator=(const DefaultFloatEnvironment &) = delete;

 private:
  std::fenv_t callers_{};
};

}  // namespace msj
