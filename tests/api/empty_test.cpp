// Nothing to score is no error: no query or no document gives an empty result, and launches nothing.
#include <doctest/doctest.h>

#include "maxsim_jit/maxsim_jit.hpp"
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
    for (const int size : sizes_of_every_result(*op.spec)) {
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
      const auto empty = sizes_of_every_result(*op.spec);
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

TEST_CASE("a result that has an element whatever the sizes is written: the one scale of no tokens") {
  const ScratchDirectory cache;
  const maxsim_jit::Context context({.cache_dir = cache.path()});
  for (const std::int64_t N : {0, 3}) {
    float scale = -7;
    maxsim_jit::Fp8Quantize call;
    call.x = maxsim_jit::Tensor(nullptr, maxsim_jit::DType::f32, {N, 0, 8});
    call.quantized = maxsim_jit::Tensor(nullptr, maxsim_jit::DType::fp8_e4m3, {N, 0, 8});
    call.scales = maxsim_jit::Tensor(&scale, maxsim_jit::DType::f32, {1});
    call.launch.device = MSJ_DEVICE_CPU;
    maxsim_jit::fp8_quantize(context, call);
    CHECK(scale == 1);
  }
  const TinyKernels kernels;
  FakeGpu gpu;
  Session session(cache.path(), "off");
  CallShape shape = small_call(*ops::find_op(MSJ_FP8_QUANTIZE)->spec);
  shape.sizes[0] = 0;
  session.must_run(shape);
  CHECK(session.stats().launches == 1);
}
