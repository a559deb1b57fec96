#include "tune/tuner.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "text/printable.h"
#include "tune/ceilings.h"

namespace msj::tune {

namespace {

constexpr std::string_view kShipped = "tuned/";

// "tuned/<environment>/<op>/<key>.json"
std::string shipped_name(std::string_view environment, const AutotuneKey &key) {
  return fmt::format("{}{}/{}/{}.json", kShipped, environment, key.op().name, key.text());
}

// Whether a device of this environment is of that architecture and, unless it is "", of that name. A GPU may be named
// with or without its maker.
bool is_environment_of(std::string_view environment, const cuda::Architecture &architecture, std::string_view gpu) {
  const auto starts_as = [&](const std::string &name) {
    cuda::DeviceInfo device;
    device.name = name;
    device.architecture = architecture;
    const std::string pattern = device.environment();
    const std::size_t end = pattern.find("_" + architecture.name + "_");
    return environment.starts_with(pattern.substr(0, end + architecture.name.size() + 2));
  };
  if (environment.find("_" + architecture.name + "_") == std::string_view::npos) return false;
  return gpu.empty() || starts_as(std::string(gpu)) || starts_as(fmt::format("NVIDIA {}", gpu));
}

std::string library_version() {
  return fmt::format("{}.{}.{}", MSJ_VERSION_MAJOR, MSJ_VERSION_MINOR, MSJ_VERSION_PATCH);
}

std::shared_ptr<const Resolution> resolution(ConfigPair configs, Source source) {
  return std::make_shared<const Resolution>(Resolution{std::move(configs), source});
}

}  // namespace

// ---- one sweep at a time on a GPU ---------------------------------------------------------------------------------

class Tuner::GpuTurn {
 public:
  GpuTurn(Tuner &tuner, const std::string &uuid)
      : deadline_(std::chrono::steady_clock::now() +
                  std::chrono::duration_cast<std::chrono::steady_clock::duration>(timeout_of(tuner.parts_.settings))),
        file_(tuner.parts_.root.lock("sweep-" + uuid, timeout_of(tuner.parts_.settings))) {
    if (file_) return;
    // No lock file: no place for one, or the wait was too long. What is left of the time, wait for our own threads.
    threads_ = std::unique_lock(tuner.turn_of(uuid), std::defer_lock);
    if (threads_.try_lock_until(deadline_) && std::chrono::steady_clock::now() < deadline_) return;
    tuner.parts_.log.warn(
        fmt::format("another sweep has held this GPU for {} s; this one goes on beside it, so timings may suffer",
                    tuner.parts_.settings.lock_timeout_seconds));
  }

 private:
  static std::chrono::duration<double> timeout_of(const Settings &settings) {
    return std::chrono::duration<double>(settings.lock_timeout_seconds);
  }

