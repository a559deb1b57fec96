// A stand-in for an NVRTC that is too old (11.2, for GPUs up to sm_86), which no machine of ours has: it opens and
// tells its version, and compiles nothing.
#include <algorithm>
#include <array>

#pragma GCC visibility push(default)
#include <nvrtc.h>

namespace {

constexpr std::array kArchitectures = {50, 60, 70, 75, 80, 86};

}  // namespace

extern "C" {

const char *nvrtcGetErrorString(nvrtcResult) { return "NVRTC_ERROR_INTERNAL_ERROR"; }

nvrtcResult nvrtcVersion(int *major, int *minor) {
  *major = 11;
  *minor = 2;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetNumSupportedArchs(int *count) {
  *count = static_cast<int>(kArchitectures.size());
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetSupportedArchs(int *architectures) {
  std::ranges::copy(kArchitectures, architectures);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *, const char *, const char *, int, const char *const *,
                               const char *const *) {
  return NVRTC_ERROR_INTERNAL_ERROR;
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram *) { return NVRTC_ERROR_INTERNAL_ERROR; }
nvrtcResult nvrtcCompileProgram(nvrtcProgram, int, const char *const *) { return NVRTC_ERROR_INTERNAL_ERROR; }
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram, size_t *) { return NVRTC_ERROR_INTERNAL_ERROR; }
nvrtcResult nvrtcGetCUBIN(nvrtcProgram, char *) { return NVRTC_ERROR_INTERNAL_ERROR; }
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram, size_t *) { return NVRTC_ERROR_INTERNAL_ERROR; }
nvrtcResult nvrtcGetProgramLog(nvrtcProgram, char *) { return NVRTC_ERROR_INTERNAL_ERROR; }

}  // extern "C"

#pragma GCC visibility pop
