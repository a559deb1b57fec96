#include <nlohmann/json.hpp>

#include "api/documents.h"
#include "base/hash.h"
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

bool ends_with(const std::string &text, std::string_view ending) {
  return text.size() >= ending.size() && text.compare(text.size() - ending.size(), ending.size(), ending) == 0;
}

// What is wrong with a file of the cache, by its place and content; "" if nothing.
std::string file_problem(const std::string &relative, std::string_view bytes) {
  if (ends_with(relative, ".cubin")) {
    std::string why;
    const auto file = store::decode_cubin(bytes, why);
    if (!file) return why;
    const std::size_t slash = relative.rfind('/') + 1;
    return relative.substr(slash) == file->hash + ".cubin" ? "" : "its name is not the hash in its header";
  }
  if (ends_with(relative, ".json")) return tune::entry_problem(bytes);
  if (ends_with(relative, ".lock")) return {};
  return "no file of this cache has such a name";
}

}  // namespace

std::string cache_path(ops::Pipeline &pipeline) { return document(pipeline).dump(2); }

std::string cache_verify(ops::Pipeline &pipeline) {
  Json json = document(pipeline);
  json["problems"] = Json::array();
  std::int64_t files = 0;
  for (const auto &found : pipeline.root().verify(file_problem)) {
    ++files;
    if (!found.problem.empty()) json["problems"].push_back({{"path", found.path}, {"problem", found.problem}});
  }
  json["files"] = files;
  return json.dump(2);
}

std::string cache_clear(ops::Pipeline &pipeline) {
  Json json = document(pipeline);
  json["removed"] = pipeline.root().clear();
  return json.dump(2);
}

}  // namespace msj::api