  std::chrono::steady_clock::time_point deadline_;
  std::unique_ptr<store::CacheRoot::Lock> file_;
  std::unique_lock<std::timed_mutex> threads_;
};

std::timed_mutex &Tuner::turn_of(const std::string &uuid) {
  const std::scoped_lock lock(turns_mutex_);
  return turns_[uuid];
}

// ---- looking up ---------------------------------------------------------------------------------------------------

Tuner::Tuner(Parts parts)
    : parts_(std::move(parts)),
      buckets_(BucketRules::parse(config_text(parts_.configs, "buckets.json"))),
      entries_(parts_.root, parts_.log) {}

const CandidateSpace &Tuner::space(const OpSpec &op) {
  return *spaces_.get_or_make(std::string(op.name), [&] {
    return std::make_shared<const CandidateSpace>(CandidateSpace::embedded(op, parts_.configs));
  });
}

std::optional<ConfigPair> Tuner::usable_configs(std::string_view text, const AutotuneKey &key,
                                                std::string_view environment, const DeviceLimits &limits,
                                                std::string &why) {
  const auto entry = parse_entry(text, key, environment, why);
  if (!entry) {
    if (is_of_other_version(text, key)) why.clear();
    return std::nullopt;
  }
  for (const Layout layout : kLayouts) {
    const TileConfig &config = entry->configs.of(layout);
    const bool is_candidate = space(key.op()).contains(config, key.dtypes().all().front(), layout);
    if (!is_candidate && entry->provenance.library_version != library_version()) return std::nullopt;
    std::string problem = admission_problem(key, config, layout, limits);
    if (problem.empty() && !is_candidate) problem = "it is no candidate any more";
    if (problem.empty()) continue;
    why = fmt::format("its config for {} ({}) can't run: {}", name(layout), to_string(config), problem);
    return std::nullopt;
  }
  return entry->configs;
}

Tuner::Found Tuner::find_tuned(const AutotuneKey &key, const cuda::DeviceInfo &device) {
  const std::string environment = device.environment();
  std::optional<ConfigPair> configs;
  const auto check = [&](std::string_view text) {
    std::string why;
    configs = usable_configs(text, key, environment, device.limits, why);
    if (configs) return store::Verdict();
    return why.empty() ? store::Verdict::passed_over() : store::Verdict("is no autotune entry for this key: " + why);
  };
  const auto file = entries_.load(environment, std::string(key.op().name), key.text(), check);
  return file ? resolution(std::move(*configs), Source::tuned) : nullptr;
}

std::optional<ConfigPair> Tuner::usable_shipped(const std::string &name, std::string_view text, const AutotuneKey &key,
                                                std::string_view environment, const DeviceLimits &limits) {
  std::string why;
  auto configs = usable_configs(text, key, environment, limits, why);
  if (!why.empty()) parts_.log.warn_once("shipped " + name, fmt::format("shipped entry {} is not used: {}", name, why));
  return configs;
}

Tuner::Found Tuner::find_shipped(const AutotuneKey &key, const cuda::DeviceInfo &device) {
  const std::string environment = device.environment();
  const auto it = parts_.configs.find(shipped_name(environment, key));
  if (it == parts_.configs.end()) return nullptr;
  auto configs = usable_shipped(it->first, it->second, key, environment, device.limits);
  return configs ? resolution(std::move(*configs), Source::shipped) : nullptr;
}

// Null where only a sweep can tell.
Tuner::Found Tuner::find_or_fall_back(const AutotuneKey &key, const cuda::DeviceInfo &device) {
  const TuneMode mode = parts_.settings.tune;
  if (mode != TuneMode::off) {
    if (auto tuned = find_tuned(key, device)) return tuned;
    if (auto shipped = find_shipped(key, device)) return shipped;
    if (mode == TuneMode::on) return nullptr;
  }
  return resolution(default_configs(space(key.op()), key, device.limits), Source::fallback);
}

std::shared_ptr<const Resolution> Tuner::resolve(const AutotuneKey &key, const cuda::DeviceInfo &device, Timer &timer,
                                                 bool may_sweep) {
  const std::string name = fmt::format("{}/{}/{}", device.environment(), key.op().name, key.text());
  bool swept = false;
  Found found = resolved_.find(name);
  if (!found && may_sweep) {
    found = resolved_.get_or_make(name, [&] {
      Found known = find_or_fall_back(key, device);
      return known ? known : sweep_or_default(key, device, timer, swept);
    });
  } else if (!found) {
    found = find_or_fall_back(key, device);
    if (!found) {
      throw_error(MSJ_ERROR_COLD, "no tile config of {} is tuned for {} on {}, and a sweep is not allowed now",
                  key.op().name, key.text(), device.environment());
    }
  }
  if (!swept && found->source != Source::fallback) ++parts_.counters.autotune_hits;
  return found;
}

// ---- sweeping -----------------------------------------------------------------------------------------------------

// Where a sweep is impossible (no NVRTC beside a baked cache, no room beside a big index), the default config runs.
Tuner::Found Tuner::sweep_or_default(const AutotuneKey &key, const cuda::DeviceInfo &device, Timer &timer,
                                     bool &swept) {
  try {
    return sweep_or_wait(key, device, timer, swept);
  } catch (const Error &error) {
    if (error.status() != MSJ_ERROR_NO_NVRTC && error.status() != MSJ_ERROR_OUT_OF_MEMORY) throw;
    parts_.log.warn(fmt::format("{} is not tuned for {} ({}); the default config is used", key.op().name, key.text(),
                                error.what()));
  }
  return resolution(default_configs(space(key.op()), key, device.limits), Source::fallback);
}

Tuner::Found Tuner::sweep_or_wait(const AutotuneKey &key, const cuda::DeviceInfo &device, Timer &timer, bool &swept) {
  (void)default_configs(space(key.op()), key, device.limits);  // throws if a class has no candidate at all
  Admission admission = admit(space(key.op()), key, device.limits);
  const std::size_t not_admitted = admission.rejected.size();
  const auto trials = compile_trials(key, key.op().representative_features, device.architecture, admission,
                                     parts_.specializer, parts_.progress);
  for (std::size_t i = not_admitted; i < admission.rejected.size(); ++i) {
    const Rejected &rejected = admission.rejected[i];
    parts_.log.warn(fmt::format("candidate {} of {} ({}) is left out: {}", to_string(rejected.config), key.op().name,
                                name(rejected.layout), rejected.reason));
  }
  const GpuTurn turn(*this, device.uuid);
  // Whoever had the GPU before may have swept the same key.
  if (auto tuned = find_tuned(key, device)) return tuned;
  const Entry entry = time_candidates(key, device, admission, trials, timer);
  swept = true;
  entries_.save({entry.environment, entry.op, key.text(), to_json(entry, key), {}});
  return resolution(entry.configs, Source::tuned);
}

Entry Tuner::time_candidates(const AutotuneKey &key, const cuda::DeviceInfo &device, const Admission &admission,
                             std::span<const Trial> trials, Timer &timer) {
  const SweepProblem problem = {.op = &key.op(),
                                .sizes = buckets_.representative(key.bucket(), key.dtypes().all()),
                                .static_sizes = key.bucket().static_sizes(),
                                .dtypes = key.dtypes(),
                                .features = key.op().representative_features,
                                .sm_count = device.limits.sm_count,
                                .l2_bytes = device.limits.l2_bytes};
  const auto total = static_cast<std::int64_t>(trials.size());
  report(0, total);
  Entry entry = sweep(key, problem, admission, trials, timer);
  report(total, total);
  ++parts_.counters.sweeps;
  parts_.counters.candidates_timed +=
      std::count_if(entry.candidates.begin(), entry.candidates.end(),
                    [](const CandidateRecord &record) { return record.rejected.empty(); });
  entry.environment = device.environment();
  entry.provenance = provenance(key, device, trials);
  parts_.log.info(fmt::format("swept {} candidates of {} for {}: {}; any layout: {}", total, entry.op, key.text(),
                              to_string(entry.configs.config), to_string(entry.configs.config_any)));
  return entry;
}

Provenance Tuner::provenance(const AutotuneKey &key, const cuda::DeviceInfo &device, std::span<const Trial> trials) {
  Provenance provenance;
  provenance.driver_version = device.driver_version;
  // The one at hand, loaded for this if it was not: an entry must not depend on what the cubin cache held.
  try {
    provenance.nvrtc_version = parts_.nvrtc.get()->version();
  } catch (const Error &) {
    provenance.nvrtc_version.clear();  // every candidate came from the cache, and there is no NVRTC here
  }
  provenance.library_version = library_version();
  std::set<std::string> paths;
  for (const Trial &trial : trials) paths.insert(trial.config.path);
  std::string sources;
  for (const std::string &path : paths) {
    sources += parts_.specializer.sources().expanded(fmt::format("{}.{}.cu", key.op().name, path));
  }
  provenance.source_hash = hash_name(sources);
  provenance.date = parts_.now();
  return provenance;
}

Tuner::MeasuredCandidates Tuner::measure(const AutotuneKey &key, const MeasuredCall &call,
                                         const cuda::DeviceInfo &device, Timer &timer) {
  Admission admission = admit(space(key.op()), key, device.limits);
  std::erase_if(admission.admitted, [&](const Admitted &pair) { return pair.layout != call.layout; });
  std::erase_if(admission.rejected, [&](const Rejected &rejected) { return rejected.layout != call.layout; });
  const auto trials =
      compile_trials(key, call.features, device.architecture, admission, parts_.specializer, parts_.progress);
  // Without ceilings the candidates' times are worth as much.
  const auto or_warn = [&](const auto &step) {
    try {
      step();
    } catch (const std::exception &error) {
      parts_.log.warn(fmt::format("the ceilings of {} are not timed: {}", key.op().name, error.what()));
    }
  };
  std::shared_ptr<const jit::Cubin> cubin;
  if (call.ceilings) {
    or_warn([&] { cubin = parts_.specializer.cubin_of_file(std::string(kCeilingsSource), device.architecture); });
  }
  const GpuTurn turn(*this, device.uuid);
  const SweepProblem problem = {.op = &key.op(),
                                .sizes = call.sizes,
                                .static_sizes = key.bucket().static_sizes(),
                                .dtypes = key.dtypes(),
                                .features = call.features,
                                .sm_count = device.limits.sm_count,
                                .l2_bytes = device.limits.l2_bytes,
                                .compute_capability = device.architecture.compute_capability,
                                .measuring = call.measuring};
  MeasuredCandidates measured{time_trials(problem, trials, timer), {}};
  if (cubin) or_warn([&] { measured.ceilings = timer.ceilings(problem, cubin->bytes); });
  for (const Rejected &rejected : admission.rejected) {
    measured.candidates.push_back({rejected.config, rejected.layout, {}, rejected.reason});
  }
  return measured;
}

void Tuner::report(std::int64_t done, std::int64_t total) {
  if (parts_.progress) parts_.progress("sweep", done, total);
}

// ---- shipped ------------------------------------------------------------------------------------------------------

std::vector<ConfigPair> Tuner::ahead_of_time(const AutotuneKey &key, const cuda::Architecture &architecture,
                                             std::string_view gpu) {
  std::vector<ConfigPair> pairs = {default_configs(space(key.op()), key, architecture.limits)};
  if (parts_.settings.tune == TuneMode::off) return pairs;  // as a call would: no entry is looked up
  bool is_known = gpu.empty();
  for (const auto &[name, text] : shipped_entries(parts_.configs)) {
    const std::string_view below = std::string_view(name).substr(kShipped.size());
    const std::string environment(below.substr(0, below.find('/')));
    is_known |= is_environment_of(environment, architecture, gpu);
    if (name != shipped_name(environment, key) || !is_environment_of(environment, architecture, gpu)) continue;
    const auto configs = usable_shipped(name, text, key, environment, architecture.limits);
    if (configs && std::find(pairs.begin(), pairs.end(), *configs) == pairs.end()) pairs.push_back(*configs);
  }
  if (!is_known) {
    parts_.log.warn_once(fmt::format("gpu {}", gpu),
                         fmt::format("no entry is shipped for a GPU '{}' of {}: only default configs are compiled",
                                     shortened(gpu), architecture.name));
  }
  return pairs;
}

ConfigTexts shipped_entries(const ConfigTexts &configs) {
  ConfigTexts shipped;
  for (const auto &[name, text] : configs) {
    if (name.starts_with(kShipped)) shipped.emplace(name, text);
  }
  return shipped;
}

}  // namespace msj::tune
