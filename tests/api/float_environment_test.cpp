// No entry point follows the caller's floating-point environment (rounding, flushed subnormals, traps) or changes it.
#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <random>
#include <regex>
#include <set>

#include "support/float_environments.h"
#include "support/session.h"
#include "support/tiny_kernels.h"

using namespace msj;
using namespace msj::testing;

namespace {

// A call of any op on host tensors: small integers, and floats below 2 in magnitude, those of every other operand
// subnormal where the dtype's exponents are float's.
class HostCall {
 public:
  HostCall(const CallShape &shape, std::size_t subnormal) : call_(shape), op_(*shape.op) {
    call_.call().device = MSJ_DEVICE_CPU;
    for (std::size_t i = 0; i < op_.operands.size(); ++i) {
      msj_tensor &tensor = call_.tensor(i);
      auto &bytes_of = data_.emplace_back();
      if (tensor.struct_size == 0) continue;
      std::size_t elements = 1;
      for (int r = 0; r < tensor.rank; ++r) elements *= static_cast<std::size_t>(tensor.shape[r]);
      bytes_of.resize(elements * static_cast<std::size_t>(bytes(static_cast<DType>(tensor.dtype))));
      for (std::size_t e = 0; e < elements; ++e) put(static_cast<DType>(tensor.dtype), bytes_of, e, i % 2 == subnormal);
      tensor.data = bytes_of.data();
    }
  }

  // The bytes of all results.
  [[nodiscard]] std::vector<std::byte> results() const {
    std::vector<std::byte> all;
    for (std::size_t i = 0; i < op_.operands.size(); ++i) {
      if (op_.operands[i].is_result) all.insert(all.end(), data_[i].begin(), data_[i].end());
    }
    return all;
  }
  [[nodiscard]] const msj_call *get() { return &call_.call(); }

