// msj_measure: every candidate of the call's layout class, timed at the call's own sizes and features; no sweep, no
// entry.
#include <doctest/doctest.h>

#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "support/sentences.h"
#include "support/session.h"
#include "support/tiny_kernels.h"

using namespace msj;
using namespace msj::testing;

namespace {

struct Seen {
  Sizes sizes;
  FeatureSet features;
  Layout layout;
};

nlohmann::json measure(Session &session, const CallShape &shape, const msj_measure_options *options = nullptr) {
  OpCall call(shape);
  char *text = nullptr;
  const msj_status status = msj_measure(session.get(), &call.call(), options, &text);
  INFO(msj_last_error());
  REQUIRE(status == MSJ_OK);
  const auto json = nlohmann::json::parse(text);
  msj_string_free(text);
  return json;
}

}  // namespace

TEST_CASE("a call is measured as it is, and nothing is tuned by it") {
  const TinyKernels kernels;
  for (const ops::Op &op : ops::all_ops()) {
    CAPTURE(op.spec->name);
    FakeGpu gpu;
    const ScratchDirectory cache;
    std::mutex mutex;
    std::vector<Seen> seen;
    Session session(cache.path(), "on", [&](const tune::SweepProblem &problem, const tune::Trial &trial) {
      const std::scoped_lock lock(mutex);
      seen.push_back({problem.sizes, problem.features, trial.layout});
      return hashed_time(problem, trial);
    });
    const CallShape shape = small_call(*op.spec, op.spec->all_features());
    session.must_run(shape);
    const msj_counters before = session.stats();
    const auto entry = read_text(entry_files(cache.path()).front());
    seen.clear();

    const auto json = measure(session, shape);
    const OpCall call(shape);
    for (const Seen &trial : seen) {
      for (std::size_t i = 0; i < op.spec->sizes.size(); ++i)
        CHECK(trial.sizes[i] == (call.gives(static_cast<int>(i)) ? shape.sizes[i] : 0));
      CHECK(trial.features == op.spec->all_features());
      CHECK(trial.layout == Layout::aligned16);
    }
    std::size_t admitted = 0;
    for (const tune::Admitted &pair : session.admission(shape).admitted) {
      if (pair.layout == Layout::aligned16) ++admitted;
    }
    CHECK(seen.size() == admitted);
    std::size_t timed = 0;
    bool has_shared = false;
    for (const auto &candidate : json["candidates"]) {
      if (candidate.contains("rejected")) continue;
      ++timed;
      CHECK(candidate["milliseconds"].get<double>() > 0);
      has_shared |= candidate["config"] == json["config"];
    }
    CHECK(timed == admitted);
    CHECK(has_shared);
    CHECK(json["schema"] == "maxsim-jit/measure/1");
    CHECK(json["op"] == op.spec->name);
    CHECK(json["source"] == "tuned");
    CHECK(json["ceilings"].is_null());
    CHECK(json["features"].size() == op.spec->features.size());
    CHECK(session.stats().sweeps == before.sweeps);
    CHECK(session.stats().candidates_timed == before.candidates_timed);
    CHECK(entry_files(cache.path()).size() == 1);
    CHECK(read_text(entry_files(cache.path()).front()) == entry);
  }
}

