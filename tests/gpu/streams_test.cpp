// Any stream, any context, any thread, under captures too: a ready specialization launches, a cold one says so and
// spoils nothing, and the caller's current context stays as it was.
#include "gpu/streams.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "gpu/instance.h"
#include "support/scratch.h"

using namespace msj;
using namespace msj::gpu;

namespace {

Problem small(FeatureSet features = kArgmax, std::uint64_t seed = 3) {
  Problem p;
  p.Nq = 3, p.Nd = 21, p.Lq = 37, p.Ld = 150, p.d = 128;
  p.features = features;
  p.seed = seed;
  return p;
}

struct Fixture {
  testing::ScratchDirectory cache;
  maxsim_jit::Context context{{.cache_dir = cache.path(), .tune = "off"}};
  msj_context *get() { return context.get(); }
};

bool equal(const Instance::Results &a, const Instance::Results &b) {
  return a.scores.size() == b.scores.size() && a.argmax == b.argmax &&
         std::memcmp(a.scores.data(), b.scores.data(), a.scores.size() * sizeof(float)) == 0;
}

// The results on the legacy default stream of the primary context, on fresh poison.
Instance::Results plain_results(Fixture &fixture, const Instance &instance) {
  instance.poison();
  run(fixture.get(), instance.call());
  auto results = instance.results();
  instance.poison();
  return results;
}

// The same inputs in another context.
void copy_inputs(const Instance &from, const Instance &to) {
  for (const std::size_t i : {MSJ_DENSE_FORWARD_Q, MSJ_DENSE_FORWARD_D}) {
    to.operand(i).memory().upload(from.operand(i).download().data());
  }
}

}  // namespace

TEST_CASE("a ready specialization is captured and replays") {
  Fixture fixture;
  const Instance instance(small());
  const auto expected = plain_results(fixture, instance);
  for (const auto mode :
       {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED}) {
    const TestStream stream;
    begin_capture(stream, mode);
    run(fixture.get(), instance.call(stream.get()));
    const Graph graph = end_capture(stream);
    for (int replay = 0; replay < 2; ++replay) {
      instance.poison();
      graph.launch(stream);
      CHECK(equal(instance.results(), expected));
    }
  }
}

TEST_CASE("a plan is captured, too") {
  Fixture fixture;
  const Instance instance(small());
  const auto expected = plain_results(fixture, instance);
  const TestStream stream;
  maxsim_jit::Launch launch;
  launch.stream = stream.get();
  const maxsim_jit::Plan plan = maxsim_jit::prepare_plan(fixture.context, instance.call(stream.get()));
  launch.plan = &plan;
  auto call = instance.call();
  call.launch(launch);
  begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  run(fixture.get(), call);
  const Graph graph = end_capture(stream);
  graph.launch(stream);
  CHECK(equal(instance.results(), expected));
}

TEST_CASE("a cold call under capture says so and the capture survives") {
  Fixture fixture;
  const Instance ready(small());
  const Instance cold(small(kAllFeatures));
  const auto expected = plain_results(fixture, ready);
  const TestStream stream;
  begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  const auto cold_call = cold.call(stream.get());
  CHECK(msj_run(fixture.get(), cold_call.get()) == MSJ_ERROR_COLD);
  CHECK(std::string(msj_last_error()).find("captur") != std::string::npos);
  run(fixture.get(), ready.call(stream.get()));
  CHECK(msj_prepare(fixture.get(), cold_call.get(), nullptr, nullptr) == MSJ_ERROR_COLD);
  const Graph graph = end_capture(stream);
  graph.launch(stream);
  CHECK(equal(ready.results(), expected));
}

TEST_CASE("a cold call on another thread does not break a capture, even where it sweeps") {
  Fixture fixture;
  const testing::ScratchDirectory tuned_cache;
  const maxsim_jit::Context tuned({.cache_dir = tuned_cache.path(), .tune = "on"});
  const Instance ready(small());
  const Instance cold(small(kArgmax, 5));
  const Instance swept(small(kArgmax, 6));
  const auto expected = plain_results(fixture, ready);
  const TestStream capturing;
  const TestStream other;
  begin_capture(capturing, CU_STREAM_CAPTURE_MODE_GLOBAL);
  std::string failure;
  std::thread([&] {
    try {
      Problem another = small(kAllFeatures);
      maxsim_jit::Launch launch;
      launch.stream = other.get();
      auto prepared = another.call_to_prepare();
      maxsim_jit::prepare(fixture.context, prepared.launch(launch));
      run(fixture.get(), cold.call(other.get()));
      run(tuned.get(), swept.call(other.get()));
    } catch (const std::exception &error) {
      failure = error.what();
    }
  }).join();
  CHECK(failure == "");
  run(fixture.get(), ready.call(capturing.get()));
  const Graph graph = end_capture(capturing);
  graph.launch(capturing);
  CHECK(equal(ready.results(), expected));
  other.synchronize();
  CHECK(tuned.stats().sweeps == 1);
  CHECK(complaint(cold.judge(false)) == "");
  CHECK(complaint(swept.judge(false)) == "");
}

TEST_CASE("streams and default streams of contexts that are not primary") {
  Fixture fixture;
  const Instance here(small());
  const auto expected = plain_results(fixture, here);
  const OwnContext own;
  const Instance there(small(), own.get());
  copy_inputs(here, there);
  {
    const TestStream stream(own.get());
    run(fixture.get(), there.call(stream.get()));
    stream.synchronize();
    CHECK(equal(there.results(), expected));
  }
  there.poison();
  {
    const Current current(own.get());
    Gpu::get().check(Gpu::get().driver().CtxSynchronize(), "cuCtxSynchronize");
    for (const std::uintptr_t stream : {0U, 1U, 2U}) {
      run(fixture.get(), there.call(reinterpret_cast<void *>(stream)));
      CHECK(current_context() == own.get());
      Gpu::get().check(Gpu::get().driver().CtxSynchronize(), "cuCtxSynchronize");
      CHECK(equal(there.results(), expected));
    }
  }
}

