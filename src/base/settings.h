// The environment, read once per context with secure_getenv, merged under the caller's options.
//
// A variable that is set but empty counts as unset. The cache's layers are "rw" or "rw:ro1:ro2": a relative one is
// taken from the working directory of this moment and made absolute; an empty rw (":ro1") means that nothing is
// written; empty read-only parts are skipped.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace msj {

enum class TuneMode : std::uint8_t {
  on,      // sweep when cold
  cached,  // only cached and shipped entries, else the default config
  off,     // always the default config
};

struct Settings {
  std::string cache_dir;                    // writable layer, absolute; "": none
  std::string cache_dir_problem;            // why there is none although one was wanted (no HOME): one sentence
  std::string home;                         // of a cache_dir in the home directory: never created; else ""
  std::vector<std::string> read_only_dirs;  // below it, in order
  TuneMode tune = TuneMode::on;
  std::string libcuda;     // MAXSIM_JIT_LIBCUDA: a path, or "" for the usual places
  std::string libnvrtc;    // MAXSIM_JIT_LIBNVRTC
  std::string kernel_dir;  // MAXSIM_JIT_KERNEL_DIR: sources from disk; "" for those embedded
  std::string log_level;   // MAXSIM_JIT_LOG: off, error, warn, info, debug; "": the default
  std::int64_t cache_limit_bytes = std::int64_t{1} << 30;  // MAXSIM_JIT_CACHE_LIMIT_MB
  double lock_timeout_seconds = 120;                       // MAXSIM_JIT_LOCK_TIMEOUT
};

using GetEnv = std::function<const char *(const char *)>;

// Throws Error(MSJ_ERROR_INVALID_ARGUMENT) for a variable whose value is not accepted. The options override.
[[nodiscard]] Settings read_settings(const GetEnv &get_env, const char *cache_dir_option, const char *tune_option);
[[nodiscard]] const char *secure_environment(const char *variable);  // secure_getenv

}  // namespace msj
