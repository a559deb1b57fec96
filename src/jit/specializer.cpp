#include "jit/specializer.h"

#include <fmt/ranges.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"

namespace msj::jit {

namespace {

// What a cubin's name is the hash of: content alone, so any NVRTC that compiled the same text for the same target hits.
std::string name_of(const std::string &source, const cuda::Architecture &architecture) {
  std::string identity = fmt::format("{}\n{}\n", store::kFormat, architecture.name);
  for (const std::string &option : compile_options()) identity += option + "\n";
  return hash_name(identity + source);
}

std::string file_name(const Specialization &specialization) {
  return fmt::format("{}.{}.cu", specialization.op->name, specialization.config.path);
}

std::string provenance_json(const std::string &nvrtc_version, const std::string &source_hash) {
  const nlohmann::ordered_json json = {
      {"nvrtc", nvrtc_version}, {"library", msj_version()}, {"source_hash", source_hash}, {"date", utc_now()}};
  return json.dump();
}

}  // namespace

Specializer::Specializer(const Settings &settings, store::CacheRoot &root, Lazy<cuda::Nvrtc> &nvrtc, Counters &counters,
                         Log &log)
    : sources_(settings.kernel_dir),
      root_(root),
      store_(root, log),
      nvrtc_(nvrtc),
      counters_(counters),
      log_(log),
      lock_timeout_(settings.lock_timeout_seconds) {}

std::shared_ptr<const Cubin> Specializer::cubin(const Specialization &specialization, Purpose purpose) {
  if (purpose == Purpose::use) say_note(specialization);
  return get(specialization.key(), [&] { return unit_of(specialization); });
}

std::shared_ptr<const Cubin> Specializer::cubin_of_file(const std::string &file,
                                                        const cuda::Architecture &architecture) {
  const nlohmann::ordered_json json = {{"file", file}, {"architecture", architecture.name}};
  const std::string key = json.dump();
  return get(key, [&]() -> Unit {
    const std::string &source = sources_.expanded(file);
    return {source, name_of(source, architecture), key, file, file, architecture};
  });
}

std::shared_ptr<const Cubin> Specializer::get(const std::string &key, const std::function<Unit()> &make_unit) {
  if (auto known = cubins_.find(key)) {
    ++counters_.cubin_hits_memory;
    return known;
  }
  return cubins_.get_or_make(key, [&] { return load_or_compile(make_unit(), true); });
}

std::shared_ptr<const Cubin> Specializer::rebuild(const Specialization &specialization) {
  const Unit unit = unit_of(specialization);
  store_.remove(unit.hash);
  cubins_.erase(unit.key);
  return cubins_.get_or_make(unit.key, [&] { return load_or_compile(unit, false); });
}

std::string Specializer::hash_of(const Specialization &specialization) {
  return name_of(translation_unit(specialization, sources_), specialization.architecture);
}

std::string Specializer::source_hash(const Specialization &specialization) {
  return hash_of_file(file_name(specialization));
}

std::string Specializer::hash_of_file(const std::string &name) { return hash_name(sources_.expanded(name)); }

std::shared_ptr<const Cubin> Specializer::from_disk(const std::string &hash, const std::string &key) {
  auto file = store_.load(hash, key);
  if (!file) return nullptr;
  ++counters_.cubin_hits_disk;
  return std::make_shared<const Cubin>(Cubin{hash, std::move(file->cubin), {}});
}

void Specializer::say_note(const Specialization &specialization) {
  const PathSpec &path = path_of(*specialization.op, specialization.config);
  const cuda::Architecture &architecture = specialization.architecture;
  if (path.note == nullptr) return;
  const std::string_view note = path.note(architecture.compute_capability);
  if (note.empty()) return;
  log_.info_once(fmt::format("note {} {} {}", specialization.op->name, path.name, architecture.name),
                 fmt::format("{} ({}) on {}: {}", specialization.op->name, path.name, architecture.name, note));
}

Specializer::Unit Specializer::unit_of(const Specialization &specialization) {
  std::string source = translation_unit(specialization, sources_);
  std::string hash = name_of(source, specialization.architecture);
  std::string what = fmt::format("{} ({}), features [{}],", specialization.op->name, specialization.config.path,
                                 fmt::join(feature_names(*specialization.op, specialization.features), ", "));
  return {std::move(source),         std::move(hash), specialization.key(),
          file_name(specialization), std::move(what), specialization.architecture};
}

std::shared_ptr<const Cubin> Specializer::load_or_compile(const Unit &unit, bool trust_disk) {
  if (trust_disk) {
    if (auto cached = from_disk(unit.hash, unit.key)) return cached;
  }
  // Another process may be compiling the same: wait for it, then look again.
  const auto lock = root_.lock("compile-" + unit.hash, std::chrono::duration<double>(lock_timeout_));
  if (trust_disk && lock) {
    if (auto cached = from_disk(unit.hash, unit.key)) return cached;
  }
  const auto nvrtc = nvrtc_.get();
  const auto start = std::chrono::steady_clock::now();
  auto result = nvrtc->compile(unit.source, unit.name, unit.architecture, compile_options(), counters_);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  log_.info(fmt::format("compiled {} for {} in {:.2f} s", unit.what, unit.architecture.name, seconds.count()));
  if (!result.log.empty()) log_.debug(result.log);
  store_.save({unit.hash, unit.key, provenance_json(nvrtc->version(), hash_of_file(unit.name)), result.cubin});
  return std::make_shared<const Cubin>(Cubin{unit.hash, std::move(result.cubin), std::move(result.log)});
}

}  // namespace msj::jit
