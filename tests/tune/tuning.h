// A tuner and what it stands on, as a context would hold them: real NVRTC, real files, toy kernels, a known date.
#pragma once

#include <doctest/doctest.h>

#include <mutex>
#include <string>
#include <vector>

#include "cuda/device.h"
#include "fake_timer.h"
#include "store/cache_root.h"
#include "toy_op.h"
#include "tune/tuner.h"

namespace msj::testing {

[[nodiscard]] inline cuda::DeviceInfo toy_device() {
  cuda::DeviceInfo device;
  device.name = "NVIDIA H200";
  device.uuid = "0123456789abcdef";
  device.architecture = cuda::parse_architecture("sm_90a");
  device.limits = h200_limits();
  device.driver_version = 13000;
  return device;
}

class Tuning {
 public:
  struct Options {
    std::string cache;
    std::string kernels;
    TuneMode tune = TuneMode::on;
    std::vector<std::string> read_only = {};
    double lock_timeout = 60;
    tune::ConfigTexts configs = toy_configs();
    std::string date = "2026-01-02T03:04:05Z";
    std::string libnvrtc = {};
  };

  explicit Tuning(Options options)
      : options_(std::move(options)),
        settings_(settings_of(options_)),
        root(settings_, store::real_files(), log),
        nvrtc([this] { return cuda::Nvrtc::load(settings_); }),
        specializer(settings_, root, nvrtc, counters, log),
        tuner({settings_, root, specializer, nvrtc, counters, log,
               [this](const char *what, std::int64_t done, std::int64_t total) { note(what, done, total); },
               [this] { return options_.date; }, options_.configs}) {}

  [[nodiscard]] tune::Resolution resolve(const tune::AutotuneKey &key, tune::Timer &timer, bool may_sweep = true,
                                         const cuda::DeviceInfo &device = toy_device()) {
    return *tuner.resolve(key, device, timer, may_sweep);
  }
  [[nodiscard]] std::vector<std::string> warnings() {
    const std::scoped_lock lock(mutex_);
    return warnings_;
  }
  [[nodiscard]] std::string entry_text() const {
    const auto files = entry_files(options_.cache);
    REQUIRE(files.size() == 1);
    return read_text(files.front());
  }

 private:
  static Settings settings_of(const Options &options) {
    Settings settings;
    settings.cache_dir = options.cache;
    settings.read_only_dirs = options.read_only;
    settings.kernel_dir = options.kernels;
    settings.tune = options.tune;
    settings.lock_timeout_seconds = options.lock_timeout;
    settings.libnvrtc = options.libnvrtc;
    return settings;
  }
  static void remember(void *self, std::int32_t level, const char *message) {
    auto &tuning = *static_cast<Tuning *>(self);
    const std::scoped_lock lock(tuning.mutex_);
    if (level <= MSJ_LOG_WARNING) tuning.warnings_.emplace_back(message);
  }
  void note(const char *what, std::int64_t done, std::int64_t total) {
    const std::scoped_lock lock(mutex_);
    progress.push_back(fmt::format("{} {}/{}", what, done, total));
  }

  std::mutex mutex_;
  std::vector<std::string> warnings_;
  Options options_;
  Settings settings_;

 public:
  std::vector<std::string> progress;
  Log log{"", &Tuning::remember, this};
  Counters counters;
  store::CacheRoot root;
  Lazy<cuda::Nvrtc> nvrtc;
  jit::Specializer specializer;
  tune::Tuner tuner;
};

}  // namespace msj::testing
