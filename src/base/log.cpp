#include "base/log.h"

#include "base/float_environment.h"
#include "text/printable.h"

#ifndef SPDLOG_FMT_EXTERNAL
#define SPDLOG_FMT_EXTERNAL
#endif
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

namespace msj {

namespace {

spdlog::level::level_enum spdlog_level(int level) {
  switch (level) {
    case MSJ_LOG_ERROR:
      return spdlog::level::err;
    case MSJ_LOG_WARNING:
      return spdlog::level::warn;
    case MSJ_LOG_INFO:
      return spdlog::level::info;
    default:
      return spdlog::level::debug;
  }
}

std::int32_t abi_level(spdlog::level::level_enum level) {
  if (level >= spdlog::level::err) return MSJ_LOG_ERROR;
  if (level == spdlog::level::warn) return MSJ_LOG_WARNING;
  return level == spdlog::level::info ? MSJ_LOG_INFO : MSJ_LOG_DEBUG;
}

// base_sink holds the mutex around sink_it_, so the callback sees one call at a time. Recursive, so that a callback
// that breaks the rule and logs again meets no deadlock here.
class CallbackSink : public spdlog::sinks::base_sink<std::recursive_mutex> {
 public:
  CallbackSink(msj_log_callback callback, void *user) : callback_(callback), user_(user) {}

 private:
  void sink_it_(const spdlog::details::log_msg &message) override {
    const std::string text(message.payload.data(), message.payload.size());
    const DefaultFloatEnvironment during;  // what the callback makes of it ends with the callback
    callback_(user_, abi_level(message.level), text.c_str());
  }
  void flush_() override {}

  msj_log_callback callback_;
  void *user_;
};

std::shared_ptr<spdlog::sinks::sink> make_sink(msj_log_callback callback, void *user) {
  if (callback != nullptr) return std::make_shared<CallbackSink>(callback, user);
  return std::make_shared<spdlog::sinks::stderr_sink_mt>();
}

spdlog::level::level_enum threshold(std::string_view level, bool callback) {
  if (level == "debug") return spdlog::level::debug;
  if (level == "info") return spdlog::level::info;
  if (level == "warn") return spdlog::level::warn;
  if (level == "error") return spdlog::level::err;
  if (level == "off") return spdlog::level::off;
  return callback ? spdlog::level::info : spdlog::level::warn;
}

}  // namespace

// Made directly, not through spdlog's registry: two contexts, or a program with its own spdlog, share nothing.
struct Log::Sink {
  spdlog::logger logger;
};

Log::Log(std::string_view level, msj_log_callback callback, void *user)
    : sink_(new Sink{spdlog::logger("maxsim-jit", make_sink(callback, user))}) {
  sink_->logger.set_level(threshold(level, callback != nullptr));
  sink_->logger.set_pattern("%n: %l: %v");
  sink_->logger.flush_on(spdlog::level::warn);
}

Log::~Log() = default;

// On one line, whatever bytes a path in it has.
void Log::write(int level, std::string_view message) {
  const spdlog::level::level_enum wanted = spdlog_level(level);
  if (sink_->logger.should_log(wanted)) sink_->logger.log(wanted, printable(message));
}

void Log::once(int level, const std::string &key, std::string_view message) {
  {
    const std::scoped_lock lock(mutex_);
    if (!said_.insert(key).second) return;
  }
  write(level, message);
}

}  // namespace msj
