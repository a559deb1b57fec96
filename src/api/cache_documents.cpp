#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "api/documents.h"
#include "ops/registry.h"
#include "store/cubin_store.h"
#include "tune/config_json.h"
#include "tune/entry.h"
#include "tune/entry_place.h"

namespace msj::api {

namespace {

using Json = nlohmann::ordered_json;

Json document(ops::Pipeline &pipeline) {
  Json json = {{"schema", "maxsim-jit/cache/1"}, {"layers", Json::array()}};
  bool writable = !pipeline.settings().cache_dir.empty();
  for (const std::string &path : pipeline.root().layers()) {
    json["layers"].push_back({{"path", path}, {"writable", writable}});
    writable = false;
  }
  return json;
}

// A config that a lookup would refuse; "" too for entries of another version, which no lookup takes.
std::string config_problem(ops::Pipeline &pipeline, const Json &entry) {
  const Json &key = entry.at("key");
  const ops::Op *op = ops::find_op(key.at("op").get<std::string>());
  if (op == nullptr || key.at("tuning_epoch") != op->spec->tuning_epoch ||
      key.at("bucket").at("version") != pipeline.tuner().buckets().version()) {
    return {};
  }
  const auto dtype = dtype_from(key.at("dtypes").front().get<std::string>());
  const tune::CandidateSpace &space = pipeline.tuner().space(*op->spec);
  for (const Layout layout : kLayouts) {
    const auto config = tune::config_from_json(entry.at(layout == Layout::any ? "config_any" : "config"));
    if (!config || !dtype || space.contains(*config, *dtype, layout)) continue;
    return fmt::format("its config for {} ({}) is no candidate any more", name(layout), to_string(*config));
  }
  return {};
}

std::string entry_file_problem(ops::Pipeline &pipeline, const std::string &relative, std::string_view bytes) {
  if (std::string problem = tune::entry_problem(bytes); !problem.empty()) return "is no autotune entry: " + problem;
  const std::string place = fmt::format("{}/{}", store::kFormat, tune::entry_place(bytes));
  if (relative != place) return fmt::format("is not where it belongs: at {}", place);
  return config_problem(pipeline, Json::parse(bytes));
}

// What is wrong with a file of the cache, by its place and content; "" if nothing.
std::string file_problem(ops::Pipeline &pipeline, const std::string &relative, std::string_view bytes) {
  if (relative.starts_with(fmt::format("{}/cubins/", store::kFormat))) return store::cubin_problem(relative, bytes);
  if (relative.starts_with(fmt::format("{}/locks/", store::kFormat))) return {};
  if (relative.ends_with(".json")) return entry_file_problem(pipeline, relative, bytes);
  return "no file of this cache has such a name";
}

std::vector<store::CacheRoot::Found> verified(ops::Pipeline &pipeline) {
  return pipeline.root().verify(
      [&](const std::string &relative, std::string_view bytes) { return file_problem(pipeline, relative, bytes); });
}

}  // namespace

std::string cache_path(ops::Pipeline &pipeline) {
  Json json = document(pipeline);
  const store::CacheRoot::Kept kept = pipeline.root().kept();
  json["kept"] = {{"files", kept.files}, {"failed", kept.failed}, {"problem", kept.problem}};
  return to_text(json);
}

nlohmann::ordered_json verified_files(ops::Pipeline &pipeline) {
  Json json = {{"problems", Json::array()}, {"unusable", Json::array()}};
  std::int64_t files = 0;
  for (const auto &found : verified(pipeline)) {
    files += found.is_root ? 0 : 1;
    if (found.problem.empty()) continue;
    const std::string problem =
        found.is_root ? "this cache directory can't be used: it " + found.problem : found.problem;
    json["problems"].push_back({{"path", found.path}, {"problem", problem}});
    if (found.is_root) json["unusable"].push_back(found.path);
  }
  json["files"] = files;
  return json;
}

std::string cache_verify(ops::Pipeline &pipeline) {
  Json json = document(pipeline);
  json.update(verified_files(pipeline));
  return to_text(json);
}

std::string cache_clear(ops::Pipeline &pipeline) {
  Json json = document(pipeline);
  json["removed"] = pipeline.root().clear();
  json["problems"] = Json::array();
  const std::string writable = pipeline.settings().cache_dir;
  const std::string locks = fmt::format("{}/{}/locks", writable, store::kFormat);
  for (const auto &left : verified(pipeline)) {
    if (writable.empty() || !left.path.starts_with(writable) || left.path.starts_with(locks)) continue;
    json["problems"].push_back(
        {{"path", left.path}, {"problem", left.problem.empty() ? "is still there" : left.problem}});
  }
  return to_text(json);
}

}  // namespace msj::api
