// `doctor`: what was found (driver, NVRTC, GPU, cache, permissions) and what to fix.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/commands.h"
#include "cli/failure.h"
#include "cli/output.h"
#include "cli/session.h"

namespace msj::cli {
namespace {

std::string checks_text(const Json &checks) {
  std::vector<std::vector<std::string>> rows;
  for (const Json &check : checks) {
    rows.push_back({check.value("status", ""), check.value("name", ""), check.value("found", "")});
    if (const std::string fix = check.value("fix", ""); !fix.empty()) rows.push_back({"", "", "to fix: " + fix});
  }
  return table(rows);
}

// Warnings (no GPU, say, where warming for another machine still works) are no failure.
int run_doctor(bool json, Console &console) {
  const maxsim_jit::Context context = make_context(console);
  const Json document = parse_library_json(context.doctor());
  const Json &checks = document.at("checks");
  if (json) {
    print_json(document);
  } else {
    print_text(checks_text(checks));
  }
  const bool failed = std::ranges::any_of(checks, [](const Json &check) { return check.at("status") == "error"; });
  return failed ? kExitFailed : kExitOk;
}

}  // namespace

Command add_doctor(CLI::App &app, Console &console) {
  auto json = std::make_shared<bool>(false);
  CLI::App *command = app.add_subcommand("doctor", "Say what was found (driver, NVRTC, GPU, cache) and what to fix");
  command->add_flag("--json", *json, "one JSON object on stdout (maxsim-jit/doctor/1)");
  return {command, [json, &console] { return run_doctor(*json, console); }};
}

}  // namespace msj::cli
