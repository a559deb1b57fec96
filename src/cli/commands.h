// The commands. Each file adds its own options to the app and gives back what to run once they are parsed.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <vector>

#include "cli/console.h"
#include "cli/op_table.h"

namespace msj::cli {

struct Command {
  const CLI::App *app;
  std::function<int()> run;  // the exit code; throws UsageError, Failure or maxsim_jit::Error
};

// `ops` and `console` must outlive the command.
[[nodiscard]] Command add_warm(CLI::App &app, const std::vector<OpInfo> &ops, Console &console);
[[nodiscard]] Command add_audit(CLI::App &app, const std::vector<OpInfo> &ops, Console &console);
[[nodiscard]] Command add_bench(CLI::App &app, const std::vector<OpInfo> &ops, Console &console);
[[nodiscard]] Command add_inspect(CLI::App &app, const std::vector<OpInfo> &ops, Console &console);
[[nodiscard]] Command add_score(CLI::App &app, const std::vector<OpInfo> &ops, Console &console);
[[nodiscard]] Command add_cache(CLI::App &app, const std::vector<OpInfo> &ops, Console &console);
[[nodiscard]] Command add_doctor(CLI::App &app, Console &console);

}  // namespace msj::cli
