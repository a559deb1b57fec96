// `cache path|verify|clear`: where the cache is, whether every file in it can be trusted, and how to be rid of it.
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <memory>

#include "cli/commands.h"
#include "cli/failure.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/words.h"

namespace msj::cli {
namespace {

struct CacheOptions {
  bool json = false;
  std::int32_t action = MSJ_CACHE_PATH;
};

// The path's own bytes, which JSON can't hold if they are no UTF-8.
std::string bytes_of_path(const Json &layer) {
  const std::string hex = layer.value("path_hex", "");
  if (hex.empty()) return layer.at("path").get<std::string>();
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    unsigned byte = 0;
    std::from_chars(&hex[i], &hex[i] + 2, byte, 16);
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

// One path a line, the writable layer first: as it is, so that scripts can use it, but to a terminal nothing that it
// would obey.
std::string path_text(const Json &document) {
  const bool to_terminal = ::isatty(STDOUT_FILENO) == 1;
  std::string text;
  for (const Json &layer : document.at("layers")) {
    const std::string path = bytes_of_path(layer);
    text += fmt::format("{}{}\n", to_terminal ? printable(path) : path,
                        layer.value("writable", false) ? "" : " (read-only)");
  }
  return text;
}

std::string verify_text(const Json &document) {
  std::string text;
  for (const Json &problem : document.at("problems")) {
    text += fmt::format("{}: {}\n", printable(problem.at("path").get<std::string>()),
                        printable(problem.at("problem").get<std::string>()));
  }
  return text + fmt::format("files: {}, problems: {}\n", document.value("files", 0), document.at("problems").size());
}

std::string clear_text(const Json &document) {
  std::string text;
  for (const Json &left : document.at("problems")) {
    text += fmt::format("{}: not removed: {}\n", printable(left.at("path").get<std::string>()),
                        printable(left.at("problem").get<std::string>()));
  }
  return text + fmt::format("removed files: {}\n", document.at("removed").size());
}

int run_cache(const CacheOptions &options, Console &console) {
  const maxsim_jit::Context context = make_context(console);
  const Json document = parse_library_json(context.cache(options.action));
  const bool verify = options.action == MSJ_CACHE_VERIFY;
  if (document.at("layers").empty()) {
    failure("there is no cache directory: set MAXSIM_JIT_CACHE_DIR, or HOME to an absolute path");
  }
  if (options.json) {
    print_json(document);
  } else if (verify) {
    print_text(verify_text(document));
  } else {
    print_text(options.action == MSJ_CACHE_CLEAR ? clear_text(document) : path_text(document));
  }
  return document.value("problems", Json::array()).empty() ? kExitOk : kExitFailed;
}

}  // namespace

Command add_cache(CLI::App &app, Console &console) {
  auto options = std::make_shared<CacheOptions>();
  CLI::App *command = app.add_subcommand("cache", "The cache on disk: where it is, whether it is sound, clearing it");
  command->require_subcommand(1);
  const auto add_action = [&](const char *name, const char *what, std::int32_t action) {
    CLI::App *sub = command->add_subcommand(name, what);
    sub->add_flag("--json", options->json, "one JSON object on stdout (maxsim-jit/cache/1)");
    sub->callback([options, action] { options->action = action; });
  };
  add_action("path", "print the cache's directories, the writable one first", MSJ_CACHE_PATH);
  add_action("verify", "check every file; exit 1 if one is no valid entry or cubin", MSJ_CACHE_VERIFY);
  add_action("clear", "remove every entry and cubin from the writable directory", MSJ_CACHE_CLEAR);
  return {command, [options, &console] { return run_cache(*options, console); }};
}

}  // namespace msj::cli
