// Logging of one context: a private spdlog instance behind four functions, so that only log.cpp includes spdlog.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "maxsim_jit/maxsim_jit.h"

namespace msj {

class Log {
 public:
  // No callback: messages go to stderr. `level` is MAXSIM_JIT_LOG's value; "": info for a callback, else warn.
  Log(std::string_view level, msj_log_callback callback, void *user);
  ~Log();
  Log(const Log &) = delete;
  Log &operator=(const Log &) = delete;

  void error(std::string_view message) { write(MSJ_LOG_ERROR, message); }
  void warn(std::string_view message) { write(MSJ_LOG_WARNING, message); }
  void info(std::string_view message) { write(MSJ_LOG_INFO, message); }
  void debug(std::string_view message) { write(MSJ_LOG_DEBUG, message); }
  // What is said once per context for each `key`.
  void warn_once(const std::string &key, std::string_view message) { once(MSJ_LOG_WARNING, key, message); }
  void info_once(const std::string &key, std::string_view message) { once(MSJ_LOG_INFO, key, message); }

 private:
  void write(int level, std::string_view message);
  void once(int level, const std::string &key, std::string_view message);
  struct Sink;
  std::unique_ptr<Sink> sink_;
  std::mutex mutex_;
  std::set<std::string> said_;
};

}  // namespace msj
