#include "base/counters.h"

#include <doctest/doctest.h>

namespace msj {

TEST_CASE("a snapshot has every counter in its own place") {
  Counters counters;
  counters.nvrtc_invocations = 1;
  counters.nvrtc_nanoseconds = 2'500'000'000;
  counters.cubin_hits_memory = 3;
  counters.cubin_hits_disk = 4;
  counters.module_loads = 5;
  counters.sweeps = 6;
  counters.candidates_timed = 7;
  counters.autotune_hits = 8;
  counters.launches = 9;
  msj_counters out{};
  out.struct_size = 123;
  counters.snapshot(out);
  CHECK(out.struct_size == 123);
  CHECK(out.nvrtc_invocations == 1);
  CHECK(out.nvrtc_seconds == doctest::Approx(2.5));
  CHECK(out.cubin_hits_memory == 3);
  CHECK(out.cubin_hits_disk == 4);
  CHECK(out.module_loads == 5);
  CHECK(out.sweeps == 6);
  CHECK(out.candidates_timed == 7);
  CHECK(out.autotune_hits == 8);
  CHECK(out.launches == 9);
}

}  // namespace msj
