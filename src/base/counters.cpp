#include "base/counters.h"

namespace msj {

void Counters::snapshot(msj_counters &out) const {
  out.nvrtc_invocations = nvrtc_invocations.load();
  out.nvrtc_seconds = static_cast<double>(nvrtc_nanoseconds.load()) * 1e-9;
  out.cubin_hits_memory = cubin_hits_memory.load();
  out.cubin_hits_disk = cubin_hits_disk.load();
  out.module_loads = module_loads.load();
  out.sweeps = sweeps.load();
  out.candidates_timed = candidates_timed.load();
  out.autotune_hits = autotune_hits.load();
  out.launches = launches.load();
}

}  // namespace msj