TEST_CASE("the caller's current context stays, whatever happens") {
  Fixture fixture;
  const Instance instance(small());
  const auto expected = plain_results(fixture, instance);
  const TestStream stream;  // of the primary context
  CHECK(current_context() == nullptr);
  run(fixture.get(), instance.call(stream.get()));
  CHECK(current_context() == nullptr);
  auto wrong = instance.call(stream.get());
  wrong.flag(std::uint64_t{1} << 60);
  CHECK(msj_run(fixture.get(), wrong.get()) == MSJ_ERROR_INVALID_ARGUMENT);
  CHECK(current_context() == nullptr);
  const OwnContext own;
  const Current current(own.get());
  run(fixture.get(), instance.call(stream.get()));
  CHECK(current_context() == own.get());
  const Instance cold(small(kQMask));
  run(fixture.get(), cold.call(stream.get()));
  CHECK(current_context() == own.get());
  stream.synchronize();
  CHECK(equal(instance.results(), expected));
}

TEST_CASE("a fresh thread, and its per-thread default stream") {
  Fixture fixture;
  const Instance instance(small());
  const auto expected = plain_results(fixture, instance);
  std::atomic<int> right{0};
  for (const std::uintptr_t stream : {0U, 1U, 2U}) {
    instance.poison();
    std::thread([&] {
      Fixture cold;  // first use of a context from a fresh thread
      run(cold.get(), instance.call(reinterpret_cast<void *>(stream)));
      if (current_context() == nullptr) ++right;
    }).join();
    Gpu::get().synchronize();
    CHECK(equal(instance.results(), expected));
  }
  CHECK(right == 3);
}

TEST_CASE("a CUDA context that dies while modules are loaded in it") {
  Fixture fixture;
  const Instance here(small());
  const auto expected = plain_results(fixture, here);
  for (int life = 0; life < 3; ++life) {
    const OwnContext own;
    const Instance there(small(), own.get());
    copy_inputs(here, there);
    const TestStream stream(own.get());
    run(fixture.get(), there.call(stream.get()));
    stream.synchronize();
    CHECK(equal(there.results(), expected));
  }
  here.poison();
  run(fixture.get(), here.call());
  CHECK(equal(here.results(), expected));
}

TEST_CASE("sixteen threads, each with its own feature set and stream") {
  Fixture fixture;
  std::vector<std::unique_ptr<Instance>> instances;
  std::vector<std::unique_ptr<TestStream>> streams;
  for (FeatureSet features = 0; features <= kAllFeatures; ++features) {
    instances.push_back(std::make_unique<Instance>(small(features, features + 1)));
    streams.push_back(std::make_unique<TestStream>());
  }
  std::vector<std::string> failures(instances.size());
  const int times = is_quick() ? 2 : 50;
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < instances.size(); ++i) {
      threads.emplace_back([&, i] {
        try {
          for (int again = 0; again < times; ++again) run(fixture.get(), instances[i]->call(streams[i]->get()));
          streams[i]->synchronize();
        } catch (const std::exception &error) {
          failures[i] = error.what();
        }
      });
    }
  }
  for (std::size_t i = 0; i < instances.size(); ++i) {
    CHECK(failures[i] == "");
    CHECK(complaint(instances[i]->judge(false)) == "");
  }
  CHECK(fixture.context.stats().nvrtc_invocations == 16);
  CHECK(fixture.context.stats().launches == 16 * times);
}

TEST_CASE("sixteen threads that ask for one cold key: one sweep") {
  const testing::ScratchDirectory cache;
  const maxsim_jit::Context context({.cache_dir = cache.path(), .tune = "on"});
  const Instance instance(small(0));
  std::atomic<int> failed{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 16; ++i) {
      threads.emplace_back([&] {
        const auto call = instance.call();
        if (msj_run(context.get(), call.get()) != MSJ_OK) ++failed;
      });
    }
  }
  CHECK(failed == 0);
  CHECK(context.stats().sweeps == 1);
  CHECK(context.stats().nvrtc_invocations == context.stats().candidates_timed);
  CHECK(complaint(instance.judge(false)) == "");
}

TEST_CASE("a frozen context launches what is ready and refuses what is cold") {
  Fixture fixture;
  const Instance ready(small());
  const Instance cold(small(kQMask));
  const auto expected = plain_results(fixture, ready);
  fixture.context.freeze();
  const auto cold_call = cold.call();
  CHECK(msj_run(fixture.get(), cold_call.get()) == MSJ_ERROR_COLD);
  run(fixture.get(), ready.call());
  CHECK(equal(ready.results(), expected));
  fixture.context.freeze(false);
  run(fixture.get(), cold.call());
  CHECK(complaint(cold.judge(false)) == "");
}

TEST_CASE("the hot path does not wait for the device") {
  Fixture fixture;
  const Instance instance(small());
  const auto expected = plain_results(fixture, instance);
  const long long cycles = 1'600'000'000;  // 0.8 s at 2 GHz
  Gpu::get().launch("spin", 1, 1, cycles);
  const auto start = std::chrono::steady_clock::now();
  run(fixture.get(), instance.call());
  const std::chrono::duration<double, std::milli> host = std::chrono::steady_clock::now() - start;
  CHECK(host.count() < 400);  // other tests may keep the host's cores busy
  CHECK(equal(instance.results(), expected));
  fmt::print("streams: msj_run behind 800 ms of device work returned in {:.3f} ms\n", host.count());
}