TEST_CASE("ceilings are measured where the options ask for them, and their cubin is a good file of the cache") {
  const TinyKernels kernels;
  FakeGpu gpu;
  const ScratchDirectory cache;
  std::mutex mutex;
  std::optional<tune::Measuring> measuring;
  Session session(cache.path(), "off", [&](const tune::SweepProblem &problem, const tune::Trial &trial) {
    const std::scoped_lock lock(mutex);
    measuring = problem.measuring;
    return hashed_time(problem, trial);
  });
  msj_measure_options options{};
  options.struct_size = sizeof options;
  options.ceilings = 1;
  options.rounds = 40;
  const OpSpec &op = *ops::find_op(MSJ_RESIDUAL_FORWARD)->spec;
  CallShape shape = small_call(op);
  const auto json = measure(session, shape, &options);
  Sizes sizes = shape.sizes;
  CHECK(json["ceilings"]["multiply_adds"].get<double>() <= op.multiply_adds(sizes));
  for (const char *timed_too : {"empty_ms", "read_ms", "loads_ms", "bulk_ms", "read_bytes"})
    CHECK(json["ceilings"].contains(timed_too));
  REQUIRE(measuring);
  CHECK(measuring->least_rounds == 40);
  CHECK(json["config"]["path"] == measuring->launched.path);

  char *text = nullptr;
  REQUIRE(msj_cache(session.get(), MSJ_CACHE_VERIFY, &text) == MSJ_OK);
  CHECK(nlohmann::json::parse(text)["problems"].empty());
  msj_string_free(text);
  msj_inspect_options of_cubins{};
  of_cubins.struct_size = sizeof of_cubins;
  of_cubins.cubins = 1;
  REQUIRE(msj_inspect(session.get(), &of_cubins, &text) == MSJ_OK);
  const auto cubins = nlohmann::json::parse(text)["cubins"];
  msj_string_free(text);
  CHECK_FALSE(cubins.empty());
  for (const auto &cubin : cubins) CHECK(cubin["op"] == "residual_forward");

  // An index of no token: every document is empty, and nothing is multiplied.
  shape.sizes[static_cast<std::size_t>(find_named(op.sizes, "N"))] = 0;
  CHECK(measure(session, shape, &options)["ceilings"]["multiply_adds"] == 0);

  OpCall call(shape);
  options.rounds = -1;
  check_sentence(msj_measure(session.get(), &call.call(), &options, &text), MSJ_ERROR_INVALID_ARGUMENT,
                 {"options.rounds is -1", "0 to 10000"});
  options.struct_size = 4;
  check_sentence(msj_measure(session.get(), &call.call(), &options, &text), MSJ_ERROR_INVALID_ARGUMENT,
                 {"options", "struct_size"});
}

TEST_CASE("what can't be measured is said") {
  FakeGpu gpu;
  const ScratchDirectory cache;
  Session session(cache.path(), "off");
  CallShape shape = small_call(*ops::find_op(MSJ_DENSE_FORWARD)->spec);
  char *text = nullptr;
  OpCall call(shape);
  CHECK(msj_measure(session.get(), &call.call(), nullptr, nullptr) == MSJ_ERROR_INVALID_ARGUMENT);
  CHECK(msj_measure(nullptr, &call.call(), nullptr, &text) == MSJ_ERROR_INVALID_ARGUMENT);
  call.call().device = MSJ_DEVICE_CPU;
  CHECK(msj_measure(session.get(), &call.call(), nullptr, &text) == MSJ_ERROR_INVALID_ARGUMENT);
  call.call().device = 7;
  CHECK(msj_measure(session.get(), &call.call(), nullptr, &text) == MSJ_ERROR_INVALID_ARGUMENT);
  const CUstream stream = gpu->create_stream(gpu->create_context(0), CU_STREAM_NON_BLOCKING);
  OpCall captured(shape);
  captured.call().stream = stream;
  gpu->set_capture(stream, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CHECK(msj_measure(session.get(), &captured.call(), nullptr, &text) == MSJ_ERROR_COLD);
  CHECK(std::string(msj_last_error()).find("capturing") != std::string::npos);
  gpu->set_capture(stream, CU_STREAM_CAPTURE_STATUS_NONE);
  CHECK(session.stats().nvrtc_invocations == 0);
  shape.sizes[0] = 0;
  OpCall empty(shape);
  CHECK(msj_measure(session.get(), &empty.call(), nullptr, &text) == MSJ_ERROR_INVALID_ARGUMENT);
  REQUIRE(msj_freeze(session.get(), 1) == MSJ_OK);
  OpCall frozen(small_call(*ops::find_op(MSJ_DENSE_FORWARD)->spec));
  CHECK(msj_measure(session.get(), &frozen.call(), nullptr, &text) == MSJ_ERROR_COLD);
  CHECK(text == nullptr);
}
