// A driver that loads lazily refuses a damaged cubin only when its function is resolved: that too must build it again.
#include <doctest/doctest.h>

#include "support/session.h"
#include "support/tiny_kernels.h"

using namespace msj;
using namespace msj::testing;

TEST_CASE("a cubin whose function can't be resolved is built again, once, in memory and on disk") {
  const TinyKernels kernels;
  for (const char *symbol : {"cuLibraryLoadData", "cuLibraryGetKernel", "cuKernelGetFunction"}) {
    CAPTURE(symbol);
    FakeGpu gpu;
    const ScratchDirectory cache;
    const CallShape shape = small_call(*ops::all_ops()[0].spec, 0);
    {
      Session first(cache.path(), "off");
      first.must_run(shape);
    }
    Session second(cache.path(), "off");
    gpu->fail(symbol, CUDA_ERROR_INVALID_IMAGE, 1);
    second.must_run(shape);
    CHECK(second.stats().nvrtc_invocations == 1);
    CHECK(second.complaints().size() == 1);

    Session third(cache.path(), "off");
    gpu->fail(symbol, CUDA_ERROR_INVALID_IMAGE, 2);
    CHECK(third.run(shape) == MSJ_ERROR_CUDA);
    CHECK(third.stats().nvrtc_invocations == 1);
    third.must_run(shape);  // the failure is not kept
  }
}
