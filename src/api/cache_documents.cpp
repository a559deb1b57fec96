#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "api/documents.h"
#include "store/cubin_store.h"
#include "tune/entry.h"

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

// An entry lies at v1/<environment>/autotune/<op>/<key>.json: its place must say what it says.
std::string entry_file_problem(const std::string &relative, std::string_view bytes) {
  const std::string problem = tune::entry_problem(bytes);
  if (!problem.empty()) return problem;
  const Json entry = Json::parse(bytes, nullptr, false);
  const std::string folder =
      fmt::format("{}/{}/autotune/{}/", store::kFormat, entry.at("environment").get<std::string>(),
                  entry.at("key").at("op").get<std::string>());
  return relative.starts_with(folder) ? "" : fmt::format("it belongs into {}", folder);
}

// What is wrong with a file of the cache, by its place and content; "" if nothing.
std::string file_problem(const std::string &relative, std::string_view bytes) {
  if (relative.starts_with(fmt::format("{}/cubins/", store::kFormat))) return store::cubin_problem(relative, bytes);
  if (relative.starts_with(fmt::format("{}/locks/", store::kFormat))) return {};
  if (relative.ends_with(".json")) return entry_file_problem(relative, bytes);
  return "no file of this cache has such a name";
}

}  // namespace

std::string cache_path(ops::Pipeline &pipeline) { return to_text(document(pipeline)); }

nlohmann::ordered_json verified_files(ops::Pipeline &pipeline) {
  Json json = {{"problems", Json::array()}};
  std::int64_t files = 0;
  for (const auto &found : pipeline.root().verify(file_problem)) {
    ++files;
    if (!found.problem.empty()) json["problems"].push_back({{"path", found.path}, {"problem", found.problem}});
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
  for (const auto &left : pipeline.root().verify(file_problem)) {
    if (writable.empty() || !left.path.starts_with(writable) || left.path.starts_with(locks)) continue;
    json["problems"].push_back(
        {{"path", left.path}, {"problem", left.problem.empty() ? "is still there" : left.problem}});
  }
  return to_text(json);
}

}  // namespace msj::api
