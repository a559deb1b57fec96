// The cache to a tar archive and back: which files are meant, what makes one valid, and what is said of it.
#include "store/archive.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "api/documents.h"
#include "api/file_checks.h"
#include "base/bounded_json.h"
#include "base/error.h"
#include "store/cubin_format.h"
#include "store/path.h"

namespace msj::api {

namespace {

using Json = nlohmann::ordered_json;

// Of a key text, that another version or another hand may have made: any JSON.
bool has_text(const Json &key, const char *field, std::string_view text) {
  const auto found = key.find(field);
  return found != key.end() && found->is_string() && found->get_ref<const std::string &>() == text;
}

// Of a valid file. An entry's place says both, a cubin's key text does; the cubins of `bench` are no op's.
bool is_of(std::string_view op, std::string_view arch, const std::string &relative, std::string_view bytes) {
  if (op.empty() && arch.empty()) return true;
  if (relative.ends_with(store::kEntryEnding)) {
    const std::vector<std::string> names = store::split(relative);  // v1/<environment>/autotune/<op>/<key>.json
    return (op.empty() || names.at(3) == op) && is_of_architecture(names.at(1), arch);
  }
  std::string why;
  const auto file = store::decode_cubin(bytes, why);
  const Json key = file ? parse_bounded_json(file->key, kMaxCubinTextDepth, why) : Json();
  return key.is_object() && (op.empty() || has_text(key, "op", op)) &&
         (arch.empty() || has_text(key, "architecture", arch));
}

store::PlacedCheck check_of(ops::Pipeline &pipeline) {
  return [&pipeline](const std::string &relative, std::string_view bytes) {
    return lookup_verdict(pipeline, relative, bytes);
  };
}

void need_cache(ops::Pipeline &pipeline) {
  if (!pipeline.root().layers().empty()) return;
  throw_error(MSJ_ERROR_IO, "there is no cache directory: set MAXSIM_JIT_CACHE_DIR, or HOME to an absolute path");
}

void need_writable(ops::Pipeline &pipeline) {
  for (const auto &layer : pipeline.root().examine_layers()) {
    if (!layer.writable) continue;
    if (layer.problem.empty()) return;
    throw_error(MSJ_ERROR_IO, "nothing can be imported: {}", layer.problem);
  }
  throw_error(MSJ_ERROR_IO, "nothing can be imported: MAXSIM_JIT_CACHE_DIR names no writable directory");
}

// What both directions say: the layers, the archive, and what went over.
template <typename Counts>
Json carried(ops::Pipeline &pipeline, const std::string &file, const Counts &counts) {
  Json json = cache_layers(pipeline);
  json["file"] = file;
  json["entries"] = counts.entries;
  json["cubins"] = counts.cubins;
  json["bytes"] = counts.bytes;
  return json;
}

}  // namespace

std::string cache_export(ops::Pipeline &pipeline, const std::string &file, std::string_view op, std::string_view arch) {
  need_cache(pipeline);
  const auto is_wanted = [&](const std::string &relative, std::string_view bytes) {
    return is_of(op, arch, relative, bytes);
  };
  std::string wanted;
  if (!op.empty()) wanted = fmt::format("of {}", op);
  if (!arch.empty()) wanted += fmt::format("{}for {}", wanted.empty() ? "" : " ", arch);
  const store::Exported exported =
      store::export_archive(pipeline.root(), file, {check_of(pipeline), is_wanted, wanted});
  return to_text(carried(pipeline, file, exported));
}

std::string cache_import(ops::Pipeline &pipeline, const std::string &file) {
  need_cache(pipeline);
  need_writable(pipeline);
  const auto obsolete = [&](const std::string &relative, std::string_view bytes) {
    return obsolete_reason(pipeline, relative, bytes);
  };
  const store::Imported imported = store::import_archive(pipeline.root(), file, {check_of(pipeline), obsolete});
  Json json = carried(pipeline, file, imported);
  json["identical"] = imported.identical;
  json["kept"] = imported.kept;
  json["problems"] = Json::array();
  for (const auto &refused : imported.refused) {
    json["problems"].push_back({{"path", refused.path}, {"problem", refused.problem}});
  }
  return to_text(json);
}

}  // namespace msj::api
