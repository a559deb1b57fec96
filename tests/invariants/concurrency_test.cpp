// One compile per key and one sweep per GPU, however many threads, contexts and processes ask at once.
#include <doctest/doctest.h>

#include <atomic>
#include <barrier>
#include <thread>

#include "support/child_task.h"
#include "support/session.h"
#include "support/tiny_kernels.h"

using namespace msj;
using namespace msj::testing;

namespace {

constexpr int kThreads = 16;

// Runs calls[i] of the session sessions[i % count] on threads that start together; how many succeeded.
int run_at_once(const std::vector<Session *> &sessions, const std::vector<CallShape> &calls) {
  std::barrier start(static_cast<std::ptrdiff_t>(calls.size()));
  std::atomic<int> succeeded{0};
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      threads.emplace_back([&, i] {
        OpCall call(calls[i]);
        start.arrive_and_wait();
        if (sessions[i % sessions.size()]->run(call) == MSJ_OK) ++succeeded;
      });
    }
  }
  return succeeded;
}

std::vector<CallShape> with_each(CallShape shape, const std::vector<FeatureSet> &sets, int count) {
  std::vector<CallShape> calls;
  for (int i = 0; i < count; ++i) {
    shape.features = sets[static_cast<std::size_t>(i) % sets.size()];
    calls.push_back(shape);
  }
  return calls;
}

}  // namespace

TEST_CASE("child of concurrency" * doctest::skip()) { run_child_task(); }

TEST_CASE("16 threads that want the same cold call: one compile, one sweep, one load") {
  const TinyKernels kernels;
  for (const ops::Op &op : ops::all_ops()) {
    CAPTURE(op.spec->name);
    FakeGpu gpu;
    const ScratchDirectory cache;
    Session session(cache.path());
    const CallShape shape = small_call(*op.spec, op.spec->all_features());
    CHECK(run_at_once({&session}, with_each(shape, {op.spec->all_features()}, kThreads)) == kThreads);
    const msj_counters stats = session.stats();
    const bool swept_with_it = op.spec->representative_features == op.spec->all_features();
    CHECK(stats.sweeps == 1);
    CHECK(stats.nvrtc_invocations == session.sweep_compiles(shape) + (swept_with_it ? 0 : 1));
    CHECK(stats.module_loads == 1);
    CHECK(stats.launches == kThreads);
    CHECK(gpu->launch_count() == kThreads * session.kernels_of(shape));
  }
}

TEST_CASE("16 threads with 16 feature sets: one sweep, one compile for each set") {
  const TinyKernels kernels;
  for (const ops::Op &op : ops::all_ops()) {
    CAPTURE(op.spec->name);
    FakeGpu gpu;
    const ScratchDirectory cache;
    Session session(cache.path());
    const auto sets = all_feature_sets(*op.spec);
    const CallShape shape = small_call(*op.spec);
    CHECK(run_at_once({&session}, with_each(shape, sets, static_cast<int>(sets.size()))) ==
          static_cast<int>(sets.size()));
    const msj_counters stats = session.stats();
    CHECK(stats.sweeps == 1);
    CHECK(stats.nvrtc_invocations == session.sweep_compiles(shape) + static_cast<std::int64_t>(sets.size()) - 1);
    CHECK(entry_files(cache.path()).size() == 1);
  }
}

TEST_CASE("different keys at once: a sweep for each, and no thread waits for ever") {
  const TinyKernels kernels;
  for (const ops::Op &op : ops::all_ops()) {
    FakeGpu gpu;
    const ScratchDirectory cache;
    Session session(cache.path());
    std::vector<CallShape> calls;
    for (const auto &own : own_dtypes(*op.spec)) {
      for (const Strides streamed : {Strides::contiguous, Strides::inner_two}) {
        calls.push_back(small_call(*op.spec, op.spec->all_features(), streamed));
        calls.back().own = own;
      }
    }
    CHECK(run_at_once({&session}, calls) == static_cast<int>(calls.size()));
    CHECK(session.stats().sweeps == static_cast<std::int64_t>(own_dtypes(*op.spec).size()));
  }
}

TEST_CASE("two contexts at once share the disk: each thing is done once") {
  const TinyKernels kernels;
  for (const ops::Op &op : ops::all_ops()) {
    CAPTURE(op.spec->name);
    FakeGpu gpu;
    const ScratchDirectory cache;
    Session one(cache.path());
    Session two(cache.path());
    const auto sets = all_feature_sets(*op.spec);
    const CallShape shape = small_call(*op.spec);
    const int calls = 2 * static_cast<int>(sets.size());
    std::vector<CallShape> both;
    for (const FeatureSet set : sets) {
      both.push_back(small_call(*op.spec, set));
      both.push_back(both.back());
    }
    CHECK(run_at_once({&one, &two}, both) == calls);
    const msj_counters a = one.stats();
    const msj_counters b = two.stats();
    CHECK(a.sweeps + b.sweeps == 1);
    CHECK(a.nvrtc_invocations + b.nvrtc_invocations ==
          one.sweep_compiles(shape) + static_cast<std::int64_t>(sets.size()) - 1);
    CHECK(one.complaints().empty());
    CHECK(two.complaints().empty());
  }
}

TEST_CASE("two processes at once share the disk: each thing is done once") {
  const TinyKernels kernels;
  for (const ops::Op &op : ops::all_ops()) {
    CAPTURE(op.spec->name);
    FakeGpu gpu;
    const ScratchDirectory cache;
    const ScratchDirectory scratch;
    const CallShape shape = small_call(*op.spec);
    const auto task = [&](const std::string &report) {
      return ChildTask{shape, all_feature_sets(*op.spec), cache.path(), scratch / report, scratch / "start"};
    };
    ChildRun one("child of concurrency", task("one"));
    ChildRun two("child of concurrency", task("two"));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    write_text(scratch / "start", "now");
    const ChildReport a = one.wait();
    const ChildReport b = two.wait();
    REQUIRE(a.status == 0);
    REQUIRE(b.status == 0);
    const ScratchDirectory nowhere;
    Session session(nowhere.path(), "off");
    CHECK(a.sweeps + b.sweeps == 1);
    CHECK(a.nvrtc_invocations + b.nvrtc_invocations ==
          session.sweep_compiles(shape) + (std::int64_t{1} << op.spec->features.size()) - 1);
  }
}
