#include "api/context.h"

#include "base/settings.h"

namespace {

msj::tune::Progress serialized(const msj_context_options &options, std::mutex &mutex) {
  if (options.progress == nullptr) return [](const char *, std::int64_t, std::int64_t) {};
  return [callback = options.progress, user = options.progress_user, &mutex](const char *what, std::int64_t done,
                                                                             std::int64_t total) {
    const std::scoped_lock lock(mutex);
    callback(user, what, done, total);
  };
}

std::string log_level() {
  const char *level = msj::secure_environment("MAXSIM_JIT_LOG");
  return level == nullptr ? "" : level;
}

}  // namespace

msj_context::msj_context(const msj_context_options &options, msj::ops::World world)
    : log(log_level(), options.log, options.log_user),
      pipeline(msj::read_settings(msj::secure_environment, options.cache_dir, options.tune), log,
               serialized(options, progress_mutex), std::move(world)) {}
