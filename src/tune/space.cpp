#include "tune/space.h"

#include <algorithm>

#include "base/error.h"
#include "text/printable.h"
#include "tune/config_json.h"

namespace msj::tune {

namespace {

// "" if the config's path is one of the op's and it names exactly that path's tunables.
std::string shape_problem(const OpSpec &op, const TileConfig &config) {
  const int index = find_named(op.paths, config.path);
  if (index < 0) return fmt::format("\"{}\" is no kernel path of {}", shortened(config.path), op.name);
  const PathSpec &path = op.paths[static_cast<std::size_t>(index)];
  for (const std::string_view tunable : path.tunables) {
    if (!config.tunables.contains(tunable)) return fmt::format("tunable {} of path {} is missing", tunable, path.name);
  }
  for (const auto &[tunable, value] : config.tunables) {
    if (std::find(path.tunables.begin(), path.tunables.end(), tunable) == path.tunables.end()) {
      return fmt::format("path {} has no tunable {}", path.name, shortened(tunable));
    }
  }
  return {};
}

bool overlap(const Candidate &a, const Candidate &b) {
  if (a.dtypes.empty() || b.dtypes.empty()) return true;
  return std::any_of(a.dtypes.begin(), a.dtypes.end(), [&](DType dtype) { return b.takes(dtype); });
}

// Reads one candidate; throws with its place in the list.
class CandidateReader {
 public:
  CandidateReader(const OpSpec &op, const nlohmann::ordered_json &json, std::size_t index)
      : op_(op), json_(json), index_(index) {}

  [[nodiscard]] Candidate read() const {
    auto config = config_from_json(json_);
    if (!config) refuse("needs \"path\" and \"tunables\" of integers");
    if (const std::string problem = shape_problem(op_, *config); !problem.empty()) refuse(problem);
    for (const auto &[field, value] : json_.items()) {
      if (field != "path" && field != "tunables" && field != "layouts" && field != "dtypes") {
        refuse(fmt::format("has an unknown field \"{}\"", field));
      }
    }
    Candidate candidate{std::move(*config), {}, {}};
    read_layouts(candidate);
    read_dtypes(candidate);
    return candidate;
  }

 private:
  [[noreturn]] void refuse(std::string_view reason) const {
    throw_error(MSJ_ERROR_INTERNAL, "configs/spaces/{}.json: candidate {}: {}", op_.name, index_, reason);
  }

  void read_layouts(Candidate &candidate) const {
    const auto list = json_.find("layouts");
    if (list == json_.end() || !list->is_array() || list->empty()) refuse("has no \"layouts\"");
    for (const auto &value : *list) {
      const auto layout = std::find_if(kLayouts.begin(), kLayouts.end(),
                                       [&](Layout known) { return value == std::string(name(known)); });
      if (layout == kLayouts.end()) refuse("\"layouts\" are aligned16 and any");
      candidate.layouts[static_cast<std::size_t>(*layout)] = true;
    }
  }

  void read_dtypes(Candidate &candidate) const {
    const auto list = json_.find("dtypes");
    if (list == json_.end()) return;
    if (!list->is_array() || list->empty()) refuse("\"dtypes\" is no list");
    for (const auto &value : *list) {
      const auto dtype = value.is_string() ? dtype_from(std::string_view(value.get_ref<const std::string &>()))
                                           : std::optional<DType>();
      if (!dtype) refuse(fmt::format("{} is no dtype", value.dump()));
      candidate.dtypes.push_back(*dtype);
    }
  }

