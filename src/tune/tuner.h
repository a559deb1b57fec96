// Key + device → the pair of configs to launch, from memory, disk, shipped entries, a sweep or the default.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/counters.h"
#include "base/lazy.h"
#include "base/log.h"
#include "base/once_map.h"
#include "base/settings.h"
#include "cuda/device.h"
#include "cuda/nvrtc.h"
#include "jit/specializer.h"
#include "store/entry_store.h"
#include "tune/bucket.h"
#include "tune/embedded_configs.h"
#include "tune/entry.h"
#include "tune/space.h"
#include "tune/sweep.h"
#include "tune/timer.h"

namespace msj::tune {

enum class Source : std::uint8_t { tuned, shipped, fallback };  // fallback: the default config

struct Resolution {
  ConfigPair configs;
  Source source = Source::fallback;
};

class Tuner {
 public:
  struct Parts {
    const Settings &settings;
    store::CacheRoot &root;
    jit::Specializer &specializer;
    Lazy<cuda::Nvrtc> &nvrtc;
    Counters &counters;
    Log &log;
    Progress progress;
    std::function<std::string()> now;  // ISO date of new entries
    const ConfigTexts &configs = embedded_configs();
  };
  explicit Tuner(Parts parts);

  // May sweep (settings: tune = on). One sweep per key in this process and one per GPU at a time across processes. The
  // CUDA context to sweep in is current. Throws Error(MSJ_ERROR_COLD) if it would have to sweep and `may_sweep` is
  // false; then it waits for no other thread's sweep either.
  [[nodiscard]] std::shared_ptr<const Resolution> resolve(const AutotuneKey &key, const cuda::DeviceInfo &device,
                                                          Timer &timer, bool may_sweep);

  // Without a device: the default pair and the distinct pairs of every entry shipped for this architecture (and GPU).
  [[nodiscard]] std::vector<ConfigPair> ahead_of_time(const AutotuneKey &key, const cuda::Architecture &architecture,
                                                      std::string_view gpu);

  // Every candidate of one layout class on these very sizes with these features, whatever the bucket's sweep said:
  // compiles what is not cached, counts as no sweep and leaves no entry. The CUDA context to work in is current.
  struct MeasuredCall {
    Sizes sizes{};
    FeatureSet features = 0;
    Layout layout = Layout::aligned16;
    Measuring measuring;
    bool ceilings = false;  // whether they are timed too
  };
  struct MeasuredCandidates {
    std::vector<CandidateRecord> candidates;
    std::optional<Ceilings> ceilings;  // absent, with a warning, where they were wanted and could not be timed
  };
  [[nodiscard]] MeasuredCandidates measure(const AutotuneKey &key, const MeasuredCall &call,
                                           const cuda::DeviceInfo &device, Timer &timer);

  [[nodiscard]] const BucketRules &buckets() const { return buckets_; }
  [[nodiscard]] const CandidateSpace &space(const OpSpec &op);
  [[nodiscard]] store::EntryStore &entries() { return entries_; }

 private:
  using Found = std::shared_ptr<const Resolution>;

  // Null: none that can be used.
  [[nodiscard]] Found find_tuned(const AutotuneKey &key, const cuda::DeviceInfo &device);
  [[nodiscard]] Found find_shipped(const AutotuneKey &key, const cuda::DeviceInfo &device);
  [[nodiscard]] Found find_or_fall_back(const AutotuneKey &key, const cuda::DeviceInfo &device);
  // nullopt with one sentence in `why`, which is "" for an entry of another bucket version or tuning epoch, and for one
  // of another version of the library whose configs are no candidates of this one: nothing to warn of.
  [[nodiscard]] std::optional<ConfigPair> usable_configs(std::string_view text, const AutotuneKey &key,
                                                         std::string_view environment, const DeviceLimits &limits,
                                                         std::string &why);
  [[nodiscard]] std::optional<ConfigPair> usable_shipped(const std::string &name, std::string_view text,
                                                         const AutotuneKey &key, std::string_view environment,
                                                         const DeviceLimits &limits);
  [[nodiscard]] Found sweep_or_default(const AutotuneKey &key, const cuda::DeviceInfo &device, Timer &timer,
                                       bool &swept);
  [[nodiscard]] Found sweep_or_wait(const AutotuneKey &key, const cuda::DeviceInfo &device, Timer &timer, bool &swept);
  [[nodiscard]] Entry time_candidates(const AutotuneKey &key, const cuda::DeviceInfo &device,
                                      const Admission &admission, std::span<const Trial> trials, Timer &timer);
  [[nodiscard]] Provenance provenance(const AutotuneKey &key, const cuda::DeviceInfo &device,
                                      std::span<const Trial> trials);
  void report(std::int64_t done, std::int64_t total);

  // Holds a GPU against other sweeps: the lock file, or where there can be none, other threads of this Tuner.
  class GpuTurn;
  [[nodiscard]] std::timed_mutex &turn_of(const std::string &uuid);

  Parts parts_;
  BucketRules buckets_;
  store::EntryStore entries_;
  OnceMap<CandidateSpace> spaces_;
  OnceMap<Resolution> resolved_;
  std::mutex turns_mutex_;
  std::map<std::string, std::timed_mutex> turns_;
};

// Shipped entries: configs/tuned/<environment>/<op>/<key>.json, embedded at build. name → text.
[[nodiscard]] ConfigTexts shipped_entries(const ConfigTexts &configs = embedded_configs());

}  // namespace msj::tune
