// The JSON documents of the ABI: each parses, has its schema, and says what is there.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "support/session.h"
#include "support/tiny_kernels.h"

using namespace msj;
using namespace msj::testing;
using Json = nlohmann::json;

namespace {

Json taken(msj_status status, char *text) {
  INFO(msj_last_error());
  REQUIRE(status == MSJ_OK);
  REQUIRE(text != nullptr);
  Json json = Json::parse(text);
  msj_string_free(text);
  return json;
}

Json inspect(Session &session, const char *op = nullptr, const char *arch = nullptr, bool cubins = false) {
  msj_inspect_options options{};
  options.struct_size = sizeof options;
  options.op = op;
  options.arch = arch;
  options.cubins = cubins ? 1 : 0;
  char *text = nullptr;
  const msj_status status = msj_inspect(session.get(), &options, &text);
  return taken(status, text);
}

Json cache_document(Session &session, std::int32_t action) {
  char *text = nullptr;
  const msj_status status = msj_cache(session.get(), action, &text);
  return taken(status, text);
}

std::size_t tuned_entries(const Json &document) {
  std::size_t count = 0;
  for (const Json &entry : document["entries"]) count += entry["source"] == "tuned" ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("describe: every op as its table declares it") {
  char *text = nullptr;
  const msj_status status = msj_describe(&text);
  const Json json = taken(status, text);
  CHECK(json["schema"] == "maxsim-jit/ops/1");
  CHECK(json["version"] == msj_version());
  REQUIRE(json["ops"].size() == ops::all_ops().size());
  for (std::size_t i = 0; i < ops::all_ops().size(); ++i) {
    const OpSpec &op = *ops::all_ops()[i].spec;
    const Json &described = json["ops"][i];
    CHECK(described["name"] == std::string(op.name));
    CHECK(described["id"] == op.id);
    REQUIRE(described["operands"].size() == op.operands.size());
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
      CHECK(described["operands"][k]["name"] == std::string(op.operands[k].name));
      CHECK(described["operands"][k]["index"] == k);
      CHECK(described["operands"][k]["optional"] == op.operands[k].optional);
    }
    CHECK(described["features"].size() == op.features.size());
    CHECK(described["representative_features"] == Json(feature_names(op, op.representative_features)));
    CHECK(described["sizes"].size() == op.sizes.size());
    CHECK(described["params"].size() == op.params.size());
  }
}

TEST_CASE("inspect: entries and cubins, in a stable order, filtered") {
  const TinyKernels kernels;
  const OpSpec &op = *ops::find_op("dense_forward")->spec;
  FakeGpu gpu;
  const ScratchDirectory cache;
  Session session(cache.path());
  CHECK(tuned_entries(inspect(session)) == 0);
  for (const auto &own : own_dtypes(op)) {
    CallShape shape = small_call(op, 1);
    shape.own = own;
    session.must_run(shape);
  }
  const Json json = inspect(session);
  CHECK(json["schema"] == "maxsim-jit/inspect/1");
  CHECK(tuned_entries(json) == own_dtypes(op).size());
  for (const Json &entry : json["entries"]) {
    for (const char *field :
         {"op", "bucket", "dtypes", "config", "config_any", "source", "environment", "provenance"}) {
      CHECK(entry.contains(field));
    }
    if (entry["source"] != "tuned") continue;
    CHECK(entry["provenance"]["date"] == "2026-01-02T03:04:05Z");
    CHECK(entry["timings"].size() >= 12);
  }
  CHECK(inspect(session) == json);
  std::vector<Json> counts;  // of queries, of the entries of one op and GPU: 1, 8, 64, "more"
  for (const Json &entry : json["entries"]) {
    if (entry["op"] == "dense_forward" && entry["source"] == "shipped") counts.push_back(entry["bucket"]["Nq"]);
  }
  REQUIRE(counts.size() > 2);
  CHECK(std::is_sorted(counts.begin(), counts.end()));
  CHECK(counts.front() == 1);
  CHECK(counts.back() == "more");
  CHECK(tuned_entries(inspect(session, "dense_forward", "sm_90a")) == own_dtypes(op).size());
  CHECK(tuned_entries(inspect(session, nullptr, "sm_90")) == own_dtypes(op).size());  // the same target
  CHECK(tuned_entries(inspect(session, nullptr, "sm_80")) == 0);

  const Json cubins = inspect(session, nullptr, nullptr, true);
  CHECK(cubins["schema"] == "maxsim-jit/inspect/1");
  CHECK(cubins["cubins"].size() == cubin_files(cache.path()).size());
  std::size_t with_mask = 0;
  for (const Json &cubin : cubins["cubins"]) with_mask += cubin["features"] == Json({"q_mask"}) ? 1 : 0;
  CHECK(with_mask == own_dtypes(op).size());
  CHECK(inspect(session, nullptr, "sm_80", true)["cubins"].empty());

  msj_inspect_options unknown{};
  unknown.struct_size = sizeof unknown;
  unknown.op = "sparse_sideways";
  char *text = nullptr;
  CHECK(msj_inspect(session.get(), &unknown, &text) == MSJ_ERROR_INVALID_ARGUMENT);
  CHECK(std::string(msj_last_error()).find("sparse_sideways") != std::string::npos);
  CHECK(text == nullptr);
}

TEST_CASE("cache: path, verify, clear") {
  const TinyKernels kernels;
  const OpSpec &op = *ops::all_ops().front().spec;
  FakeGpu gpu;
  const ScratchDirectory cache;
  Session session(cache.path());
  session.must_run(small_call(op));
  const Json path = cache_document(session, MSJ_CACHE_PATH);
  CHECK(path["schema"] == "maxsim-jit/cache/1");
  CHECK(path["layers"][0]["path"] == cache.path());
  CHECK(path["layers"][0]["writable"] == true);

  CHECK(cache_document(session, MSJ_CACHE_VERIFY)["problems"].empty());
  const auto damaged = cubin_files(cache.path()).front();
  write_text(damaged, "not a cubin");
  const auto entry = entry_files(cache.path()).front();
  write_text(entry, "{}");
  const Json verified = cache_document(session, MSJ_CACHE_VERIFY);
  REQUIRE(verified["problems"].size() == 2);
  std::set<std::string> named;
  for (const Json &problem : verified["problems"]) {
    named.insert(problem["path"].get<std::string>());
    CHECK_FALSE(problem["problem"].get<std::string>().empty());
  }
  CHECK(named == std::set<std::string>{damaged.string(), entry.string()});

  const std::size_t files = entry_files(cache.path()).size() + cubin_files(cache.path()).size();
  const Json cleared = cache_document(session, MSJ_CACHE_CLEAR);
  CHECK(cleared["removed"].size() >= files);
  CHECK(entry_files(cache.path()).empty());
  CHECK(cubin_files(cache.path()).empty());
}

TEST_CASE("doctor: what was found, and what to fix") {
  FakeGpu gpu;
  const ScratchDirectory cache;
  const auto find = [](const Json &document, const std::string &name) {
    for (const Json &check : document["checks"]) {
      if (check["name"] == name) return check;
    }
    return Json();
  };
  const auto doctor = [](Session &session) {
    char *text = nullptr;
    const msj_status status = msj_doctor(session.get(), &text);
    return taken(status, text);
  };
  {
    Session session(cache.path());
    const Json json = doctor(session);
    CHECK(json["schema"] == "maxsim-jit/doctor/1");
    for (const char *name : {"driver", "gpu 0", "nvrtc", "cache", "cache files"}) {
      CAPTURE(name);
      REQUIRE(find(json, name).is_object());
      CHECK(find(json, name)["status"] == "ok");
    }
    CHECK(find(json, "gpu 0")["found"].get<std::string>().find("NVIDIA H200") != std::string::npos);
  }
  const ScopedEnvironment no_driver("MAXSIM_JIT_LIBCUDA", "/nowhere/libcuda.so");
  const ScopedEnvironment no_nvrtc("MAXSIM_JIT_LIBNVRTC", "/nowhere/libnvrtc.so");
  Session session(cache.path());
  const Json json = doctor(session);
  for (const char *name : {"driver", "nvrtc"}) {
    CAPTURE(name);
    REQUIRE(find(json, name).is_object());
    CHECK(find(json, name)["status"] != "ok");
    CHECK_FALSE(find(json, name)["fix"].get<std::string>().empty());
    CHECK(find(json, name)["found"].get<std::string>().find("/nowhere/") != std::string::npos);
  }
}
