// maxsim-jit COMMAND: exit 0, 1 (failed) or 2 (usage); failures are one sentence on stderr.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/failure.h"
#include "cli/mapping.h"
#include "cli/output.h"
#include "maxsim_jit/maxsim_jit.hpp"

namespace msj::cli {
namespace {

int run(int argc, char **argv, Console &console) {
  const std::vector<OpInfo> ops = parse_ops(maxsim_jit::describe());
  CLI::App app("Late-interaction (MaxSim) scores on NVIDIA GPUs, compiled and tuned at run time.", "maxsim-jit");
  app.set_version_flag("--version", "maxsim-jit " + maxsim_jit::version());
  app.require_subcommand(1);
  app.fallthrough();
  bool verbose = false;
  app.add_flag("-v,--verbose", verbose, "say on stderr what the library does");
  const std::vector<Command> commands = {add_warm(app, ops, console), add_inspect(app, ops, console),
                                         add_cache(app, console), add_doctor(app, console),
                                         add_score(app, ops, console)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &help_or_version) {
    return app.exit(help_or_version);
  } catch (const CLI::ParseError &error) {
    const std::string first = argc > 1 ? argv[1] : "-";
    const auto is_named = [&](const Command &command) { return command.app->get_name() == first; };
    if (!first.starts_with('-') && std::ranges::none_of(commands, is_named)) {
      usage_error("'{}' is no command; warm, inspect, cache, doctor or score is accepted", first);
    }
    std::string sentence = error.what();
    std::ranges::replace(sentence, '\n', ' ');
    usage_error("{} (maxsim-jit --help, maxsim-jit COMMAND --help)", sentence);
  }
  console.set_verbose(verbose);
  const auto chosen = std::ranges::find_if(commands, [](const Command &command) { return command.app->parsed(); });
  return chosen->run();
}

}  // namespace
}  // namespace msj::cli

int main(int argc, char **argv) {
  msj::cli::explain_truncated_files();
  msj::cli::Console console(stderr);
  try {
    return msj::cli::run(argc, argv, console);
  } catch (const msj::cli::UsageError &error) {
    console.note(error.what());
    return msj::cli::kExitUsage;
  } catch (const std::bad_alloc &) {
    console.note("the host has not enough memory for this");
    return msj::cli::kExitFailed;
  } catch (const std::exception &error) {
    console.note(error.what());
    return msj::cli::kExitFailed;
  }
}
