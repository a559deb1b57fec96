// The main of the GPU tests: without a GPU they are skipped, which ctest and other callers see from exit status 77.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>

#include "gpu/gpu.h"

int main(int argc, char **argv) {
  constexpr int kSkipped = 77;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // what was found stays in the log of a run that is stopped
  if (const std::string absence = msj::gpu::Gpu::absence(); !absence.empty()) {
    std::printf("skipped: no GPU: %s\n", absence.c_str());
    return kSkipped;
  }
  return doctest::Context(argc, argv).run();
}