 private:
  void put(DType dtype, std::vector<std::byte> &to, std::size_t element, bool is_subnormal) {
    constexpr std::uint32_t kHalfToOne = 126;  // float's exponent of it
    const std::uint32_t random = random_();
    const std::uint32_t f32 = (random & 0x807f'ffffU) | (is_subnormal ? 0 : (kHalfToOne + (random >> 30)) << 23);
    const auto write = [&](auto value) { std::memcpy(&to[element * sizeof value], &value, sizeof value); };
    switch (dtype) {
      case DType::f32:
        return write(f32);
      case DType::bf16:
        return write(static_cast<std::uint16_t>(f32 >> 16));
      case DType::f16:
        return write(static_cast<std::uint16_t>(random & 0xbfffU));
      case DType::fp8_e4m3:
      case DType::fp8_e5m2:
        return write(static_cast<std::uint8_t>(random & 0xbfU));
      case DType::i32:
        return write(static_cast<std::int32_t>(random % 3));
      case DType::i64:
        return write(static_cast<std::int64_t>(random % 3));
      default:
        return write(static_cast<std::uint8_t>(random % 2));
    }
  }

  OpCall call_;
  const OpSpec &op_;
  std::vector<std::vector<std::byte>> data_;
  std::mt19937 random_{1};
};

const FloatEnvironment kDefault = {"default", [] {}};

std::vector<std::byte> results_in(const FloatEnvironment &environment, msj_context *context, const CallShape &shape,
                                  std::size_t subnormal) {
  HostCall call(shape, subnormal);
  msj_status status = MSJ_ERROR_INTERNAL;
  CHECK(keeps_environment(environment, [&] { status = msj_run(context, call.get()); }));
  INFO(msj_last_error());
  CHECK(status == MSJ_OK);
  return call.results();
}

const FloatEnvironment kHostile = {"upward, without subnormals, trapping", [] {
                                     std::fesetround(FE_UPWARD);
                                     flush_subnormals();
                                     feenableexcept(FE_ALL_EXCEPT);
                                   }};

// The text of the one entry that a cold call's sweep in this environment writes, while each callback does that.
std::string entry_in(const FloatEnvironment &environment, const FloatEnvironment &in_callbacks = kDefault) {
  const ScratchDirectory cache;
  Session session(cache.path(), "on", hashed_time, in_callbacks.set);
  OpCall call(small_call(*ops::all_ops().front().spec));
  msj_status status = MSJ_ERROR_INTERNAL;
  CHECK(keeps_environment(environment, [&] { status = msj_run(session.get(), &call.call()); }));
  CHECK(session.callbacks() > 0);
  INFO(msj_last_error());
  REQUIRE(status == MSJ_OK);
  const auto entries = entry_files(cache.path());
  REQUIRE(entries.size() == 1);
  return read_text(entries.front());
}

}  // namespace

TEST_CASE("the CPU's results are the same bits") {
  const ScratchDirectory cache;
  const ScopedEnvironment no_driver("MAXSIM_JIT_LIBCUDA", "/nowhere/libcuda.so");
  Session session(cache.path());
  for (const ops::Op &op : ops::all_ops()) {
    for (const auto &own : own_dtypes(*op.spec)) {
      for (const FeatureSet features : {FeatureSet{0}, op.spec->all_features()}) {
        for (const std::size_t subnormal : {0, 1}) {
          CallShape shape = small_call(*op.spec, features);
          shape.sizes = small_sizes(*op.spec, 24);
          shape.own = own;
          const auto expected = results_in(kDefault, session.get(), shape, subnormal);
          for (const FloatEnvironment &environment : kFloatEnvironments) {
            const bool is_same = results_in(environment, session.get(), shape, subnormal) == expected;
            INFO(op.spec->name, " of ", name(own.front()), ", features ", features, ": ",
                 std::string(environment.name));
            CHECK(is_same);
          }
        }
      }
    }
  }
}

TEST_CASE("a sweep's entry is the same bytes") {
  const TinyKernels kernels;
  FakeGpu gpu;
  const std::string expected = entry_in(kDefault);
  for (const FloatEnvironment &environment : kFloatEnvironments) {
    const bool is_same = entry_in(environment) == expected;
    CAPTURE(std::string(environment.name));
    CHECK(is_same);
  }
}

TEST_CASE("a callback that leaves another environment changes neither a sweep's entry nor the caller's") {
  const TinyKernels kernels;
  FakeGpu gpu;
  const std::string expected = entry_in(kDefault);
  const bool is_same = entry_in(kDefault, kHostile) == expected;
  CHECK(is_same);
}

TEST_CASE("documents and numbers neither trap nor raise a flag") {
  const TinyKernels kernels;
  const ScratchDirectory cache;
  FakeGpu gpu;
  for (const FloatEnvironment &environment : kFloatEnvironments) {
    CAPTURE(std::string(environment.name));
    Session session(cache.path());
    OpCall call(small_call(*ops::all_ops().front().spec));
    std::vector<msj_status> statuses;
    const auto document = [&](auto entry, auto... arguments) {
      char *json = nullptr;
      statuses.push_back(entry(arguments..., &json));
      msj_string_free(json);
    };
    msj_counters counters{};
    counters.struct_size = sizeof counters;
    const ScratchDirectory ahead;
    Session preparing(ahead.path(), "off");
    CHECK(keeps_environment(environment, [&] {
      statuses.push_back(msj_prepare(preparing.get(), &call.call(), nullptr, nullptr));
      msj_context *context = nullptr;
      statuses.push_back(msj_context_create(nullptr, &context));
      statuses.push_back(msj_context_destroy(context));
      document(msj_measure, session.get(), &call.call(), static_cast<const msj_measure_options *>(nullptr));
      statuses.push_back(msj_stats(session.get(), &counters));
      document(msj_inspect, session.get(), static_cast<const msj_inspect_options *>(nullptr));
      document(msj_describe);
      document(msj_doctor, session.get());
      document(msj_cache, session.get(), MSJ_CACHE_VERIFY);
    }));
    CHECK(statuses == std::vector<msj_status>(statuses.size(), MSJ_OK));
    CHECK(counters.nvrtc_seconds >= 0);
  }
}

TEST_CASE("every call of the ABI, refused or ready, under traps, upward rounding and flushed subnormals") {
  const TinyKernels kernels;
  const ScratchDirectory cache;
  const ScratchDirectory out;
  FakeGpu gpu;
  Session session(cache.path());
  const CallShape shape = small_call(*ops::all_ops().front().spec);
  session.must_run(shape);
  OpCall ready(shape);
  OpCall refused(shape);
  refused.call().op = -1;
  const std::string tar = out / "a.tar";
  msj_counters counters{};
  counters.struct_size = sizeof counters;
  msj_context *context = nullptr;
  msj_plan *plan = nullptr;
  char *json = nullptr;
  void *memory = nullptr;
  std::size_t bytes = 0;
  std::array<char, 64> host{};

  struct Row {
    const char *name;
    std::function<msj_status()> call;
    msj_status expected = MSJ_OK;
  };
  const auto given = [&](const char *name, auto entry, auto... arguments) {
    return Row{name, [=, &json] {
                 const msj_status status = entry(arguments..., &json);
                 msj_string_free(json);
                 json = nullptr;
                 return status;
               }};
  };
  msj_context *const live = session.get();
  const std::vector<Row> rows = {
      {"msj_run", [&] { return msj_run(live, &ready.call()); }},
      {"msj_run", [&] { return msj_run(live, &refused.call()); }, MSJ_ERROR_INVALID_ARGUMENT},
      {"msj_last_error", [&] { return *msj_last_error() == '\0' ? MSJ_ERROR_INTERNAL : MSJ_OK; }},
      {"msj_version", [&] { return *msj_version() == '\0' ? MSJ_ERROR_INTERNAL : MSJ_OK; }},
      {"msj_workspace_size", [&] { return msj_workspace_size(live, &ready.call(), &bytes); }},
      {"msj_prepare", [&] { return msj_prepare(live, &ready.call(), nullptr, &plan); }},
      {"msj_plan_destroy", [&] { return msj_plan_destroy(plan); }},
      {"msj_context_create", [&] { return msj_context_create(nullptr, &context); }},
      {"msj_context_destroy", [&] { return msj_context_destroy(context); }},
      {"msj_freeze", [&] { return msj_freeze(live, 1); }},
      {"msj_freeze", [&] { return msj_freeze(live, 0); }},
      {"msj_stats", [&] { return msj_stats(live, &counters); }},
      given("msj_inspect", msj_inspect, live, static_cast<const msj_inspect_options *>(nullptr)),
      given("msj_measure", msj_measure, live, &ready.call(), static_cast<const msj_measure_options *>(nullptr)),
      given("msj_describe", msj_describe),
      given("msj_doctor", msj_doctor, live),
      given("msj_cache_export", msj_cache_export, live, static_cast<const msj_export_options *>(nullptr), tar.c_str()),
      given("msj_cache_import", msj_cache_import, live, tar.c_str()),
      given("msj_cache", msj_cache, live, MSJ_CACHE_PATH),
      given("msj_cache", msj_cache, live, MSJ_CACHE_VERIFY),
      given("msj_cache", msj_cache, live, MSJ_CACHE_PRUNE),
      given("msj_cache", msj_cache, live, MSJ_CACHE_CLEAR),
      {"msj_string_free", [&] { return msj_string_free(nullptr), MSJ_OK; }},
      {"msj_device_alloc", [&] { return msj_device_alloc(live, 0, host.size(), &memory); }},
      {"msj_device_copy",
       [&] { return msj_device_copy(live, 0, memory, host.data(), host.size(), MSJ_COPY_TO_DEVICE); }},
      {"msj_device_free", [&] { return msj_device_free(live, 0, memory); }},
  };
  std::set<std::string> named;
  for (const Row &row : rows) {
    msj_status status = MSJ_ERROR_INTERNAL;
    const bool is_kept = keeps_environment(kHostile, [&] { status = row.call(); });
    INFO(row.name, ": ", msj_last_error());
    CHECK(is_kept);
    CHECK(status == row.expected);
    named.insert(row.name);
  }
  const std::string header = read_text(MSJ_SOURCE_DIR "/include/maxsim_jit/maxsim_jit.h");
  const std::regex declaration("MSJ_API [^(;]*[ *](msj_[a-z_]+)\\(");
  std::set<std::string> declared;
  for (std::sregex_iterator at(header.begin(), header.end(), declaration), end; at != end; ++at)
    declared.insert((*at)[1]);
  CHECK(declared.size() > 15);
  CHECK(named == declared);
}
