#include "api/context.h"

#include "base/float_environment.h"
#include "base/settings.h"

namespace {

msj::tune::Progress serialized(const msj_context_options &options, std::mutex &mutex) {
  if (options.progress == nullptr) return [](const char *, std::int64_t, std::int64_t) {};
  return [callback = options.progress, user = options.progress_user, &mutex](const char *what, std::int64_t done,
                                                                             std::int64_t total) {
    const std::scoped_lock lock(mutex);
    const msj::DefaultFloatEnvironment during;  // what the callback makes of it ends with the callback
    callback(user, what, done, total);
  };
}

}  // namespace

msj_context::msj_context(const msj_context_options &options, msj::ops::World world)
    : settings(msj::read_settings(msj::secure_environment, options.cache_dir, options.tune)),
      log(settings.log_level, options.log, options.log_user),
      pipeline(settings, log, serialized(options, progress_mutex), std::move(world)) {}
