#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "api/documents.h"
#include "api/file_checks.h"
#include "tune/entry.h"

namespace msj::api {

namespace {

using Json = nlohmann::ordered_json;

void add_entry(Json &entries, const std::string &text, const char *source, std::string_view op, std::string_view arch) {
  if (!tune::entry_problem(text).empty()) return;  // `cache verify` names it
  const Json entry = Json::parse(text, nullptr, false);
  if (entry.is_discarded()) return;
  const Json &key = entry.at("key");
  const auto environment = entry.at("environment").get<std::string>();
  if (!op.empty() && key.at("op") != op) return;
  if (!is_of_architecture(environment, arch)) return;
  Json row = {{"op", key.at("op")},           {"bucket", key.at("bucket")},           {"dtypes", key.at("dtypes")},
              {"config", entry.at("config")}, {"config_any", entry.at("config_any")}, {"source", source},
              {"environment", environment}};
  row["sizes"] = entry.at("sizes");
  row["timings"] = entry.at("candidates");
  row["provenance"] = entry.at("provenance");
  entries.push_back(std::move(row));
}

// As a person looks for one: by what it computes, then for what, then how; the hash makes the order total.
std::vector<std::string> place_of(const Json &cubin) {
  std::vector<std::string> place;
  for (const char *field :
       {"op", "architecture", "dtypes", "static_sizes", "features", "layout", "path", "config", "hash"}) {
    const auto found = cubin.find(field);
    place.push_back(found == cubin.end() ? std::string() : found->dump());
  }
  return place;
}

}  // namespace

std::string inspect_entries(ops::Pipeline &pipeline, std::string_view op, std::string_view arch) {
  Json entries = Json::array();
  // What a lookup would refuse is warned of and left out; `cache verify` lists it.
  const auto check = [&](const std::string &relative, std::string_view text) {
    return lookup_verdict(pipeline, relative, text);
  };
  for (const store::EntryFile &file : pipeline.tuner().entries().list(check)) {
    add_entry(entries, file.text, "tuned", op, arch);
  }
  for (const auto &[name, text] : tune::shipped_entries()) add_entry(entries, std::string(text), "shipped", op, arch);
  // As values, so that sizes are in the order of numbers, and "more", a text, is behind them.
  std::stable_sort(entries.begin(), entries.end(), [](const Json &a, const Json &b) {
    const auto order = [](const Json &entry) {
      return std::tie(entry.at("op"), entry.at("environment"), entry.at("bucket"), entry.at("dtypes"));
    };
    return order(a) < order(b);
  });
  return to_text(Json{{"schema", "maxsim-jit/inspect/1"}, {"entries", std::move(entries)}});
}

std::string inspect_cubins(ops::Pipeline &pipeline, std::string_view op, std::string_view arch) {
  Json cubins = Json::array();
  const auto check = [&](const store::CubinFile &file) { return cubin_texts_problem(pipeline, file); };
  for (const store::CubinFile &file : pipeline.specializer().store().list(check)) {
    const Json key = Json::parse(file.key);  // not too deep: that is checked
    const Json provenance = Json::parse(file.provenance);
    if (!key.contains("op")) continue;  // the ceilings' cubin: it is no specialization
    if (!op.empty() && key.at("op") != op) continue;
    if (!arch.empty() && key.at("architecture") != arch) continue;
    Json row = {{"hash", file.hash}};
    row.update(key);
    row["provenance"] = provenance;
    cubins.push_back(std::move(row));
  }
  std::sort(cubins.begin(), cubins.end(), [](const Json &a, const Json &b) { return place_of(a) < place_of(b); });
  return to_text(Json{{"schema", "maxsim-jit/inspect/1"}, {"cubins", std::move(cubins)}});
}

}  // namespace msj::api
