// Floating-point environments that a caller may have set, for this thread.
#pragma once

#include <array>
#include <cfenv>
#include <cstdint>
#include <tuple>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace msj::testing {

// Rounding direction and traps, or how subnormals are treated: what a caller sets, and what must be as it was.
[[nodiscard]] inline std::uint64_t float_control() {
#if defined(__x86_64__)
  constexpr unsigned kFlags = 0x3f;
  return _mm_getcsr() & ~kFlags;
#elif defined(__aarch64__)
  std::uint64_t control = 0;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  return control;
#else
  return static_cast<std::uint64_t>(std::fegetround());
#endif
}

inline void flush_subnormals() {
#if defined(__x86_64__)
  constexpr unsigned kFlushToZero = 0x8000;
  constexpr unsigned kDenormalsAreZero = 0x0040;
  _mm_setcsr(_mm_getcsr() | kFlushToZero | kDenormalsAreZero);
#elif defined(__aarch64__)
  asm volatile("msr fpcr, %0" ::"r"(float_control() | (std::uint64_t{1} << 24)));
#endif
}

struct FloatEnvironment {
  const char *name;
  void (*set)();
};

inline constexpr std::array kFloatEnvironments = {
    FloatEnvironment{"upward", [] { std::fesetround(FE_UPWARD); }},
    FloatEnvironment{"downward", [] { std::fesetround(FE_DOWNWARD); }},
    FloatEnvironment{"toward zero", [] { std::fesetround(FE_TOWARDZERO); }},
    FloatEnvironment{"without subnormals", flush_subnormals},
    FloatEnvironment{"trapping", [] { feenableexcept(FE_ALL_EXCEPT); }},
    FloatEnvironment{"a flag is raised", [] { std::feraiseexcept(FE_DIVBYZERO); }},
};

// (control, x87's and the vectors' rounding, traps, flags)
[[nodiscard]] inline auto float_state() {
  return std::tuple(float_control(), std::fegetround(), fegetexcept(), std::fetestexcept(FE_ALL_EXCEPT));
}

// body() in that environment; true where it left it as it was. Nothing is thrown or checked within: that may compute.
template <typename Body>
[[nodiscard]] bool keeps_environment(const FloatEnvironment &environment, const Body &body) {
  std::fesetenv(FE_DFL_ENV);
  environment.set();
  const auto before = float_state();
  body();
  const auto after = float_state();
  std::fesetenv(FE_DFL_ENV);
  return before == after;
}

}  // namespace msj::testing
