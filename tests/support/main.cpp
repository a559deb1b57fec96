// The main of every test program.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

// The sanitizers' libraries look for these functions by their names: they must be visible although nothing else here
// is.
#define MSJ_VISIBLE __attribute__((visibility("default")))

// GCC's ThreadSanitizer before 14 does not see the lock that a timed mutex takes by the steady clock
// (pthread_mutex_clocklock), and then complains of its unlock. NVRTC guards its own memory by means that it does not
// see either.
extern "C" MSJ_VISIBLE const char *__tsan_default_suppressions();
extern "C" const char *__tsan_default_suppressions() {
  return "mutex:msj::tune::Tuner::GpuTurn\nmutex:msj::tune::Tuner::sweep_or_wait\nrace:libnvrtc\n";
}

// What the driver and NVRTC keep until the process ends.
extern "C" MSJ_VISIBLE const char *__lsan_default_suppressions();
extern "C" const char *__lsan_default_suppressions() { return "leak:^cuInit$\nleak:libnvrtc\n"; }
