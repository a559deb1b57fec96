// Handles, places for results and options: what is null, dead, foreign or of another size is refused by name.
#include <doctest/doctest.h>

#include <array>
#include <filesystem>

#include "support/sentences.h"
#include "support/session.h"

using namespace msj;
using namespace msj::testing;

namespace {

constexpr auto kInvalid = MSJ_ERROR_INVALID_ARGUMENT;

const OpSpec &dense() { return *ops::find_op("dense_forward")->spec; }

}  // namespace

TEST_CASE("handles and places for results must be there") {
  FakeGpu gpu;
  const ScratchDirectory cache;
  Session session(cache.path(), "off");
  OpCall call(small_call(dense()));
  msj_call &given = call.call();
  std::size_t bytes = 0;
  char *json = nullptr;
  msj_counters counters{};
  counters.struct_size = sizeof counters;
  const std::vector<std::string> no_context = {"context is null", "msj_context_create"};
  check_sentence(msj_run(nullptr, &given), kInvalid, no_context);
  check_sentence(msj_prepare(nullptr, &given, nullptr, nullptr), kInvalid, no_context);
  check_sentence(msj_workspace_size(nullptr, &given, &bytes), kInvalid, no_context);
  check_sentence(msj_stats(nullptr, &counters), kInvalid, no_context);
  check_sentence(msj_freeze(nullptr, 1), kInvalid, no_context);
  check_sentence(msj_inspect(nullptr, nullptr, &json), kInvalid, no_context);
  check_sentence(msj_doctor(nullptr, &json), kInvalid, no_context);
  check_sentence(msj_cache(nullptr, MSJ_CACHE_PATH, &json), kInvalid, no_context);
  check_sentence(msj_cache_export(nullptr, nullptr, "a.tar", &json), kInvalid, no_context);
  check_sentence(msj_cache_import(nullptr, "a.tar", &json), kInvalid, no_context);
  void *memory = nullptr;
  check_sentence(msj_device_alloc(nullptr, 0, 1, &memory), kInvalid, no_context);
  check_sentence(msj_device_free(nullptr, 0, &memory), kInvalid, no_context);
  check_sentence(msj_device_copy(nullptr, 0, &memory, &memory, 1, MSJ_COPY_TO_HOST), kInvalid, no_context);

  check_sentence(msj_run(session.get(), nullptr), kInvalid, {"call is null"});
  check_sentence(msj_workspace_size(session.get(), &given, nullptr), kInvalid, {"bytes is null"});
  check_sentence(msj_stats(session.get(), nullptr), kInvalid, {"counters is null"});
  counters.struct_size = 4;
  check_sentence(msj_stats(session.get(), &counters), kInvalid, {"struct_size of counters is 4"});
  check_sentence(msj_inspect(session.get(), nullptr, nullptr), kInvalid, {"json is null"});
  check_sentence(msj_describe(nullptr), kInvalid, {"json is null"});
  check_sentence(msj_doctor(session.get(), nullptr), kInvalid, {"json is null"});
  check_sentence(msj_cache(session.get(), MSJ_CACHE_PATH, nullptr), kInvalid, {"json is null"});
  check_sentence(msj_cache_export(session.get(), nullptr, "a.tar", nullptr), kInvalid, {"json is null"});
  check_sentence(msj_cache_export(session.get(), nullptr, nullptr, &json), kInvalid, {"file is null"});
  check_sentence(msj_cache_import(session.get(), "a.tar", nullptr), kInvalid, {"json is null"});
  check_sentence(msj_cache_import(session.get(), nullptr, &json), kInvalid, {"file is null"});
  check_sentence(msj_cache_import(session.get(), "", &json), kInvalid, {"file is empty"});
  check_sentence(msj_prepare(session.get(), nullptr, nullptr, nullptr), kInvalid, {"call is null"});
  check_sentence(msj_workspace_size(session.get(), nullptr, &bytes), kInvalid, {"call is null"});
  check_sentence(msj_cache(session.get(), 9, &json), kInvalid, {"action is 9"});
  check_sentence(msj_context_create(nullptr, nullptr), kInvalid, {"context is null"});

  msj_context_options options{};
  msj_context *context = nullptr;
  check_sentence(msj_context_create(&options, &context), kInvalid, {"struct_size of options is 0"});
  options.struct_size = sizeof options;
  options.tune = "sometimes";
  check_sentence(msj_context_create(&options, &context), kInvalid, {"tune", "sometimes", "\"cached\""});
  CHECK(context == nullptr);

  alignas(8) std::array<std::byte, 4096> no_context_at_all{};
  check_sentence(msj_run(reinterpret_cast<msj_context *>(no_context_at_all.data()), &given), kInvalid,
                 {"context is no live msj_context"});
  check_sentence(msj_plan_destroy(reinterpret_cast<msj_plan *>(no_context_at_all.data())), kInvalid,
                 {"plan is no live msj_plan"});
  CHECK(msj_plan_destroy(nullptr) == MSJ_OK);
  CHECK(msj_context_destroy(nullptr) == MSJ_OK);
}

