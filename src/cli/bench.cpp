// `bench`: the built-in shapes against what the GPU could do. Each case is measured as `audit` measures (every
// candidate, cold L2, random data), beside the ceilings that the library times with it: a pure read of the same bytes,
// and an empty launch. Rates of a large matrix product and other libraries' times come from tests/bench/peers.py, which
// has torch; without its file they are left open.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "cli/bench_case.h"
#include "cli/bench_peers.h"
#include "cli/bench_plot.h"
#include "cli/bench_report.h"
#include "cli/bench_run.h"
#include "cli/call_builder.h"
#include "cli/commands.h"
#include "cli/failure.h"
#include "cli/new_file.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/usage.h"
#include "text/printable.h"

namespace msj::cli {
namespace {

struct BenchOptions {
  BenchChoice choice;
  int rounds = 20;
  double seconds = std::numeric_limits<double>::infinity();
  std::string device = "cuda";
  std::string peers;
  std::string svg;
  bool json = false;
};

// All that can be known before any work.
void check_svg(const BenchOptions &options) {
  if (options.svg.empty()) return;
  std::error_code ignored;
  if (!options.peers.empty() && std::filesystem::equivalent(options.svg, options.peers, ignored)) {
    usage_error("--svg is '{}', the file of --peers; another file is accepted", options.svg);
  }
  check_output_file(options.svg);
}

BenchRow measured_row(const BenchCase &of, const BenchOptions &options, const maxsim_jit::Context &context,
                      std::int32_t device) {
  DTypeMap dtypes;
  for (const OperandInfo &operand : of.op->operands) {
    if (operand.kind == OperandInfo::DTypeKind::own) dtypes.emplace(operand.name, of.dtype);
  }
  const auto call = shapes_only_call(*of.op, of.sizes, dtypes, of.features, device);
  const maxsim_jit::MeasureOptions wish = {.ceilings = true, .rounds = options.rounds};
  return row_of(of, parse_library_json(maxsim_jit::measure(context, call, wish)));
}

// A number of seconds that have a meaning: CLI11's own checks take nan, and print a range to the largest double.
std::string seconds_problem(const std::string &text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool good = error == std::errc() && end == text.data() + text.size() && std::isfinite(seconds) && seconds >= 0;
  return good ? std::string() : fmt::format("it is '{}'; a number from 0 is accepted", shortened(text));
}

void note_gaps(const BenchReport &report, const BenchOptions &options, Console &console) {
  for (const BenchFailure &failed : report.failed) {
    console.note(fmt::format("{}: {}", failed.of.key(), failed.sentence));
  }
  if (!report.left_out.empty()) {
    console.note(
        fmt::format("{} cases are left out: --seconds {} had passed", report.left_out.size(), options.seconds));
  }
  const bool has_gap = std::ranges::any_of(report.rows, [](const BenchRow &row) { return !row.matrix_rate; });
  if (has_gap) {
    console.note(
        "without the rate of a matrix product a floor is not known: --peers takes the file of tests/bench/peers.py");
  }
}

void write_svg(const std::string &file, const std::string &text) {
  NewFile staged(output_target(file));
  staged.write(std::as_bytes(std::span(text)));
  staged.sync();
  staged.publish();
}

int run_bench(const BenchOptions &options, const std::vector<OpInfo> &ops, Console &console) {
  const std::vector<BenchCase> cases = bench_cases(ops, options.choice);
  const std::int32_t device = parse_device(options.device);
  if (device == MSJ_DEVICE_CPU) usage_error("--device is 'cpu'; bench accepts cuda and cuda:N");
  const BenchPeers peers = options.peers.empty() ? BenchPeers() : BenchPeers::read(options.peers);
  check_svg(options);
  const maxsim_jit::Context context = make_context(console);
  { const maxsim_jit::DeviceMemory probe(context, device, 1); }  // without a device, one sentence in place of many
  const auto measure = [&](const BenchCase &of) {
    BenchRow row = measured_row(of, options, context, device);
    row.matrix_rate = peers.matrix_rate(of.dtype);
    row.peers = peers.times(of);
    return row;
  };
  BenchReport report = run_cases(cases, options.seconds, measure, console);
  report.least_rounds = options.rounds;
  note_gaps(report, options, console);
  if (options.json) {
    print_json(bench_json(report, context.stats()));
  } else {
    print_text(bench_text(report));
  }
  if (!options.svg.empty()) {
    write_svg(options.svg, bench_svg(report.rows));
    console.note(fmt::format("wrote the plot to {}", options.svg));
  }
  return report.failed.empty() ? kExitOk : kExitFailed;
}

}  // namespace

Command add_bench(CLI::App &app, const std::vector<OpInfo> &ops, Console &console) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App *command =
      app.add_subcommand("bench", "Time the built-in shapes against the memory's and the cores' ceilings");
  command->add_option("--ops", options->choice.ops, "only these ops: dense_forward,fp8_forward");
  auto *shapes = command->add_option("--shapes", options->choice.shapes, "only these shapes: rerank-10k,colpali");
  command->add_flag("--quick", options->choice.quick, "only one small shape of each kind")->excludes(shapes);
  command->add_option("--features", options->choice.features,
                      "none, all of the op's, or one set: a,b (default: those of each case)");
  command->add_option("--rounds", options->rounds, "how often each time is taken, at least")
      ->capture_default_str()
      ->check(whole_number(1, 10000));
  command->add_option("--seconds", options->seconds, "start no other case after so many")
      ->check(CLI::Validator(seconds_problem, "SECONDS"));
  command->add_option("--device", options->device, "cuda or cuda:N")->capture_default_str();
  command->add_option("--peers", options->peers,
                      "what tests/bench/peers.py wrote on this machine: matrix rates, other libraries' times");
  command->add_option("--svg", options->svg, "draw efficiencies and the roofline into this file");
  command->add_flag("--json", options->json, "one JSON object on stdout (maxsim-jit/bench/1)");
  return {command, [options, &ops, &console] { return run_bench(*options, ops, console); }};
}

}  // namespace msj::cli
