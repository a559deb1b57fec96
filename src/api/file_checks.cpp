#include "api/file_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/bounded_json.h"
#include "base/error.h"
#include "ops/registry.h"
#include "store/cubin_store.h"
#include "store/path.h"
#include "text/printable.h"
#include "tune/config_json.h"
#include "tune/entry.h"
#include "tune/entry_place.h"

namespace msj::api {

namespace {

using Json = nlohmann::ordered_json;

// ---- entries -------------------------------------------------------------------------------------------------------

// The op whose lookups may take a sound entry; null for one of another bucket version or tuning epoch, which none
// takes.
const ops::Op *current_op(ops::Pipeline &pipeline, const Json &key) {
  const ops::Op *op = ops::find_op(key.at("op").get<std::string>());
  const bool is_current = op != nullptr && key.at("tuning_epoch") == op->spec->tuning_epoch &&
                          key.at("bucket").at("version") == pipeline.tuner().buckets().version();
  return is_current ? op : nullptr;
}

// A config of a sound entry that a lookup would refuse. Another version of the library may have other candidates, and
// share this cache: its entries are right, and so are those that no lookup of this one takes at all.
std::string config_problem(ops::Pipeline &pipeline, const Json &entry) {
  const Json &key = entry.at("key");
  const ops::Op *op = current_op(pipeline, key);
  if (op == nullptr || entry.at("provenance").at("library") != msj_version()) return {};
  const auto dtype = dtype_from(key.at("dtypes").front().get<std::string>());
  const tune::CandidateSpace &space = pipeline.tuner().space(*op->spec);
  for (const Layout layout : kLayouts) {
    const auto config = tune::config_from_json(entry.at(layout == Layout::any ? "config_any" : "config"));
    if (!config || !dtype || space.contains(*config, *dtype, layout)) continue;
    return fmt::format("has a config for {} ({}) that is no candidate any more", name(layout), to_string(*config));
  }
  return {};
}

// v1/<environment>/autotune/<op>/<key>.json, each of them a plain name that a file system takes.
bool is_entry_path(const std::string &place) {
  constexpr std::size_t kMostBytes = 255;
  const std::vector<std::string> names = store::split(place);
  return names.size() == 5 && std::ranges::all_of(names, [](const std::string &name) {
           return !name.empty() && name.size() <= kMostBytes && name.front() != '.' &&
                  std::ranges::all_of(name, [](unsigned char byte) { return byte >= ' ' && byte != 127; });
         });
}

std::string entry_file_problem(ops::Pipeline &pipeline, const std::string &relative, std::string_view bytes) {
  if (std::string problem = tune::entry_problem(bytes); !problem.empty()) return "is no autotune entry: " + problem;
  const std::string place = fmt::format("{}/{}", store::kFormat, tune::entry_place(bytes));
  if (relative != place) return fmt::format("is not where it belongs: at {}", place);
  if (!is_entry_path(place)) return "has an environment, op or key that is no name for a file";
  return config_problem(pipeline, Json::parse(bytes));
}

// ---- cubins --------------------------------------------------------------------------------------------------------

// The index of the one of that name, or an exception as for any JSON of another shape.
template <typename Spec>
std::size_t index_of(std::span<const Spec> specs, const std::string &name) {
  const int index = find_named(specs, std::string_view(name));
  if (index < 0) throw_error(MSJ_ERROR_IO, "'{}' is unknown", shortened(name));
  return static_cast<std::size_t>(index);
}

// The specialization that a key text describes. Throws for a text that no specialization of this library has.
jit::Specialization described_by(const Json &key) {
  jit::Specialization described;
  const ops::Op *op = ops::find_op(key.at("op").get<std::string>());
  if (op == nullptr) throw_error(MSJ_ERROR_IO, "its op is unknown");
  const OpSpec &spec = *op->spec;
  described.op = &spec;
  described.config.path = key.at("path").get<std::string>();
  (void)index_of(spec.paths, described.config.path);
  described.architecture = cuda::parse_architecture(key.at("architecture").get<std::string>());
  described.layout = key.at("layout") == name(Layout::any) ? Layout::any : Layout::aligned16;
  for (const Json &feature : key.at("features")) {
    described.features |= FeatureSet{1} << index_of(spec.features, feature.get<std::string>());
  }
  const Json &dtypes = key.at("dtypes");
  for (std::size_t i = 0; i < spec.operands.size(); ++i) {
    const auto dtype = dtype_from(dtypes.at(i).get<std::string>());
    if (!dtype) throw_error(MSJ_ERROR_IO, "a dtype is unknown");
    described.dtypes[i] = *dtype;
  }
  const Json sizes = key.value("static_sizes", Json::object());
  for (const auto &[size, value] : sizes.items()) {
    described.static_sizes[index_of(spec.sizes, size)] = value.get<std::int64_t>();
  }
  const Json config = key.value("config", Json::object());
  for (const auto &[tunable, value] : config.items()) {
    described.config.tunables[tunable] = value.get<int>();
  }
  return described;
}

std::optional<jit::Specialization> specialization_of(const Json &key) {
  try {
    return described_by(key);
  } catch (const Error &) {  // of any status: an architecture that is none is a caller's argument elsewhere
    return std::nullopt;
  } catch (const Json::exception &) {
    return std::nullopt;
  }
}

constexpr const char *kAnotherKey = "was made from another specialization than its name says";

// Of a cubin that this version of the library made.
std::string name_problem(ops::Pipeline &pipeline, const store::CubinFile &file, const Json &key,
                         const Json &provenance) {
  const auto described = specialization_of(key);
  if (!described || described->key() != file.key) return kAnotherKey;
  jit::Specializer &specializer = pipeline.specializer();
  try {
    if (provenance.value("source_hash", "") != specializer.source_hash(*described)) return {};  // of a kernel folder
    return specializer.hash_of(*described) == file.hash ? std::string() : kAnotherKey;
  } catch (const Error &) {
    return {};  // the kernels' sources can't be read just now: no fault of a file that `prune` would remove
  } catch (const Json::exception &) {  // a source hash that is no text
    return kAnotherKey;
  }
}

}  // namespace

std::string cubin_texts_problem(ops::Pipeline &pipeline, const store::CubinFile &file) {
  std::string why;
  const Json key = parse_bounded_json(file.key, kMaxCubinTextDepth, why);
  if (!why.empty()) return "has a key text that is none: " + why;
  // Of the kernels that `bench` measures against, which are no op's: the file.
  const bool of_file = key.is_object() && key.contains("file");
  for (const char *field : {of_file ? "file" : "op", "architecture"}) {
    if (!key.is_object() || !key.contains(field) || !key.at(field).is_string()) {
      return fmt::format("has a key text that is none: it is no JSON object with \"{}\" as text", field);
    }
  }
  const Json provenance = parse_bounded_json(file.provenance, kMaxCubinTextDepth, why);
  if (!why.empty()) return "has a provenance that is none: " + why;
  if (!provenance.is_object()) return "has a provenance that is none: it is no JSON object";
  if (of_file) return {};
  const auto library = provenance.find("library");
  if (library == provenance.end() || *library != msj_version()) return {};
  return name_problem(pipeline, file, key, provenance);
}

std::string obsolete_reason(ops::Pipeline &pipeline, const std::string &relative, std::string_view bytes) {
  if (!relative.ends_with(store::kEntryEnding) || !tune::entry_problem(bytes).empty()) return {};
  const Json entry = Json::parse(bytes);
  const Json &key = entry.at("key");
  const ops::Op *op = ops::find_op(key.at("op").get<std::string>());
  if (op == nullptr) return {};  // of a newer library
  const int epoch = key.at("tuning_epoch").get<int>();
  if (epoch < op->spec->tuning_epoch) {
    return fmt::format("is of tuning epoch {}; this library's is {}", epoch, op->spec->tuning_epoch);
  }
  const auto version = key.at("bucket").at("version").get<std::int64_t>();
  const std::int64_t own = pipeline.tuner().buckets().version();
  return version < own ? fmt::format("is of bucket version {}; this library's is {}", version, own) : std::string();
}

bool is_of_architecture(const std::string &environment, std::string_view arch) {
  return arch.empty() || environment.find("_" + std::string(arch) + "_") != std::string::npos;
}

std::string file_problem(ops::Pipeline &pipeline, const std::string &relative, std::string_view bytes) {
  if (store::is_lock(relative)) return {};
  if (relative.starts_with(fmt::format("{}/", store::kLocks))) return std::string(store::kNoSuchName);
  if (relative.starts_with(fmt::format("{}/", store::kCubins))) {
    return store::cubin_problem(relative, bytes,
                                [&](const store::CubinFile &file) { return cubin_texts_problem(pipeline, file); });
  }
  if (relative.ends_with(store::kEntryEnding)) return entry_file_problem(pipeline, relative, bytes);
  return std::string(store::kNoSuchName);
}

store::Verdict lookup_verdict(ops::Pipeline &pipeline, const std::string &relative, std::string_view bytes) {
  if (std::string problem = file_problem(pipeline, relative, bytes); !problem.empty()) return problem;
  const bool is_entry = relative.ends_with(store::kEntryEnding) && !store::is_lock(relative);
  const bool is_of_use = !is_entry || current_op(pipeline, Json::parse(bytes).at("key")) != nullptr;
  return is_of_use ? store::Verdict() : store::Verdict::passed_over();
}

}  // namespace msj::api