TEST_CASE("options of prepare") {
  FakeGpu gpu;
  const ScratchDirectory cache;
  Session session(cache.path(), "off");
  OpCall call(small_call(dense()));
  msj_plan *plan = nullptr;
  msj_prepare_options options{};
  const auto prepare = [&](msj_plan **out) { return msj_prepare(session.get(), &call.call(), &options, out); };
  check_sentence(prepare(nullptr), kInvalid, {"struct_size of options is 0"});
  options.struct_size = sizeof options;
  options.zero = 3;
  check_sentence(prepare(nullptr), kInvalid, {"options.zero is 3"});
  options.zero = 0;
  options.layout = 17;
  check_sentence(prepare(nullptr), kInvalid, {"options.layout is 17"});
  options.layout = MSJ_LAYOUT_BOTH;
  check_sentence(prepare(&plan), kInvalid, {"plan", "one layout class"});
  options.layout = 0;
  options.gpu = "NVIDIA H200";
  check_sentence(prepare(nullptr), kInvalid, {"options.gpu", "options.arch"});
  options.gpu = nullptr;
  options.arch = "sm_90a";
  check_sentence(prepare(&plan), kInvalid, {"plan", "options.arch"});
  options.arch = "sm_42x";
  check_sentence(prepare(nullptr), kInvalid, {"sm_42x", "sm_90a"});
  options.arch = "sm_70";
  check_sentence(prepare(nullptr), MSJ_ERROR_UNSUPPORTED, {"sm_70"});
  call.call().device = MSJ_DEVICE_CPU;
  options.arch = nullptr;
  check_sentence(prepare(&plan), kInvalid, {"plan", "CUDA device"});
  CHECK(plan == nullptr);
  CHECK(prepare(nullptr) == MSJ_OK);
  CHECK(session.stats().nvrtc_invocations == 0);
}

TEST_CASE("options of inspect") {
  FakeGpu gpu;
  const ScratchDirectory cache;
  Session session(cache.path(), "off");
  char *json = nullptr;
  msj_inspect_options options{};
  const auto inspect = [&] { return msj_inspect(session.get(), &options, &json); };
  check_sentence(inspect(), kInvalid, {"struct_size of options is 0", std::to_string(sizeof options)});
  options.struct_size = sizeof options;
  options.zero = 1;
  check_sentence(inspect(), kInvalid, {"options.zero is 1", "0 is accepted"});
  options.zero = 0;
  options.op = "sparse";
  check_sentence(inspect(), kInvalid, {"options.op is \"sparse\""});
  options.op = nullptr;
  options.arch = "volta";
  check_sentence(inspect(), kInvalid, {"volta", "sm_90a"});
  options.arch = "sm_70";
  check_sentence(inspect(), MSJ_ERROR_UNSUPPORTED, {"sm_70", "sm_80"});
  CHECK(json == nullptr);
}

TEST_CASE("options and counters of a later version are taken if their tails are zero") {
  FakeGpu gpu;
  const ScratchDirectory cache;
  Session session(cache.path(), "off");
  struct {
    msj_counters known;
    std::uint64_t tail;
  } counters{};
  counters.known.struct_size = sizeof counters;
  CHECK(msj_stats(session.get(), &counters.known) == MSJ_OK);
  CHECK(counters.known.struct_size == sizeof counters);
  counters.tail = 1;
  check_sentence(msj_stats(session.get(), &counters.known), kInvalid, {"counters has a nonzero byte"});

  struct {
    msj_context_options known;
    std::uint64_t tail;
  } options{};
  options.known.struct_size = sizeof options;
  options.tail = std::uint64_t{1} << 63;
  msj_context *context = nullptr;
  check_sentence(msj_context_create(&options.known, &context), kInvalid, {"options has a nonzero byte"});
  CHECK(context == nullptr);
  options.tail = 0;
  CHECK(msj_context_create(&options.known, &context) == MSJ_OK);
  CHECK(msj_context_destroy(context) == MSJ_OK);
}

TEST_CASE("a handle of another kind is refused as each kind") {
  FakeGpu gpu;
  const ScratchDirectory cache;
  Session session(cache.path(), "off");
  OpCall call(small_call(dense()));
  check_sentence(msj_plan_destroy(reinterpret_cast<msj_plan *>(session.get())), kInvalid, {"plan is no live msj_plan"});
  call.call().plan = reinterpret_cast<const msj_plan *>(session.get());
  check_sentence(session.run(call), kInvalid, {"plan is no live msj_plan"});
  CHECK(session.stats().launches == 0);
}

TEST_CASE("options of an export") {
  FakeGpu gpu;
  const ScratchDirectory cache;
  Session session(cache.path(), "off");
  char *json = nullptr;
  struct {
    msj_export_options known{};
    std::int64_t tail = 0;
  } options;
  const std::string file = cache / "a.tar";
  const auto exporting = [&] { return msj_cache_export(session.get(), &options.known, file.c_str(), &json); };
  check_sentence(exporting(), kInvalid, {"struct_size of options is 0", std::to_string(sizeof options.known)});
  options.known.struct_size = sizeof options;
  options.tail = 1;
  check_sentence(exporting(), kInvalid, {"options"});
  options.tail = 0;
  options.known.op = "sparse";
  check_sentence(exporting(), kInvalid, {"options.op is \"sparse\""});
  options.known.op = nullptr;
  options.known.arch = "volta";
  check_sentence(exporting(), kInvalid, {"volta", "sm_90a"});
  CHECK(json == nullptr);
  CHECK_FALSE(std::filesystem::exists(file));
  options.known.arch = nullptr;
  CHECK(exporting() == MSJ_OK);
  msj_string_free(json);
}
