// Nothing to score is no error: no query or no document gives an empty result, and launches nothing.
#include <doctest/doctest.h>

#include "support/session.h"
#include "support/tiny_kernels.h"

using namespace msj;
using namespace msj::testing;

TEST_CASE("a size of 0 that leaves no result: success, null data allowed, nothing launched") {
  for (const ops::Op &op : ops::all_ops()) {
    CAPTURE(op.spec->name);
    FakeGpu gpu;
    const ScratchDirectory cache;
    Session session(cache.path());
    for (const int size : op.spec->empty_sizes) {
      CallShape shape = small_call(*op.spec, op.spec->all_features());
      shape.sizes[static_cast<std::size_t>(size)] = 0;
      for (const std::int32_t device : {0, MSJ_DEVICE_CPU}) {
        OpCall call(shape);
        call.call().device = device;
        for (std::size_t i = 0; i < op.spec->operands.size(); ++i) {
          for (int r = 0; r < op.spec->operands[i].rank; ++r) {
            if (call.tensor(i).shape[r] == 0) call.tensor(i).data = nullptr;
          }
        }
        CAPTURE(size);
        const msj_status status = session.run(call);
        INFO(msj_last_error());
        CHECK(status == MSJ_OK);
      }
    }
    CHECK(session.stats().launches == 0);
    CHECK(session.stats().nvrtc_invocations == 0);
    CHECK(gpu->launch_count() == 0);
  }
}

TEST_CASE("other sizes of 0 have a result, and launch") {
  const TinyKernels kernels;
  for (const ops::Op &op : ops::all_ops()) {
    FakeGpu gpu;
    const ScratchDirectory cache;
    Session session(cache.path(), "off");
    std::int64_t launches = 0;
    for (std::size_t i = 0; i < op.spec->sizes.size(); ++i) {
      const auto &empty = op.spec->empty_sizes;
      if (op.spec->sizes[i].is_static || std::find(empty.begin(), empty.end(), static_cast<int>(i)) != empty.end()) {
        continue;
      }
      CAPTURE(op.spec->sizes[i].name);
      CallShape shape = small_call(*op.spec, op.spec->all_features());
      shape.sizes[i] = 0;
      session.must_run(shape);
      CHECK(session.stats().launches == ++launches);
    }
  }
}
