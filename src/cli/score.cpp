// `score`: MaxSim of .npy files. Its options are made from the ops' tables: a file for each operand, a flag for each
// feature that no operand implies, a value for each param. In place of the files of residual documents, an index.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>

#include "cli/commands.h"
#include "cli/failure.h"
#include "cli/output.h"
#include "cli/residual_index.h"
#include "cli/score_input.h"
#include "cli/score_norms.h"
#include "cli/score_quantize.h"
#include "cli/score_report.h"
#include "cli/score_run.h"
#include "cli/session.h"
#include "text/printable.h"

namespace msj::cli {
namespace {

struct ScoreOptions {
  std::string op;
  std::map<std::string, std::string, std::less<>> files;   // by operand; "": not given
  std::map<std::string, bool, std::less<>> flags;          // by feature
  std::map<std::string, std::string, std::less<>> params;  // by name; "": not given
  std::string index;                                       // a directory; "": not given
  std::string candidates;                                  // a file; "": not given
  std::string out;
  std::int64_t top_k = 0;
  std::string device;
  std::string dtype;
  bool json = false;
};

// ---- what was given, against the op's table

const OperandInfo &first_result(const OpInfo &op) {
  const auto found = std::ranges::find(op.operands, true, &OperandInfo::is_result);
  if (found == op.operands.end()) failure("the library describes {} without a result", op.name);
  return *found;
}

// Those that it can't do without first.
std::vector<std::string> options_of(const OpInfo &op, bool needed) {
  std::vector<std::string> options;
  for (const OperandInfo &operand : op.operands) {
    const bool is_needed = !operand.optional && !operand.is_result;
    if (&operand != &first_result(op) && is_needed == needed) options.push_back(option_name(operand.name));
  }
  if (needed) return options;
  for (const FeatureInfo &feature : op.features) {
    if (feature.source == FeatureInfo::Source::flag) options.push_back(option_name(feature.name));
  }
  if (norms_operand(op) != nullptr) options.emplace_back("--normalize");
  if (takes_index(op)) options.insert(options.end(), {"--index", "--candidates"});
  for (const ParamInfo &param : op.params) options.push_back(option_name(param.name));
  return options;
}

std::vector<std::string> options_of(const OpInfo &op) {
  std::vector<std::string> options = options_of(op, true);
  for (std::string &option : options_of(op, false)) options.push_back(std::move(option));
  return options;
}

bool has_option(const OpInfo &op, const std::string &option) {
  const std::vector<std::string> options = options_of(op);
  return std::ranges::find(options, option) != options.end();
}

// An option of other ops: most often --op was forgotten.
[[noreturn]] void refuse_option(const std::string &option, const OpInfo &op, std::span<const OpInfo> scoring) {
  std::vector<std::string> having;
  for (const OpInfo &other : scoring) {
    if (has_option(other, option)) having.push_back("--op " + other.name);
  }
  usage_error("{} is given, which {} accepts; {} accepts {}", option, fmt::join(having, " or "), op.name,
              fmt::join(options_of(op), ", "));
}

template <typename Given>
void refuse_foreign(const Given &given, const OpInfo &op, std::span<const OpInfo> scoring) {
  for (const auto &[name, value] : given) {
    const std::string option = option_name(name);
    if (value != typename Given::mapped_type{} && !has_option(op, option)) refuse_option(option, op, scoring);
  }
}

std::optional<DType> wanted_dtype(const ScoreOptions &options, const OpInfo &op) {
  if (options.dtype.empty()) return std::nullopt;
  const auto dtype = dtype_from(options.dtype);
  const auto accepted = op.matrix_dtypes();
  if (!dtype || std::ranges::find(accepted, *dtype) == accepted.end()) {
    usage_error("--dtype is '{}'; {} accepts {}", shortened(options.dtype), op.name, names(accepted));
  }
  return dtype;
}

std::string accepted_values(const ParamInfo &param) {
  std::vector<std::string_view> named;
  for (const ValueName &value : param.values) named.push_back(value.name);
  if (!named.empty()) return fmt::format("{}", fmt::join(named, ", "));
  return param.is_double ? "a number" : fmt::format("an integer from {} to {}", param.min, param.max);
}

msj_param parse_param_value(const ParamInfo &param, const std::string &text) {
  msj_param result{};
  result.id = param.id;
  for (const ValueName &value : param.values) {
    if (value.name != text) continue;
    result.value.i = value.value;
    return result;
  }
  const char *const end = text.data() + text.size();
  bool good = false;
  if (param.is_double) {
    const auto [parsed, error] = std::from_chars(text.data(), end, result.value.f);
    good = error == std::errc() && parsed == end && std::isfinite(result.value.f);
  } else {
    const auto [parsed, error] = std::from_chars(text.data(), end, result.value.i);
    good = error == std::errc() && parsed == end && result.value.i >= param.min && result.value.i <= param.max;
  }
  if (!good) usage_error("{} is '{}'; accepted: {}", option_name(param.name), shortened(text), accepted_values(param));
  return result;
}

// ---- the command

// What an index gives is given by it alone.
void check_index(const ScoreOptions &options, const OpInfo &op, std::span<const OpInfo> scoring) {
  if (options.index.empty()) {
    if (!options.candidates.empty())
      usage_error("--candidates is given without --index; documents of one are accepted");
    return;
  }
  if (!takes_index(op)) refuse_option("--index", op, scoring);
  for (const OperandInfo &operand : op.operands) {
    if (!is_of_index(operand.name) || options.files.find(operand.name)->second.empty()) continue;
    usage_error("{} is given beside --index, which has it; one of them is accepted", option_name(operand.name));
  }
}

void check_norms(const ScoreOptions &options, const OpInfo &op) {
  const OperandInfo *norms = norms_operand(op);
  if (norms == nullptr || options.files.find(norms->name)->second.empty()) return;
  if (const auto flag = options.flags.find("normalize"); flag == options.flags.end() || !flag->second) return;
  usage_error("{} is given beside --normalize, which computes it; one of them is accepted", option_name(norms->name));
}

void check_given(const ScoreOptions &options, const OpInfo &op, std::span<const OpInfo> scoring) {
  refuse_foreign(options.files, op, scoring);
  refuse_foreign(options.flags, op, scoring);
  refuse_foreign(options.params, op, scoring);
  check_index(options, op, scoring);
  check_norms(options, op);
  for (const OperandInfo &operand : op.operands) {
    if (operand.is_result || operand.optional || !options.files.find(operand.name)->second.empty()) continue;
    if (!options.index.empty() && is_of_index(operand.name)) continue;
    usage_error("{} is missing; {} needs it: a .npy file of [{}]{}", option_name(operand.name), op.name,
                fmt::join(operand.dims, ", "),
                takes_index(op) && is_of_index(operand.name) ? ", or an --index, which has it" : "");
  }
}

// All but the tensors; those are read once nothing else can be wrong.
ScoreJob make_job(const ScoreOptions &options, const OpInfo &op) {
  ScoreJob job;
  job.op = &op;
  for (const FeatureInfo &feature : op.features) {
    if (feature.source == FeatureInfo::Source::flag && options.flags.find(feature.name)->second) {
      job.flags |= feature.flag;
    }
  }
  for (const ParamInfo &param : op.params) {
    const std::string &text = options.params.find(param.name)->second;
    if (!text.empty()) job.params.push_back(parse_param_value(param, text));
  }
  return job;
}

ScoreReport make_report(const ScoreOptions &options, const OpInfo &op) {
  ScoreReport report;
  report.top_k = options.top_k;
  if (!options.out.empty()) report.files[first_result(op).name] = options.out;
  for (const OperandInfo &operand : op.operands) {
    if (!operand.is_result || &operand == &first_result(op)) continue;
    if (const std::string &file = options.files.find(operand.name)->second; !file.empty()) {
      report.files[operand.name] = file;
    }
  }
  return report;
}

SizeMap load_tensors(const maxsim_jit::Context &context, const ScoreOptions &options, std::span<const OpInfo> ops,
                     const OpInfo &op, ScoreReport &report, Console &console, ScoreJob &job) {
  const auto wanted = wanted_dtype(options, op);
  if (!options.index.empty()) {
    ResidualIndex index = load_residual_index(op, options.index, options.candidates, wanted, console);
    job.inputs = std::move(index.tensors);
    report.documents = std::move(index.documents);
  }
  for (const OperandInfo &operand : op.operands) {
    if (operand.is_result) continue;
    const std::string &file = options.files.find(operand.name)->second;
    if (file.empty()) continue;
    const auto scales = options.files.find(operand.scaled_by);
    const bool has_scales = scales != options.files.end() && !scales->second.empty();
    if (auto quantized = load_quantized(context, ops, op, operand, file, has_scales, wanted, console)) {
      job.inputs.push_back(std::move(quantized->values));
      job.inputs.push_back(std::move(quantized->scales));
    } else {
      job.inputs.push_back(load_operand(operand, file, wanted, console));
    }
  }
  SizeMap sizes = bind_sizes(op, job.inputs);
  for (const OperandInfo &operand : op.operands) {
    if (!operand.is_result) continue;
    if (!operand.optional || report.files.contains(operand.name)) job.results.push_back(make_result(operand, sizes));
  }
  return sizes;
}

int run_score(const ScoreOptions &options, const std::vector<OpInfo> &ops, std::span<const OpInfo> scoring,
              Console &console) {
  const OpInfo &op = find_op(scoring, options.op);
  check_given(options, op, scoring);
  ScoreJob job = make_job(options, op);
  ScoreReport report = make_report(options, op);
  check_output_files(report, op, options.files);
  if (!options.index.empty()) check_outputs_outside(report, options.index, options.candidates);
  std::optional<std::int32_t> device;
  if (!options.device.empty()) device = parse_device(options.device);
  const maxsim_jit::Context context = make_context(console);
  const SizeMap sizes = load_tensors(context, options, ops, op, report, console, job);
  device = choose_device(context, device, console);
  const auto start = std::chrono::steady_clock::now();
  if (const auto flag = options.flags.find("normalize");
      flag != options.flags.end() && flag->second && norms_operand(op) != nullptr) {
    job.inputs.push_back(compute_norms(context, ops, job, sizes, *device));
  }
  run_score_job(context, job, *device);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  report.device = *device == MSJ_DEVICE_CPU ? "cpu" : fmt::format("cuda:{}", *device);

  console.clear_bar();
  write_output_files(report, job, console);
  if (options.json) {
    print_json(score_json(report, job, sizes, context.stats()));
  } else if (options.out.empty() || options.top_k > 0) {
    print_text(score_text(report, job));
  }
  return kExitOk;
}

// ---- options

// ".npy [Nq, Lq] i8, u8, bool: nonzero keeps (dense_forward, fp8_forward)": the first op's words, every op's dtypes,
// and which ops have it if not all do.
std::string operand_help(const OperandInfo &operand, std::span<const OpInfo> ops) {
  std::vector<DType> accepted;
  std::vector<std::string_view> having;
  for (const OpInfo &op : ops) {
    const OperandInfo *same = op.find_operand(operand.name);
    if (same == nullptr) continue;
    having.push_back(op.name);
    for (const DType dtype : same->accepted) {
      if (std::ranges::find(accepted, dtype) == accepted.end()) accepted.push_back(dtype);
    }
  }
  std::string text = fmt::format("{}.npy [{}] {}", operand.is_result ? "write " : "", fmt::join(operand.dims, ", "),
                                 operand.is_result ? std::string(name(operand.canonical)) : names(accepted));
  if (!operand.doc.empty()) text += ": " + operand.doc;
  return having.size() == ops.size() ? text : fmt::format("{} ({})", text, fmt::join(having, ", "));
}

// "zero (default), neginf: what a document without an active token scores"
std::string param_help(const ParamInfo &param) {
  std::string text = accepted_values(param);
  const auto initial = std::ranges::find(param.values, param.default_int, &ValueName::value);
  if (initial != param.values.end()) {
    std::vector<std::string> named;
    for (const ValueName &value : param.values) {
      named.push_back(value.name + (value.name == initial->name ? " (default)" : ""));
    }
    text = fmt::format("{}", fmt::join(named, ", "));
  }
  return param.doc.empty() ? text : fmt::format("{}: {}", text, param.doc);
}

// "--q --d [--q-mask --d-mask …]"; what an index has in place of its files: "--q (--index [--candidates] | --codes …)
// […]".
std::string op_help(const OpInfo &op) {
  std::vector<std::string> needed;
  std::vector<std::string> of_index;
  for (const std::string &option : options_of(op, true)) {
    const auto is_option = [&](const OperandInfo &operand) { return option_name(operand.name) == option; };
    const auto operand = std::ranges::find_if(op.operands, is_option);
    (takes_index(op) && is_of_index(operand->name) ? of_index : needed).push_back(option);
  }
  if (!of_index.empty()) needed.push_back(fmt::format("(--index [--candidates] | {})", fmt::join(of_index, " ")));
  std::vector<std::string> others = options_of(op, false);
  std::erase_if(others, [](const std::string &option) { return option == "--index" || option == "--candidates"; });
  return fmt::format("{} [{}]", fmt::join(needed, " "), fmt::join(others, " "));
}

std::string ops_help(std::span<const OpInfo> ops) {
  std::vector<std::vector<std::string>> rows;
  for (const OpInfo &op : ops) rows.push_back({"  " + op.name, op_help(op)});
  return "What each op takes (one | or the other) [or may]:\n" + table(rows);
}

void add_op_options(CLI::App &command, ScoreOptions &options, const OpInfo &op, std::span<const OpInfo> ops) {
  // An option that another op has too is one option: the same word means the same thing in every op.
  const auto is_new = [&command](const std::string &option) { return command.get_option_no_throw(option) == nullptr; };
  for (const OperandInfo &operand : op.operands) {
    if (&operand == &first_result(op)) continue;
    const std::string option = option_name(operand.name);
    if (!is_new(option)) continue;
    command.add_option(option, options.files[operand.name], operand_help(operand, ops))->type_name("FILE");
  }
  for (const FeatureInfo &feature : op.features) {
    const std::string option = option_name(feature.name);
    if (feature.source != FeatureInfo::Source::flag || !is_new(option)) continue;
    command.add_flag(option, options.flags[feature.name], feature.doc);
  }
  for (const ParamInfo &param : op.params) {
    const std::string option = option_name(param.name);
    if (!is_new(option)) continue;
    command.add_option(option, options.params[param.name], param_help(param))
        ->type_name(param.values.empty() ? "NUMBER" : "VALUE");
  }
  if (takes_index(op) && is_new("--index")) {
    command.add_option("--index", options.index, fmt::format("an index of fast-plaid or next-plaid ({})", op.name))
        ->type_name("DIR");
    command.add_option("--candidates", options.candidates, ".npy [Nd] i32, i64: the documents of the index to score")
        ->type_name("FILE");
  }
}

}  // namespace

Command add_score(CLI::App &app, const std::vector<OpInfo> &ops, Console &console) {
  auto options = std::make_shared<ScoreOptions>();
  // Ops that only prepare another's operands have no scores.
  auto scoring = std::make_shared<std::vector<OpInfo>>(ops);
  std::erase_if(*scoring, [](const OpInfo &op) { return op.find_operand("scores") == nullptr; });
  options->op = scoring->front().name;
  CLI::App *command = app.add_subcommand(
      "score", "MaxSim scores of .npy files. A file that lacks only the leading Nq or Nd holds one query or document.");
  // Without -h, which newer CLI11 refuses beside an operand's --h: the program's own answers in its place.
  command->set_help_flag("--help", "Print this help message and exit");
  command->add_option("--op", options->op, "the op, of those at the end")->capture_default_str();
  command->footer(ops_help(*scoring));
  command->add_option("--out", options->out, "write the scores to this .npy file (default: print them)")
      ->check(CLI::Validator([](const std::string &text) { return text.empty() ? "it is ''; a file is accepted" : ""; },
                             "FILE"));
  command->add_option("--top-k", options->top_k, "print the best K documents of each query, greatest score first")
      ->check(CLI::Validator(
          [](const std::string &text) {
            std::int64_t k = 0;
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), k);
            const bool good = error == std::errc() && end == text.data() + text.size() && k > 0;
            return good ? std::string() : fmt::format("it is '{}'; a whole number from 1 is accepted", shortened(text));
          },
          "K"));
  command->add_option("--device", options->device, "cpu, cuda or cuda:N (default: cuda where there is a device)");
  command->add_option(
      "--dtype", options->dtype,
      fmt::format("convert matrices (default: the file's dtype), or say what a file of bits (uint8, uint16) holds; "
                  "accepted: {}",
                  matrix_dtype_names(*scoring)));
  command->add_flag("--json", options->json, "one JSON object on stdout (maxsim-jit/score/1)");
  for (const OpInfo &op : *scoring) add_op_options(*command, *options, op, *scoring);
  return {command, [options, scoring, &ops, &console] { return run_score(*options, ops, *scoring, console); }};
}

}  // namespace msj::cli
