// `inspect`: the autotune entries, or the compiled specializations, as the library tells them.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <memory>

#include "cli/commands.h"
#include "cli/failure.h"
#include "cli/output.h"
#include "cli/session.h"

namespace msj::cli {
namespace {

struct InspectOptions {
  std::string op;
  std::string arch;
  bool cubins = false;
  bool json = false;  // what it prints anyway; accepted because every command knows --json
  bool table = false;
};

// What a person looks for, in this order; timings and provenance are for the JSON.
constexpr std::array kColumns = {"op",           "environment", "architecture", "bucket", "dtypes",
                                 "static_sizes", "features",    "layout",       "path",   "config",
                                 "config_any",   "source",      "hash"};

// {"Nq": 1, "d": 128} → "Nq=1 d=128"; ["bf16", "i8"] → "bf16,i8"
std::string cell(const Json &value) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value.get<std::string>();
  std::vector<std::string> parts;
  if (value.is_array()) {
    for (const Json &item : value) parts.push_back(cell(item));
    return parts.empty() ? "-" : fmt::format("{}", fmt::join(parts, ","));
  }
  if (!value.is_object()) return value.dump();
  for (const auto &[key, item] : value.items()) parts.push_back(fmt::format("{}={}", key, cell(item)));
  return parts.empty() ? "-" : fmt::format("{}", fmt::join(parts, " "));
}

std::string entries_table(const Json &entries) {
  std::vector<const char *> columns;
  for (const char *column : kColumns) {
    if (std::ranges::any_of(entries, [column](const Json &entry) { return entry.contains(column); })) {
      columns.push_back(column);
    }
  }
  std::vector<std::vector<std::string>> rows = {{columns.begin(), columns.end()}};
  for (const Json &entry : entries) {
    auto &row = rows.emplace_back();
    for (const char *column : columns) row.push_back(cell(entry.value(column, Json())));
  }
  return table(rows);
}

// " of dense_forward for sm_80", of the filters.
std::string asked_for(const InspectOptions &options) {
  std::string text;
  if (!options.op.empty()) text += " of " + options.op;
  if (!options.arch.empty()) text += " for " + options.arch;
  return text;
}

int run_inspect(const InspectOptions &options, const std::vector<OpInfo> &ops, Console &console) {
  if (!options.op.empty()) static_cast<void>(find_op(ops, options.op));
  if (!options.arch.empty()) check_arch(options.arch);
  const maxsim_jit::Context context = make_context(console);
  const Json document = parse_library_json(context.inspect(options.op, options.arch, options.cubins));
  if (!options.table) {
    print_json(document);
    return kExitOk;
  }
  const auto entries = std::ranges::find_if(document, [](const Json &field) { return field.is_array(); });
  if (entries == document.end() || entries->empty()) {
    const std::string which = asked_for(options);
    console.note(options.cubins ? "no compiled specialization is cached" + which
                                : "no autotune entry is cached or shipped" + which);
  } else {
    print_text(entries_table(*entries));
  }
  return kExitOk;
}

}  // namespace

Command add_inspect(CLI::App &app, const std::vector<OpInfo> &ops, Console &console) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App *command =
      app.add_subcommand("inspect", "Show autotune entries, shipped ones too, or compiled specializations, as JSON");
  command->add_option("--op", options->op, "only this op");
  command->add_option("--arch", options->arch, "only this architecture, as in sm_90a");
  command->add_flag("--cubins", options->cubins, "compiled specializations instead of autotune entries");
  auto *table = command->add_flag("--table", options->table, "a table for people: one line each");
  command->add_flag("--json", options->json, "one JSON object on stdout (maxsim-jit/inspect/1): the default")
      ->excludes(table);
  return {command, [options, &ops, &console] { return run_inspect(*options, ops, console); }};
}

}  // namespace msj::cli
