#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/documents.h"
#include "api/file_checks.h"
#include "base/hash.h"

namespace msj::api {

namespace {

using Json = nlohmann::ordered_json;

bool is_utf8(const std::string &text) {
  try {
    (void)Json(text).dump();
    return true;
  } catch (const Json::exception &) {
    return false;
  }
}

Json layer_json(const std::string &path, bool writable) {
  Json layer = {{"path", path}, {"writable", writable}};
  if (is_utf8(path)) return layer;
  layer["path_hex"] = to_hex(path);
  return layer;
}

std::vector<store::CacheRoot::Found> verified(ops::Pipeline &pipeline) {
  return pipeline.root().verify(
      [&](const std::string &relative, std::string_view bytes) { return file_problem(pipeline, relative, bytes); });
}

}  // namespace

Json cache_layers(ops::Pipeline &pipeline) {
  Json json = {{"schema", "maxsim-jit/cache/1"}, {"layers", Json::array()}};
  bool writable = !pipeline.settings().cache_dir.empty();
  for (const std::string &path : pipeline.root().layers()) {
    json["layers"].push_back(layer_json(path, writable));
    writable = false;
  }
  return json;
}

std::string cache_path(ops::Pipeline &pipeline) {
  Json json = cache_layers(pipeline);
  const auto examined = pipeline.root().examine_layers(store::Missing::ask);
  for (Json &layer : json["layers"]) {
    const auto same = std::ranges::find(examined, layer.at("path").get_ref<const std::string &>(),
                                        &store::CacheRoot::ExaminedLayer::path);
    if (same != examined.end() && !same->problem.empty()) layer["problem"] = same->problem;
  }
  const store::CacheRoot::Kept kept = pipeline.root().kept();
  json["kept"] = {{"files", kept.files}, {"failed", kept.failed}, {"problem", kept.problem}, {"logged", kept.logged}};
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
  Json json = cache_layers(pipeline);
  json.update(verified_files(pipeline));
  return to_text(json);
}

std::string cache_clear(ops::Pipeline &pipeline) {
  Json json = cache_layers(pipeline);
  const store::CacheRoot::Cleared cleared = pipeline.root().clear();
  json["removed"] = cleared.removed;
  json["problems"] = Json::array();
  for (const auto &file : cleared.left) json["problems"].push_back({{"path", file.path}, {"problem", file.problem}});
  return to_text(json);
}

std::string cache_prune(ops::Pipeline &pipeline) {
  Json json = cache_layers(pipeline);
  const store::Pruned pruned = pipeline.root().prune([&](const std::string &relative, std::string_view bytes) {
    std::string problem = file_problem(pipeline, relative, bytes);
    return problem.empty() ? obsolete_reason(pipeline, relative, bytes) : problem;
  });
  json["removed"] = Json::array();
  for (const auto &file : pruned.removed) json["removed"].push_back({{"path", file.path}, {"reason", file.reason}});
  json["bytes"] = {{"before", pruned.bytes_before}, {"after", pruned.bytes_after}};
  json["problems"] = Json::array();
  for (const auto &file : pruned.left) json["problems"].push_back({{"path", file.path}, {"problem", file.reason}});
  return to_text(json);
}

}  // namespace msj::api
