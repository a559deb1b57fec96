// What a context did. The names are those of msj_counters and of every JSON.
#pragma once

#include <atomic>
#include <cstdint>

#include "maxsim_jit/maxsim_jit.h"

namespace msj {

struct Counters {
  std::atomic<std::int64_t> nvrtc_invocations{0};
  std::atomic<std::int64_t> nvrtc_nanoseconds{0};
  std::atomic<std::int64_t> cubin_hits_memory{0};
  std::atomic<std::int64_t> cubin_hits_disk{0};
  std::atomic<std::int64_t> module_loads{0};
  std::atomic<std::int64_t> sweeps{0};
  std::atomic<std::int64_t> candidates_timed{0};
  std::atomic<std::int64_t> autotune_hits{0};
  std::atomic<std::int64_t> launches{0};

  // Fills all of a full-sized `out` but its struct_size.
  void snapshot(msj_counters &out) const;
};

}  // namespace msj
