// Target architectures: their names, and the limits that admissibility needs where no device is there to ask.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/op_spec.h"

namespace msj::cuda {

struct Architecture {
  int compute_capability = 0;  // 90
  std::string name;            // "sm_90a": the real target, with its suffix
  std::string first_nvrtc;     // the first NVRTC that compiles for it, "12.8"; "" where this library does not know
  DeviceLimits limits;         // of the smallest device of that architecture; sm_count 0

  friend bool operator==(const Architecture &a, const Architecture &b) { return a.name == b.name; }
};

// "sm_80", "sm_86", "sm_89", "sm_90a" (and "sm_90", the same target), "sm_100a", "sm_120a", …
// Throws Error(MSJ_ERROR_INVALID_ARGUMENT) that lists what is known; older than sm_80: MSJ_ERROR_UNSUPPORTED.
[[nodiscard]] Architecture parse_architecture(std::string_view name);

// All names that parse_architecture takes.
[[nodiscard]] std::vector<std::string> architecture_names();

// The target for a device of this compute capability. One that is newer than this library: "sm_<number>", with limits
// that every architecture so far has.
[[nodiscard]] Architecture architecture_of(int compute_capability);

}  // namespace msj::cuda
