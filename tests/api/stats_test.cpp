// Counters, callbacks and device memory of a context, through the C ABI.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstring>

#include "support/session.h"
#include "support/tiny_kernels.h"

using namespace msj;
using namespace msj::testing;

TEST_CASE("counters count, per context, and NVRTC's time is not nothing") {
  const TinyKernels kernels;
  const OpSpec &op = *ops::all_ops().front().spec;
  FakeGpu gpu;
  const ScratchDirectory cache;
  Session session(cache.path());
  Session idle(cache.path());
  msj_counters stats = session.stats();
  CHECK(stats.struct_size == sizeof stats);
  CHECK(stats.nvrtc_invocations + stats.cubin_hits_memory + stats.cubin_hits_disk + stats.module_loads + stats.sweeps +
            stats.candidates_timed + stats.autotune_hits + stats.launches ==
        0);
  CHECK(stats.nvrtc_seconds == 0);
  const CallShape swept = small_call(op, op.representative_features);  // what the sweep compiles
  session.must_run(swept);
  session.must_run(swept);
  stats = session.stats();
  CHECK(stats.nvrtc_invocations == session.sweep_compiles(swept));
  CHECK(stats.candidates_timed == stats.nvrtc_invocations);
  CHECK(stats.nvrtc_seconds > 0);
  CHECK(stats.cubin_hits_memory >= 1);  // the winner's cubin came out of the sweep
  CHECK(stats.launches == 2);
  CHECK(idle.stats().launches == 0);
  CHECK(idle.stats().nvrtc_invocations == 0);
}

TEST_CASE("a counters struct of a later version is filled as far as this one knows it") {
  FakeGpu gpu;
  const ScratchDirectory cache;
  Session session(cache.path());
  struct Later {
    msj_counters known;
    std::int64_t tail;
  } later{};
  later.known.struct_size = sizeof later;
  later.known.launches = -5;
  CHECK(msj_stats(session.get(), &later.known) == MSJ_OK);
  CHECK(later.known.launches == 0);
  CHECK(later.known.struct_size == sizeof later);
  CHECK(later.tail == 0);
}

TEST_CASE("progress tells of compiles and of the sweep, one call at a time") {
  const TinyKernels kernels;
  const OpSpec &op = *ops::all_ops().front().spec;
  FakeGpu gpu;
  const ScratchDirectory cache;
  struct Seen {
    std::atomic<int> inside{0};
    bool overlapped = false;
    std::int64_t compiles = 0;
    std::int64_t sweeps = 0;
  } seen;
  msj_context_options options{};
  options.struct_size = sizeof options;
  options.cache_dir = cache.path().c_str();
  options.progress_user = &seen;
  options.progress = [](void *user, const char *what, std::int64_t done, std::int64_t total) {
    auto &s = *static_cast<Seen *>(user);
    if (++s.inside != 1) s.overlapped = true;
    if (std::strcmp(what, "compile") == 0 && done == total) s.compiles = total;
    if (std::strcmp(what, "sweep") == 0 && done == total) s.sweeps = total;
    --s.inside;
  };
  ops::World world;
  world.make_timer = [](std::shared_ptr<const cuda::Driver>, Log &) -> std::unique_ptr<tune::Timer> {
    return std::make_unique<DecidedTimer>(hashed_time);
  };
  msj_context context(options, world);
  OpCall call(small_call(op));
  REQUIRE(msj_run(&context, &call.call()) == MSJ_OK);
  CHECK_FALSE(seen.overlapped);
  CHECK(seen.compiles >= 2);
  CHECK(seen.sweeps == seen.compiles);
}

TEST_CASE("device memory: allocated, copied there and back, freed") {
  FakeGpu gpu;
  const ScratchDirectory cache;
  Session session(cache.path());
  void *memory = nullptr;
  REQUIRE(msj_device_alloc(session.get(), 0, 64, &memory) == MSJ_OK);
  REQUIRE(memory != nullptr);
  const std::array<char, 6> there = {'m', 'a', 'x', 's', 'i', 'm'};
  std::array<char, 6> back{};
  CHECK(msj_device_copy(session.get(), 0, memory, there.data(), 6, MSJ_COPY_TO_DEVICE) == MSJ_OK);
  CHECK(msj_device_copy(session.get(), 0, back.data(), memory, 6, MSJ_COPY_TO_HOST) == MSJ_OK);
  CHECK(back == there);
  CHECK(msj_device_copy(session.get(), 0, memory, there.data(), 6, 5) == MSJ_ERROR_INVALID_ARGUMENT);
  CHECK(msj_device_copy(session.get(), 0, nullptr, there.data(), 6, MSJ_COPY_TO_DEVICE) == MSJ_ERROR_INVALID_ARGUMENT);
  CHECK(msj_device_copy(session.get(), 0, memory, nullptr, 6, MSJ_COPY_TO_DEVICE) == MSJ_ERROR_INVALID_ARGUMENT);
  CHECK(msj_device_copy(session.get(), 0, nullptr, nullptr, 0, MSJ_COPY_TO_DEVICE) == MSJ_OK);
  void *none = &memory;
  CHECK(msj_device_alloc(session.get(), 9, 64, &none) == MSJ_ERROR_INVALID_ARGUMENT);
  CHECK(none == nullptr);
  CHECK(gpu->live_handles("buffer") == 1);
  CHECK(gpu->stack_depth() == 0);
  none = &memory;
  CHECK(msj_device_alloc(session.get(), 0, 0, &none) == MSJ_OK);
  CHECK(none == nullptr);
  CHECK(msj_device_alloc(session.get(), 0, std::size_t{1} << 60, &none) == MSJ_ERROR_OUT_OF_MEMORY);
  CHECK(msj_device_free(session.get(), 0, nullptr) == MSJ_OK);
  CHECK(msj_device_free(session.get(), 0, memory) == MSJ_OK);
  CHECK(gpu->live_handles("buffer") == 0);
}

TEST_CASE("a context gives back what it took") {
  const TinyKernels kernels;
  FakeGpu gpu;
  const ScratchDirectory cache;
  {
    Session session(cache.path());
    session.must_run(small_call(*ops::all_ops().front().spec, 1));
    CHECK(gpu->live_handles("library") == 1);
    CHECK(gpu->primary_references(0) == 1);
  }
  CHECK(gpu->live_handles("library") == 0);
  CHECK(gpu->live_handles("buffer") == 0);
  CHECK(gpu->live_handles("stream") == 0);
  CHECK(gpu->primary_references(0) == 0);
}
