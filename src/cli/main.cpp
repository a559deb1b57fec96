// maxsim-jit COMMAND: exit 0, 1 (failed) or 2 (usage); failures are one sentence on stderr.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "cli/failure.h"
#include "cli/mapping.h"
#include "cli/output.h"
#include "cli/usage.h"
#include "maxsim_jit/maxsim_jit.hpp"

namespace msj::cli {
namespace {

// A descriptor that the caller closed would be given to the next file that is opened, and what is said on stdout would
// go into that file. It is filled with one that can't be written, so that saying something fails as it should.
void fill_closed_descriptors() {
  for (const int wanted : std::array{STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(wanted, F_GETFD) < 0 && errno == EBADF) (void)::open("/dev/null", O_RDONLY);
  }
}

constexpr const char *kNoMemory = "the host has not enough memory for this";

// A JSON value asks for memory to be destroyed, where nothing may be thrown; the program would be aborted.
void explain_lack_of_memory() {
  static std::terminate_handler others = nullptr;
  others = std::set_terminate([] {
    try {
      if (std::current_exception() != nullptr) throw;
    } catch (const std::bad_alloc &) {
      for (const std::string_view part : {"maxsim-jit: ", kNoMemory, "\n"}) {
        (void)!::write(STDERR_FILENO, part.data(), part.size());
      }
      ::_exit(kExitFailed);
    } catch (...) {  // said by the other handler
    }
    others();
  });
}

// How much of the library's log is said: MAXSIM_JIT_LOG is the library's own variable, which reads it and refuses what
// is no level; -v is "info" where that is more.
void listen(Console &console, bool verbose) {
  const char *const set = ::secure_getenv("MAXSIM_JIT_LOG");
  const std::string_view level = set == nullptr ? "" : set;
  if (verbose && (level == "off" || level == "error" || level == "warn")) ::setenv("MAXSIM_JIT_LOG", "info", 1);
  console.set_verbose(verbose || level == "info" || level == "debug");
}

// Help or the version.
int print_success(const CLI::App &app, const CLI::Success &success) {
  std::ostringstream out;
  const int code = app.exit(success, out, out);
  print_text(out.str());
  return code;
}

int run(int argc, char **argv, Console &console) {
  const std::vector<OpInfo> ops = parse_ops(maxsim_jit::describe());
  CLI::App app("Late-interaction (MaxSim) scores on NVIDIA GPUs, compiled and tuned at run time.", "maxsim-jit");
  app.set_version_flag("--version", "maxsim-jit " + maxsim_jit::version());
  app.require_subcommand(1);
  app.fallthrough();
  bool verbose = false;
  app.add_flag("-v,--verbose", verbose, "say on stderr what the library does, as MAXSIM_JIT_LOG=info");
  const std::vector<Command> commands = {add_warm(app, ops, console),  add_inspect(app, ops, console),
                                         add_audit(app, ops, console), add_bench(app, ops, console),
                                         add_cache(app, ops, console), add_doctor(app, console),
                                         add_score(app, ops, console)};
  refuse_odd_values(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &help_or_version) {
    return print_success(app, help_or_version);
  } catch (const CLI::ParseError &error) {
    refuse_words(app, error, {argv + 1, argv + argc});
  }
  listen(console, verbose);
  const auto chosen = std::ranges::find_if(commands, [](const Command &command) { return command.app->parsed(); });
  return chosen->run();
}

}  // namespace
}  // namespace msj::cli

int main(int argc, char **argv) {
  msj::cli::fill_closed_descriptors();
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes is then an error of the write, which is said
  msj::cli::explain_truncated_files();
  msj::cli::explain_lack_of_memory();
  msj::cli::Console console(stderr);
  try {
    return msj::cli::run(argc, argv, console);
  } catch (const msj::cli::UsageError &error) {
    console.note(error.what());
    return msj::cli::kExitUsage;
  } catch (const std::bad_alloc &) {
    console.note(msj::cli::kNoMemory);
    return msj::cli::kExitFailed;
  } catch (const std::exception &error) {
    console.note(error.what());
    return msj::cli::kExitFailed;
  }
}
