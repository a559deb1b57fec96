// `bench`: DESIGN section 8's table. Each case is measured as `audit` measures (every candidate, cold L2, random data),
// beside the ceilings that the library times with it: a pure read of the same bytes, and an empty launch. Rates of a
// large matrix product and other libraries' times come from tests/bench/peers.py, which has torch; without its file
// they are left open.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "cli/bench_case.h"
#include "cli/bench_peers.h"
#include "cli/bench_plot.h"
#include "cli/bench_report.h"
#include "cli/call_builder.h"
#include "cli/commands.h"
#include "cli/failure.h"
#include "cli/new_file.h"
#include "cli/output.h"
#include "cli/session.h"

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

// Measured again until its time is the median of enough rounds; of these measurements, the one in the middle.
BenchRow measured_row(const BenchCase &of, const BenchOptions &options, const maxsim_jit::Context &context,
                      std::int32_t device) {
  DTypeMap dtypes;
  for (const OperandInfo &operand : of.op->operands) {
    if (operand.kind == OperandInfo::DTypeKind::own) dtypes.emplace(operand.name, of.dtype);
  }
  std::vector<BenchRow> rows;
  std::int64_t rounds = 0;
  while (rounds < options.rounds) {
    const auto call = shapes_only_call(*of.op, of.sizes, dtypes, of.features, device);
    rows.push_back(row_of(of, parse_library_json(maxsim_jit::measure(context, call))));
    rounds += std::max<std::int64_t>(rows.back().rounds, 1);
  }
  const auto middle = rows.begin() + static_cast<std::ptrdiff_t>((rows.size() - 1) / 2);
  std::ranges::nth_element(rows, middle, {}, [](const BenchRow &row) { return row.time.shared_ms; });
  middle->rounds = rounds;
  return *middle;
}

BenchReport run_cases(const std::vector<BenchCase> &cases, const BenchOptions &options, const BenchPeers &peers,
                      const maxsim_jit::Context &context, std::int32_t device, Console &console) {
  const auto start = std::chrono::steady_clock::now();
  const auto spent = [start] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  BenchReport report;
  report.least_rounds = options.rounds;
  std::int64_t done = 0;
  for (const BenchCase &of : cases) {
    if (spent() > options.seconds) {
      report.left_out.push_back(of);
      continue;
    }
    try {
      BenchRow row = measured_row(of, options, context, device);
      row.matrix_rate = peers.matrix_rate(of.dtype);
      row.peers = peers.times(of);
      report.rows.push_back(std::move(row));
    } catch (const maxsim_jit::Error &error) {
      report.failed.push_back({of, status_name(error.status()), error.what()});
    } catch (const Failure &error) {  // the config that is launched was not timed
      report.failed.push_back({of, "", error.what()});
    }
    console.progress("bench", ++done, static_cast<std::int64_t>(cases.size()));
  }
  console.clear_bar();
  report.seconds = spent();
  return report;
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
  staged.close();
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
  const BenchReport report = run_cases(cases, options, peers, context, device, console);
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
      ->check(CLI::Range(1, 10000));
  command->add_option("--seconds", options->seconds, "start no other case after so many")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--device", options->device, "cuda or cuda:N")->capture_default_str();
  command->add_option("--peers", options->peers,
                      "what tests/bench/peers.py wrote on this machine: matrix rates, other libraries' times");
  command->add_option("--svg", options->svg, "draw efficiencies and the roofline into this file");
  command->add_flag("--json", options->json, "one JSON object on stdout (maxsim-jit/bench/1)");
  return {command, [options, &ops, &console] { return run_bench(*options, ops, console); }};
}

}  // namespace msj::cli