  const OpSpec &op_;
  const nlohmann::ordered_json &json_;
  std::size_t index_;
};

}  // namespace

bool Candidate::takes(DType dtype) const {
  return dtypes.empty() || std::find(dtypes.begin(), dtypes.end(), dtype) != dtypes.end();
}

CandidateSpace CandidateSpace::parse(const OpSpec &op, std::string_view text) {
  const auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  const auto refuse = [&](std::string_view reason) {
    throw_error(MSJ_ERROR_INTERNAL, "configs/spaces/{}.json: {}", op.name, reason);
  };
  if (!json.is_object()) refuse("it is no JSON object");
  if (!json.contains("version") || !json["version"].is_number_integer()) refuse("it has no \"version\"");
  if (!json.contains("candidates") || !json["candidates"].is_array()) refuse("it has no list of \"candidates\"");
  CandidateSpace space;
  space.version = json["version"].get<int>();
  for (const auto &item : json["candidates"]) {
    Candidate candidate = CandidateReader(op, item, space.candidates.size()).read();
    for (const Candidate &earlier : space.candidates) {
      if (earlier.config == candidate.config && overlap(earlier, candidate)) {
        refuse(fmt::format("candidate {} is there twice: {}", space.candidates.size(), to_string(candidate.config)));
      }
    }
    space.candidates.push_back(std::move(candidate));
  }
  if (space.candidates.empty()) refuse("it has no candidate");
  return space;
}

CandidateSpace CandidateSpace::embedded(const OpSpec &op, const ConfigTexts &configs) {
  return parse(op, config_text(configs, fmt::format("spaces/{}.json", op.name)));
}

bool CandidateSpace::contains(const TileConfig &config, DType dtype, Layout layout) const {
  return std::any_of(candidates.begin(), candidates.end(), [&](const Candidate &candidate) {
    return candidate.config == config && candidate.takes(dtype) && candidate.takes(layout);
  });
}

std::string admission_problem(const AutotuneKey &key, const TileConfig &config, Layout layout,
                              const DeviceLimits &limits) {
  const OpSpec &op = key.op();
  if (std::string problem = shape_problem(op, config); !problem.empty()) return problem;
  const PathSpec &path = path_of(op, config);
  if (limits.compute_capability < path.min_compute_capability ||
      limits.compute_capability > path.max_compute_capability) {
    return fmt::format("path {} runs on compute capability {} to {}, not {}", path.name, path.min_compute_capability,
                       path.max_compute_capability, limits.compute_capability);
  }
  if (!path.tensor_maps.empty() && !limits.tensor_maps) {
    return fmt::format("path {} needs tensor maps, which this driver does not encode (cuTensorMapEncodeTiled)",
                       path.name);
  }
  if (!path.tensor_maps.empty() && layout != Layout::aligned16) {
    return fmt::format("path {} reads through tensor maps, which take layout class aligned16 alone", path.name);
  }
  return path.admission({config, key.bucket().edges, key.dtypes().all(), layout, limits});
}

Admission admit(const CandidateSpace &space, const AutotuneKey &key, const DeviceLimits &limits) {
  Admission admission;
  for (const Candidate &candidate : space.candidates) {
    if (!candidate.takes(key.dtypes().all().front())) continue;
    for (const Layout layout : kLayouts) {
      if (!candidate.takes(layout)) continue;
      std::string problem = admission_problem(key, candidate.config, layout, limits);
      if (problem.empty()) {
        admission.admitted.push_back({candidate.config, layout});
      } else {
        admission.rejected.push_back({candidate.config, layout, std::move(problem)});
      }
    }
  }
  return admission;
}

ConfigPair default_configs(const CandidateSpace &space, const AutotuneKey &key, const DeviceLimits &limits) {
  const Admission admission = admit(space, key, limits);
  const auto first = [&](Layout wanted) -> const TileConfig & {
    for (const auto &[config, layout] : admission.admitted) {
      if (layout == wanted) return config;
    }
    std::string reasons;
    for (const Rejected &rejected : admission.rejected) {
      if (rejected.layout != wanted) continue;
      reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", to_string(rejected.config), rejected.reason);
    }
    throw_error(MSJ_ERROR_UNSUPPORTED, "no tile config of {} can run {} with layout class {} here: {}", key.op().name,
                key.text(), name(wanted), reasons.empty() ? "it has no candidate" : reasons);
  };
  return {first(Layout::aligned16), first(Layout::any)};
}

}  // namespace msj::tune
