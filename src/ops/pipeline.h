// The one pipeline that runs every op: bind → key → tune → specialize → load → launch. A context owns one.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/counters.h"
#include "base/lazy.h"
#include "base/log.h"
#include "base/once_map.h"
#include "base/settings.h"
#include "cuda/current_context.h"
#include "cuda/device.h"
#include "cuda/driver.h"
#include "cuda/nvrtc.h"
#include "cuda/tensor_map.h"
#include "jit/specializer.h"
#include "ops/ready_table.h"
#include "store/cache_root.h"
#include "tune/timer.h"
#include "tune/tuner.h"

namespace msj::ops {

// The parts of the world that tests replace; each has a real default.
struct World {
  std::shared_ptr<store::Files> files;
  std::function<std::unique_ptr<tune::Timer>(std::shared_ptr<const cuda::Driver>, Log &)> make_timer;
  std::function<std::string()> now;
};

// Where and with what a call runs.
struct LaunchSite {
  int device = 0;
  void *stream = nullptr;
  void *workspace = nullptr;
  std::size_t workspace_size = 0;
  const Ready *plan = nullptr;
};

class Pipeline {
 public:
  Pipeline(Settings settings, Log &log, tune::Progress progress, World world);
  ~Pipeline();
  Pipeline(const Pipeline &) = delete;
  Pipeline &operator=(const Pipeline &) = delete;

  void run(const BoundCall &call, const LaunchSite &site);
  // Ready to launch on `site`, for the call's layout; compiles, tunes and loads as needed.
  const Ready *prepare(const BoundCall &call, const LaunchSite &site);
  // Every candidate timed for this very call, on scratch operands; beside them what the call launches.
  struct MeasureWish {
    bool ceilings = false;
    int least_rounds = 0;  // 0: as a sweep
  };
  struct Measurement {
    tune::AutotuneKey key;
    TileConfig config;  // that of the call's layout class
    tune::Source source = tune::Source::fallback;
    std::string environment;
    tune::Tuner::MeasuredCandidates measured;
  };
  [[nodiscard]] Measurement measure(const BoundCall &call, const LaunchSite &site, const MeasureWish &wish);
  // Without a device: compiles into the cache what a device of this architecture would start with.
  void prepare_ahead(const BoundCall &call, const cuda::Architecture &architecture, std::string_view gpu);
  [[nodiscard]] std::size_t workspace_size(const BoundCall &call, int device);

  void freeze(bool frozen) { frozen_.store(frozen); }
  [[nodiscard]] Counters &counters() { return counters_; }
  [[nodiscard]] const Settings &settings() const { return settings_; }
  [[nodiscard]] store::CacheRoot &root() { return root_; }
  [[nodiscard]] jit::Specializer &specializer() { return specializer_; }
  [[nodiscard]] tune::Tuner &tuner() { return tuner_; }
  // Opens libcuda or libnvrtc on first use; throws what their load() throws.
  [[nodiscard]] std::shared_ptr<const cuda::Driver> driver() { return gpu().driver; }
  [[nodiscard]] std::shared_ptr<const cuda::Nvrtc> nvrtc() { return nvrtc_.get(); }
  [[nodiscard]] const cuda::DeviceInfo &device(int ordinal);
  [[nodiscard]] CUcontext primary_context(int ordinal) { return gpu().primaries.of(ordinal); }

 private:
  // The driver and what hangs on it, made on first use and then read without a lock.
  struct Gpu {
    explicit Gpu(std::shared_ptr<const cuda::Driver> loaded)
        : driver(loaded), primaries(loaded), tensor_maps(std::move(loaded)) {}
    std::shared_ptr<const cuda::Driver> driver;
    cuda::PrimaryContexts primaries;
    cuda::TensorMapCache tensor_maps;
  };
  [[nodiscard]] Gpu &gpu();

  [[nodiscard]] tune::ShapeBucket bucket(const BoundCall &call) const;
  [[nodiscard]] LaunchKey launch_key(const BoundCall &call, std::uint64_t context_id, int device) const;
  void check_plan_of_empty(const BoundCall &call, const LaunchSite &site) const;
  [[nodiscard]] const Ready *warm_up(const BoundCall &call, const LaunchKey &key, const cuda::CallContext &context,
                                     const LaunchSite &site);
  [[nodiscard]] std::shared_ptr<const Ready> make_ready(const BoundCall &call, const LaunchKey &key);
  // Fills in the module and every entry of the path; a cubin that does not load is built again, once.
  void load(Ready &ready, const jit::Specialization &specialization, const LaunchList &list);
  void load_from(Ready &ready, const jit::Cubin &cubin, const LaunchList &list);
  [[nodiscard]] jit::Specialization specialize(const BoundCall &call, const TileConfig &config,
                                               const cuda::Architecture &architecture) const;
  void launch(const BoundCall &call, const Ready &ready, const LaunchSite &site, CUcontext context);
  [[nodiscard]] tune::AutotuneKey autotune_key(const BoundCall &call) const;

  Settings settings_;
  Log &log_;
  World world_;
  Counters counters_;
  std::atomic<bool> frozen_{false};
  store::CacheRoot root_;
  Lazy<cuda::Nvrtc> nvrtc_;
  jit::Specializer specializer_;
  tune::Tuner tuner_;
  std::mutex gpu_mutex_;
  std::unique_ptr<Gpu> gpu_owner_;
  std::atomic<Gpu *> gpu_{nullptr};
  std::mutex devices_mutex_;
  std::map<int, std::unique_ptr<const cuda::DeviceInfo>> devices_;
  OnceMap<cuda::Module> modules_;  // by cubin hash
  OnceMap<Ready> warming_;         // one creator per launch key; the table below holds what came of it
  ReadyTable ready_;
  std::vector<std::pair<const OpSpec *, tune::OpBuckets>> buckets_;  // of every op
};

}  // namespace msj::ops
