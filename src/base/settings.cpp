#include "base/settings.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "text/path_limit.h"
#include "text/printable.h"

namespace msj {

namespace {

// Where a value came from, for the sentence that refuses it.
struct Value {
  std::string_view source;
  std::string text;  // "": not given
};

// What is no path at all is not handed on, to be repeated by whoever can't use it.
std::string checked_path(std::string_view source, std::string path) {
  if (path.size() <= kMostPathBytes) return path;
  throw_error(MSJ_ERROR_INVALID_ARGUMENT, "{} is {}; a path of at most {} bytes is accepted", source, in_quotes(path),
              kMostPathBytes);
}

class Environment {
 public:
  explicit Environment(const GetEnv &get_env) : get_env_(get_env) {}

  [[nodiscard]] std::string text(const char *variable) const {
    const char *value = get_env_(variable);
    return value == nullptr ? "" : value;
  }
  [[nodiscard]] std::string path(const char *variable) const { return checked_path(variable, text(variable)); }
  // The option of msj_context_options, or else the variable.
  [[nodiscard]] Value under(const char *option, std::string_view option_name, const char *variable) const {
    if (option != nullptr && *option != '\0') return {option_name, option};
    return {variable, text(variable)};
  }

 private:
  const GetEnv &get_env_;
};

std::string absolute(const Value &value, const std::string &path) {
  if (path.starts_with('/')) return path;
  std::error_code error;
  const std::filesystem::path here = std::filesystem::current_path(error);
  if (error) {
    throw_error(MSJ_ERROR_INVALID_ARGUMENT,
                "{} is {}, with a relative directory, and the working directory can't be read: {}; an absolute "
                "directory is accepted",
                value.source, in_quotes(value.text), error.message());
  }
  return (here / path).string();
}

void read_layers(const Value &value, Settings &settings) {
  std::string_view rest = value.text;
  for (bool first = true;; first = false) {
    const std::size_t colon = rest.find(':');
    const std::string part(rest.substr(0, colon));
    if (!part.empty()) {
      std::string directory = checked_path(value.source, absolute(value, part));
      if (first) {
        settings.cache_dir = std::move(directory);
      } else {
        settings.read_only_dirs.push_back(std::move(directory));
      }
    }
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  // Two unset variables of a script, and no cache that anybody asked for.
  if (settings.cache_dir.empty() && settings.read_only_dirs.empty()) {
    throw_error(MSJ_ERROR_INVALID_ARGUMENT,
                "{} is {}, which names no directory; \"rw\", \"rw:ro\" or \":ro\" is accepted", value.source,
                in_quotes(value.text));
  }
}

// The XDG base directory specification: a relative XDG_CACHE_HOME is invalid and ignored.
void default_layer(const Environment &environment, Settings &settings) {
  const std::string xdg = environment.text("XDG_CACHE_HOME");
  const std::string home = environment.text("HOME");
  const auto too_long = [&](std::string_view variable, const std::string &text) {
    settings.cache_dir_problem = fmt::format("no cache directory: {} is {}; a path of at most {} bytes is accepted",
                                             variable, in_quotes(text), kMostPathBytes);
  };
  if (xdg.size() > kMostPathBytes) {
    too_long("XDG_CACHE_HOME", xdg);
  } else if (xdg.starts_with('/')) {
    settings.cache_dir = xdg + "/maxsim-jit";
  } else if (home.size() > kMostPathBytes) {
    too_long("HOME", home);
  } else if (home.starts_with('/')) {
    settings.home = home;
    settings.cache_dir = home + "/.cache/maxsim-jit";
  } else {
    settings.cache_dir_problem = fmt::format(
        "no cache directory: HOME is {}; set MAXSIM_JIT_CACHE_DIR, XDG_CACHE_HOME or HOME to an absolute directory",
        home.empty() ? "not set" : in_quotes(home));
  }
}

TuneMode tune_mode(const Value &value) {
  if (value.text.empty() || value.text == "on") return TuneMode::on;
  if (value.text == "cached") return TuneMode::cached;
  if (value.text == "off") return TuneMode::off;
  throw_error(MSJ_ERROR_INVALID_ARGUMENT, "{} is {}; \"on\", \"cached\" or \"off\" is accepted", value.source,
              in_quotes(value.text));
}

std::string log_level(const std::string &text) {
  constexpr std::array<std::string_view, 6> kLevels = {"", "off", "error", "warn", "info", "debug"};
  for (const std::string_view level : kLevels) {
    if (text == level) return text;
  }
  throw_error(MSJ_ERROR_INVALID_ARGUMENT,
              "MAXSIM_JIT_LOG is {}; \"off\", \"error\", \"warn\", \"info\" or \"debug\" is accepted", in_quotes(text));
}

// A number within [least, most], in any locale; `fallback` where the variable is not set.
template <typename Number>
Number number(const Environment &environment, const char *variable, Number fallback, Number least, Number most) {
  const std::string text = environment.text(variable);
  if (text.empty()) return fallback;
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // Negated, so that a NaN is refused too.
  if (error != std::errc() || end != text.data() + text.size() || !(value >= least && value <= most)) {
    throw_error(MSJ_ERROR_INVALID_ARGUMENT, "{} is {}; a number from {} to {} is accepted", variable, in_quotes(text),
                least, most);
  }
  return value;
}

}  // namespace

Settings read_settings(const GetEnv &get_env, const char *cache_dir_option, const char *tune_option) {
  const Environment environment(get_env);
  Settings settings;
  const Value layers = environment.under(cache_dir_option, "msj_context_options.cache_dir", "MAXSIM_JIT_CACHE_DIR");
  if (layers.text.empty()) {
    default_layer(environment, settings);
  } else {
    read_layers(layers, settings);
  }
  settings.tune = tune_mode(environment.under(tune_option, "msj_context_options.tune", "MAXSIM_JIT_TUNE"));
  settings.libcuda = environment.path("MAXSIM_JIT_LIBCUDA");
  settings.libnvrtc = environment.path("MAXSIM_JIT_LIBNVRTC");
  settings.kernel_dir = environment.path("MAXSIM_JIT_KERNEL_DIR");
  settings.log_level = log_level(environment.text("MAXSIM_JIT_LOG"));
  constexpr std::int64_t kMegabyte = std::int64_t{1} << 20;
  settings.cache_limit_bytes =
      kMegabyte * number<std::int64_t>(environment, "MAXSIM_JIT_CACHE_LIMIT_MB", settings.cache_limit_bytes / kMegabyte,
                                       1, 1'000'000'000);
  settings.lock_timeout_seconds =
      number<double>(environment, "MAXSIM_JIT_LOCK_TIMEOUT", settings.lock_timeout_seconds, 0, 86'400);
  return settings;
}

const char *secure_environment(const char *variable) { return ::secure_getenv(variable); }

}  // namespace msj
