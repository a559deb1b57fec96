// `cache path|verify|prune|clear|export|import`: where the cache is, whether every file in it can be trusted, how to be
// rid of what is of no use or of all, and how to carry it elsewhere.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <memory>

#include "cli/commands.h"
#include "cli/failure.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/words.h"

namespace msj::cli {
namespace {

struct Action;

struct CacheOptions {
  bool json = false;
  const Action *action = nullptr;
  std::string file;
  std::string op;
  std::string arch;
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

std::string problems_text(const Json &document, std::string_view what) {
  std::string text;
  for (const Json &problem : document.at("problems")) {
    text += fmt::format("{}: {}: {}\n", printable(problem.at("path").get<std::string>()), what,
                        printable(problem.at("problem").get<std::string>()));
  }
  return text;
}

std::string clear_text(const Json &document) {
  return problems_text(document, "not removed") + fmt::format("removed files: {}\n", document.at("removed").size());
}

// Every compile leaves a lock behind, which the library takes away in time: a count says enough.
constexpr std::string_view kIdleLock = "is a lock that nobody holds";

std::string prune_text(const Json &document) {
  std::string text;
  std::size_t locks = 0;
  for (const Json &file : document.at("removed")) {
    if (file.at("reason") == kIdleLock) {
      ++locks;
      continue;
    }
    text += fmt::format("{}: removed: {}\n", printable(file.at("path").get<std::string>()),
                        printable(file.at("reason").get<std::string>()));
  }
  const Json &bytes = document.at("bytes");
  return text + problems_text(document, "not removed") +
         fmt::format("removed files: {}, idle locks: {}; bytes: {} before, {} now\n",
                     document.at("removed").size() - locks, locks, bytes.at("before").get<std::int64_t>(),
                     bytes.at("after").get<std::int64_t>());
}

std::string counts_text(const Json &document) {
  return fmt::format("entries: {}, cubins: {}, bytes: {}", document.at("entries").get<std::int64_t>(),
                     document.at("cubins").get<std::int64_t>(), document.at("bytes").get<std::int64_t>());
}

std::string export_text(const Json &document) { return fmt::format("exported {}\n", counts_text(document)); }

std::string import_text(const Json &document) {
  return problems_text(document, "refused") +
         fmt::format("imported {}; there already: {} the same, {} others, which stay; refused: {}\n",
                     counts_text(document), document.at("identical").get<std::int64_t>(),
                     document.at("kept").get<std::int64_t>(), document.at("problems").size());
}

struct Action {
  std::string_view name;
  const char *help;
  std::string (*json)(const CacheOptions &, const maxsim_jit::Context &);
  std::string (*text)(const Json &);  // for people
};

template <std::int32_t action>
std::string acted(const CacheOptions &, const maxsim_jit::Context &context) {
  return context.cache(action);
}

std::string exported(const CacheOptions &options, const maxsim_jit::Context &context) {
  return context.cache_export(options.file, options.op, options.arch);
}

std::string imported(const CacheOptions &options, const maxsim_jit::Context &context) {
  return context.cache_import(options.file);
}

constexpr std::string_view kPath = "path";
constexpr std::string_view kExport = "export";
constexpr std::string_view kImport = "import";
constexpr std::array kActions = {
    Action{kPath, "print the cache's directories, the writable one first", acted<MSJ_CACHE_PATH>, path_text},
    Action{"verify", "check every file; exit 1 if one is no valid entry or cubin", acted<MSJ_CACHE_VERIFY>,
           verify_text},
    Action{"prune", "remove from the writable directory what no lookup takes, and cubins above the size cap",
           acted<MSJ_CACHE_PRUNE>, prune_text},
    Action{"clear", "remove every entry and cubin from the writable directory", acted<MSJ_CACHE_CLEAR>, clear_text},
    Action{kExport, "write every valid entry and cubin to a tar file", exported, export_text},
    Action{kImport, "take the valid entries and cubins of such a file, from someone you trust: cubins are code",
           imported, import_text},
};

// A path is printed as it is meant, whether it can be used or not.
void note_unusable(const Json &document, Console &console) {
  for (const Json &layer : document.at("layers")) {
    if (const std::string problem = layer.value("problem", ""); !problem.empty()) {
      console.note("this cache directory can't be used: " + problem);
    }
  }
}

int run_cache(const CacheOptions &options, const std::vector<OpInfo> &ops, Console &console) {
  if (!options.op.empty()) static_cast<void>(find_op(ops, options.op));
  if (!options.arch.empty()) check_arch(options.arch);
  const maxsim_jit::Context context = make_context(console);
  const Json document = parse_library_json(options.action->json(options, context));
  if (document.at("layers").empty()) {
    failure("there is no cache directory: set MAXSIM_JIT_CACHE_DIR, or HOME to an absolute path");
  }
  if (options.action->name == kPath) note_unusable(document, console);
  const bool is_export = options.action->name == kExport;
  if (is_export && document.value("entries", 0) + document.value("cubins", 0) == 0) {
    console.note("nothing is cached; the archive is empty");
  }
  if (options.json) {
    print_json(document);
  } else {
    print_text(options.action->text(document));
  }
  return document.value("problems", Json::array()).empty() ? kExitOk : kExitFailed;
}

}  // namespace

Command add_cache(CLI::App &app, const std::vector<OpInfo> &ops, Console &console) {
  auto options = std::make_shared<CacheOptions>();
  CLI::App *command = app.add_subcommand(
      "cache", "The cache on disk: where it is, whether it is sound, tidying it, carrying it elsewhere");
  command->require_subcommand(1);
  for (const Action &action : kActions) {
    CLI::App *sub = command->add_subcommand(std::string(action.name), action.help);
    sub->add_flag("--json", options->json, "one JSON object on stdout (maxsim-jit/cache/1)");
    sub->callback([options, &action] { options->action = &action; });
  }
  CLI::App *exporting = command->get_subcommand(std::string(kExport));
  exporting->add_option("FILE", options->file, "the tar file to write")->required();
  exporting->add_option("--op", options->op, "only of this op");
  exporting->add_option("--arch", options->arch, "only of this architecture, as in sm_90a");
  CLI::App *importing = command->get_subcommand(std::string(kImport));
  importing->add_option("FILE", options->file, "the tar file to read")->required();
  return {command, [options, &ops, &console] { return run_cache(*options, ops, console); }};
}

}  // namespace msj::cli
