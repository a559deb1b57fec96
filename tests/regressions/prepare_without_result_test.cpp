// A call without results could be prepared only on the CPU: its launch geometry divided by a grid of zero groups.
#include <doctest/doctest.h>

#include "support/session.h"
#include "support/tiny_kernels.h"

using namespace msj;
using namespace msj::testing;

TEST_CASE("a call without results can be prepared, and its like with results is then ready") {
  const TinyKernels kernels;
  for (const ops::Op &op : ops::all_ops()) {
    for (const int size : sizes_of_every_result(*op.spec)) {
      FakeGpu gpu;
      const ScratchDirectory cache;
      Session session(cache.path(), "off");
      CallShape shape = small_call(*op.spec, op.spec->all_features());
      shape.sizes[static_cast<std::size_t>(size)] = 0;
      OpCall call(shape);
      const msj_status status = msj_prepare(session.get(), &call.call(), nullptr, nullptr);
      INFO(msj_last_error());
      CHECK(status == MSJ_OK);
      REQUIRE(msj_freeze(session.get(), 1) == MSJ_OK);
      shape.sizes[static_cast<std::size_t>(size)] = 1;
      CHECK(session.run(shape) == MSJ_OK);
      CHECK(gpu->launch_count() == session.kernels_of(shape));
    }
  }
}
