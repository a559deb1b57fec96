#include "cli/bench_peers.h"

#include "cli/failure.h"
#include "cli/json_text.h"

namespace msj::cli {
namespace {

using nlohmann::json;

constexpr const char *kWhat = "the peers' file";

std::optional<double> positive(const json &value) {
  if (!value.is_number() || value.get<double>() <= 0) return std::nullopt;
  return value.get<double>();
}

json object_at(const json &document, const char *field, const std::string &file) {
  json found = document.value(field, json::object());
  if (!found.is_object()) failure("{}: '{}' is {}; an object is accepted", file, field, shown(found));
  return found;
}

}  // namespace

BenchPeers BenchPeers::read(const std::filesystem::path &file) {
  const json document = parse_json_text(read_json_text(file, kWhat, Pipes::refused), file.native(), kWhat);
  if (!document.is_object()) {
    failure("{}: {} is a JSON {}; an object with ceilings and cases is accepted", file.native(), kWhat,
            document.type_name());
  }
  BenchPeers peers;
  peers.ceilings_ = object_at(document, "ceilings", file.native());
  peers.cases_ = object_at(document, "cases", file.native());
  for (const auto &[dtype, rate] : peers.ceilings_.items()) {
    if (!positive(rate)) {
      failure("{}: the ceiling of {} is {}; TFLOP/s above 0 are accepted", file.native(), dtype, shown(rate));
    }
  }
  return peers;
}

std::optional<double> BenchPeers::matrix_rate(DType dtype) const {
  const auto found = ceilings_.find(name(dtype));
  return found == ceilings_.end() ? std::nullopt : positive(*found);
}

std::map<std::string, double> BenchPeers::times(const BenchCase &of) const {
  std::map<std::string, double> times;
  const auto found = cases_.find(of.key());
  if (found == cases_.end() || !found->is_object() || found->value("features", json()) != of.features_text()) return {};
  for (const auto &[peer, row] : found->items()) {
    if (!row.is_object()) continue;
    if (const auto ms = positive(row.value("ms", json()))) times.emplace(peer, *ms);
  }
  return times;
}

}  // namespace msj::cli
