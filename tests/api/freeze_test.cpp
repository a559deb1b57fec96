// A frozen context, and a stream under capture, take what is ready and refuse what is cold: a serving process can prove
// that it never compiles.
#include <doctest/doctest.h>

#include "support/session.h"
#include "support/tiny_kernels.h"

using namespace msj;
using namespace msj::testing;

namespace {

bool last_error_has(const std::string &words) { return std::string(msj_last_error()).find(words) != std::string::npos; }

}  // namespace

TEST_CASE("frozen: ready calls go on, cold ones are MSJ_ERROR_COLD and leave nothing behind") {
  const TinyKernels kernels;
  for (const ops::Op &op : ops::all_ops()) {
    CAPTURE(op.spec->name);
    FakeGpu gpu;
    const ScratchDirectory cache;
    Session session(cache.path());
    const CallShape ready = small_call(*op.spec);
    session.must_run(ready);
    REQUIRE(msj_freeze(session.get(), 1) == MSJ_OK);
    session.must_run(ready);
    CallShape in_its_bucket = ready;
    in_its_bucket.sizes[0] += 1;
    session.must_run(in_its_bucket);
    const msj_counters before = session.stats();

    std::vector<CallShape> cold;
    for (FeatureSet set = 1; set <= op.spec->all_features(); ++set) cold.push_back(small_call(*op.spec, set));
    cold.push_back(small_call(*op.spec, 0, Strides::odd_rows));
    cold.push_back(ready);
    cold.back().own = own_dtypes(*op.spec).back();
    cold.push_back(ready);
    cold.back().sizes[0] = 1000;  // another bucket: even its lookup would be one
    for (const CallShape &shape : cold) {
      CHECK(session.run(shape) == MSJ_ERROR_COLD);
      CHECK(last_error_has("frozen"));
      CHECK(last_error_has(std::string(op.spec->name)));
      CHECK(last_error_has("(bucket "));  // what it is that was not prepared
      OpCall call(shape);
      CHECK(msj_prepare(session.get(), &call.call(), nullptr, nullptr) == MSJ_ERROR_COLD);
    }
    OpCall call(ready);
    msj_prepare_options ahead{};
    ahead.struct_size = sizeof ahead;
    ahead.arch = "sm_80";
    CHECK(msj_prepare(session.get(), &call.call(), &ahead, nullptr) == MSJ_ERROR_COLD);

    const msj_counters after = session.stats();
    CHECK(after.nvrtc_invocations == before.nvrtc_invocations);
    CHECK(after.sweeps == before.sweeps);
    CHECK(after.module_loads == before.module_loads);
    CHECK(after.cubin_hits_disk == before.cubin_hits_disk);
    CHECK(after.launches == before.launches);

    REQUIRE(msj_freeze(session.get(), 0) == MSJ_OK);
    for (const CallShape &shape : cold) session.must_run(shape);
  }
}

TEST_CASE("a frozen context does not even load what is on disk") {
  const TinyKernels kernels;
  const OpSpec &op = *ops::all_ops().front().spec;
  FakeGpu gpu;
  const ScratchDirectory cache;
  {
    Session session(cache.path());
    session.must_run(small_call(op));
  }
  Session session(cache.path());
  REQUIRE(msj_freeze(session.get(), 1) == MSJ_OK);
  CHECK(session.run(small_call(op)) == MSJ_ERROR_COLD);
  CHECK(session.stats().module_loads == 0);
}

TEST_CASE("under capture: a ready call is captured, a cold one is refused, and the capture survives") {
  const TinyKernels kernels;
  for (const ops::Op &op : ops::all_ops()) {
    CAPTURE(op.spec->name);
    FakeGpu gpu;
    const ScratchDirectory cache;
    Session session(cache.path());
    CUcontext context = gpu->create_context(0);
    CUstream stream = gpu->create_stream(context, CU_STREAM_NON_BLOCKING);
    OpCall ready(small_call(*op.spec));
    OpCall cold(small_call(*op.spec, op.spec->all_features()));
    ready.call().stream = cold.call().stream = stream;
    REQUIRE(session.run(ready) == MSJ_OK);

    gpu->set_capture(stream, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    const msj_counters before = session.stats();
    const std::size_t loads = gpu->calls("cuLibraryLoadData");
    CHECK(session.run(ready) == MSJ_OK);
    CHECK(gpu.last_launch().captured);
    CHECK(session.run(cold) == MSJ_ERROR_COLD);
    CHECK(last_error_has("capturing"));
    const msj_counters after = session.stats();
    CHECK(after.nvrtc_invocations == before.nvrtc_invocations);
    CHECK(after.sweeps == before.sweeps);
    CHECK(gpu->calls("cuLibraryLoadData") == loads);
    CUstreamCaptureStatus status{};
    auto is_capturing = gpu->symbol<decltype(&cuStreamIsCapturing)>("cuStreamIsCapturing");
    REQUIRE(is_capturing(stream, &status) == CUDA_SUCCESS);
    CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CHECK(session.run(ready) == MSJ_OK);

    // Another stream may warm up meanwhile, and does not spoil the capture.
    OpCall elsewhere(small_call(*op.spec, op.spec->all_features()));
    elsewhere.call().stream = gpu->create_stream(context, CU_STREAM_NON_BLOCKING);
    CHECK(session.run(elsewhere) == MSJ_OK);
    REQUIRE(is_capturing(stream, &status) == CUDA_SUCCESS);
    CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CHECK(session.run(cold) == MSJ_OK);  // it is ready now
  }
}
