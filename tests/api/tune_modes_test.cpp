// MAXSIM_JIT_TUNE: on sweeps when cold, cached uses what is there, off is always the default config.
#include <doctest/doctest.h>

#include "support/session.h"
#include "support/tiny_kernels.h"

using namespace msj;
using namespace msj::testing;

namespace {

// The candidate that a sweep finds: the last one of each class, which is no default.
double last_wins(const std::vector<tune::Admitted> &admitted, const tune::Trial &trial) {
  for (auto it = admitted.rbegin(); it != admitted.rend(); ++it) {
    if (it->layout == trial.layout) return it->config == trial.config ? 1.0 : 2.0;
  }
  return 2.0;
}

struct Outcome {
  unsigned shared_bytes;
  std::string image;
  msj_counters stats;
};

Outcome run(FakeGpu &gpu, const std::string &cache, const char *tune, const CallShape &shape) {
  std::vector<tune::Admitted> admitted;
  Session session(cache, tune,
                  [&](const tune::SweepProblem &, const tune::Trial &trial) { return last_wins(admitted, trial); });
  admitted = session.admission(shape).admitted;
  session.must_run(shape);
  const fake::Launch launch = gpu.last_launch();
  return {launch.shared_bytes, std::string(static_cast<const char *>(launch.image), launch.image_bytes),
          session.stats()};
}

}  // namespace

TEST_CASE("on, cached, off") {
  const TinyKernels kernels;
  for (const ops::Op &op : ops::all_ops()) {
    CAPTURE(op.spec->name);
    FakeGpu gpu;
    const ScratchDirectory cache;
    const CallShape shape = small_call(*op.spec);
    const Outcome off = run(gpu, cache.path(), "off", shape);
    CHECK(off.stats.nvrtc_invocations == 1);
    CHECK(off.stats.autotune_hits == 0);
    const Outcome cold_cached = run(gpu, cache.path(), "cached", shape);
    CHECK(cold_cached.image == off.image);
    CHECK(cold_cached.stats.sweeps == 0);
    CHECK(cold_cached.stats.nvrtc_invocations == 0);
    CHECK(entry_files(cache.path()).empty());

    const Outcome on = run(gpu, cache.path(), "on", shape);
    CHECK(on.stats.sweeps == 1);
    CHECK(on.image != off.image);
    const Outcome cached = run(gpu, cache.path(), "cached", shape);
    CHECK(cached.image == on.image);
    CHECK(cached.stats.sweeps == 0);
    CHECK(cached.stats.nvrtc_invocations == 0);
    CHECK(cached.stats.autotune_hits == 1);
    const Outcome off_again = run(gpu, cache.path(), "off", shape);
    CHECK(off_again.image == off.image);
    CHECK(off_again.stats.nvrtc_invocations == 0);
    CHECK(off_again.stats.autotune_hits == 0);
    CHECK(off_again.stats.sweeps == 0);
  }
}

TEST_CASE("the environment is read once, when a context is made, and options win over it") {
  const TinyKernels kernels;
  const OpSpec &op = *ops::all_ops().front().spec;
  FakeGpu gpu;
  const ScratchDirectory cache;
  const ScopedEnvironment off("MAXSIM_JIT_TUNE", "off");
  Session from_environment(cache.path(), nullptr);
  Session from_option(cache.path(), "on");
  const ScopedEnvironment on("MAXSIM_JIT_TUNE", "on");
  from_environment.must_run(small_call(op));
  CHECK(from_environment.stats().sweeps == 0);
  from_option.must_run(small_call(op));
  CHECK(from_option.stats().sweeps == 1);
}
