// A cache baked by `warm --arch` holds the default config and no entry: a machine without NVRTC must run it, with
// tuning on as by default, and not fail for want of a sweep.
#include <doctest/doctest.h>

#include "support/session.h"
#include "support/tiny_kernels.h"

using namespace msj;
using namespace msj::testing;

TEST_CASE("a baked cache without NVRTC runs the default config, with one warning") {
  const TinyKernels kernels;
  FakeGpu gpu;
  const ScratchDirectory cache;
  const CallShape shape = small_call(*ops::all_ops()[0].spec, 0);
  {
    Session baking(cache.path());
    OpCall call(shape);
    msj_prepare_options options{};
    options.struct_size = sizeof options;
    options.arch = "sm_90a";
    REQUIRE(msj_prepare(baking.get(), &call.call(), &options, nullptr) == MSJ_OK);
  }
  const ScopedEnvironment hidden("MAXSIM_JIT_LIBNVRTC", "/nonexistent/libnvrtc.so");
  Session serving(cache.path());
  serving.must_run(shape);
  CHECK(serving.stats().nvrtc_invocations == 0);
  CHECK(serving.stats().sweeps == 0);
  CHECK(serving.stats().cubin_hits_disk == 1);
  REQUIRE(serving.complaints().size() == 1);
  CHECK(serving.complaints()[0].find("the default config is used") != std::string::npos);
}
