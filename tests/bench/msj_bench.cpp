// DESIGN section 8 measured: the ops through the public API against the ceilings of the same run.
//
//   msj_bench [--peers FILE] [--json FILE] [--rounds N] [--seconds N] [--quick] [--shapes A,B] [--ops A,B]
//   [--candidates]
//
// --candidates: every candidate of the space too, on the shape itself, where the tuner times its bucket's
// representative sizes; then the best of each path.
//
// Shapes are those of src/cli/bench_shapes.json. The read ceiling is measured here; matrix rates and the peers' times
// come from peers.py's file. The floor of a problem is the larger of its read's time and flops / matrix rate;
// efficiency = floor / (time - empty launch). Configs are those that the library's tuner chose (MAXSIM_JIT_CACHE_DIR
// may hold its entries already). Exit status 77: no GPU.
#define DOCTEST_CONFIG_IMPLEMENT  // the tests' helpers check with it
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>

#include "api/context.h"
#include "bench/bench_tensors.h"
#include "bench/cases.h"
#include "bench/stopwatch.h"
#include "gpu/op_candidates.h"
#include "ops/bind.h"
#include "support/scratch.h"
#include "tune/ceilings.h"

using namespace msj;
using bench::Case;
using Json = nlohmann::ordered_json;

namespace {

struct Options {
  std::string peers;
  std::string json;
  int rounds = 25;
  double seconds = 1e9;
  bool quick = false;
  std::vector<std::string> shapes;  // empty: all
  std::vector<std::string> ops;     // empty: all
  bool candidates = false;
};

std::vector<std::string> listed(const std::string &text) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, ',');) words.push_back(word);
  return words;
}

Options parse(int argc, char **argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&]() -> std::string {
      if (i + 1 >= argc) throw std::runtime_error(word + " needs a value");
      return argv[++i];
    };
    if (word == "--peers")
      options.peers = value();
    else if (word == "--json")
      options.json = value();
    else if (word == "--rounds")
      options.rounds = std::stoi(value());
    else if (word == "--seconds")
      options.seconds = std::stod(value());
    else if (word == "--quick")
      options.quick = true;
    else if (word == "--shapes")
      options.shapes = listed(value());
    else if (word == "--ops")
      options.ops = listed(value());
    else if (word == "--candidates")
      options.candidates = true;
    else
      throw std::runtime_error("unknown option " + word);
  }
  return options;
}

std::vector<Case> cases_of(const Options &options) {
  return bench::read_cases(bench::kShapesFile, options.shapes, options.ops, options.quick);
}

class Bench {
 public:
  Bench(const Options &options, const maxsim_jit::Context &context)
      : options_(options), context_(context), stopwatch_(options.rounds), sink_(256) {
    if (!options.peers.empty()) {
      std::ifstream file(options.peers);
      peers_ = Json::parse(file, nullptr, false);
      if (peers_.is_discarded()) peers_ = Json::object();
    }
    empty_ms_ = time_ceiling(tune::kEmptyLaunch, tune::ReadRanges());
  }

  [[nodiscard]] double empty_ms() const { return empty_ms_; }

  [[nodiscard]] Json measure(const Case &c) {
    const gpu::OpProblem &p = c.problem;
    const bench::BenchTensors tensors(p, kernels_, stopwatch_.stream());
    const auto prepared = std::chrono::steady_clock::now();
    maxsim_jit::Launch launch;
    launch.stream = stopwatch_.stream();
    auto to_prepare = tensors.call();
    const maxsim_jit::Plan plan = maxsim_jit::prepare_plan(context_, to_prepare.launch(launch));
    const std::chrono::duration<double> preparing = std::chrono::steady_clock::now() - prepared;
    const Measured ours = time_scores(tensors, &plan);
    const double read = read_ms(tensors) - empty_ms_;
    const Measured again = time_scores(tensors, &plan);  // a state of the machine that passes shows as a difference
    const double rate = matrix_rate(c.dtype);
    const double flops = rate > 0 ? 2 * p.op->multiply_adds(p.sizes) / (rate * 1e9) : 0;
    const double floor = std::max(read, flops);
    Json sizes = Json::object();
    for (std::size_t i = 0; i < p.op->sizes.size(); ++i) sizes[std::string(p.op->sizes[i].name)] = p.sizes[i];
    Json row = {{"op", p.op->name},
                {"shape", c.shape},
                {"sizes", sizes},
                {"dtype", c.dtype},
                {"features", c.features()},
                {"time_ms", ours.median_ms},
                {"again_ms", again.median_ms},
                {"deviation", ours.deviation},
                {"rounds", ours.rounds},
                {"read_ms", read},
                {"matrix_ms", flops},
                {"floor_ms", floor},
                {"efficiency", floor / (ours.median_ms - empty_ms_)},
                {"config", to_string(plan.get()->ready->config)},
                {"prepare_seconds", preparing.count()}};
    if (const Json *peers = peers_of(c)) row["peers"] = *peers;
    if (options_.candidates) row["candidates"] = time_candidates(tensors, p);
    return row;
  }

 private:
  using Measured = bench::Measured;

  // Through a plan, or looked up in a context where one config is favoured.
  Measured time_scores(const bench::BenchTensors &tensors, const maxsim_jit::Plan *plan,
                       msj_context *context = nullptr) {
    maxsim_jit::Launch launch;
    launch.stream = stopwatch_.stream();
    launch.plan = plan;
    auto call = tensors.call();
    call.launch(launch);
    std::size_t size = 0;
    check(msj_workspace_size(context_.get(), call.get(), &size));
    if (size > 0 && (!workspace_ || workspace_->bytes() < size)) workspace_.emplace(size);
    launch.workspace = size > 0 ? workspace_->get() : nullptr;
    launch.workspace_size = size;
    call.launch(launch);
    msj_context *runner = context != nullptr ? context : context_.get();
    return stopwatch_.time([&](CUstream) { check(msj_run(runner, call.get())); });
  }

  static void check(msj_status status) {
    if (status != MSJ_OK) throw std::runtime_error(msj_last_error());
  }

  Json time_candidates(const bench::BenchTensors &tensors, const gpu::OpProblem &p) {
    const testing::ScratchDirectory root;
    const gpu::ForcedOpContexts contexts(root.path(), p);
    Json rows = Json::array();
    std::size_t index = 0;
    std::map<std::string, std::pair<double, std::string>> best;  // by path
    for (const gpu::Candidate &candidate : gpu::admitted_candidates(p)) {
      if (!candidate.takes(gpu::layout_of(p))) continue;
      const auto session = contexts.context(candidate.config, index++);
      if (gpu::config_of(*session, p) != candidate.config) throw std::runtime_error("another candidate would be timed");
      const Measured time = time_scores(tensors, nullptr, session->get());
      rows.push_back({{"config", to_string(candidate.config)}, {"time_ms", time.median_ms}});
      fmt::print("    {:8.4f} ms +- {:.1f} % {}\n", time.median_ms, 100 * time.deviation, to_string(candidate.config));
      const auto [known, is_first] =
          best.try_emplace(candidate.config.path, time.median_ms, to_string(candidate.config));
      if (!is_first) known->second = std::min(known->second, {time.median_ms, to_string(candidate.config)});
    }
    for (const auto &[path, fastest] : best) {
      fmt::print("    {:8.4f} ms, best of {}: {}\n", fastest.first, path, fastest.second);
    }
    return rows;
  }

  double time_ceiling(const tune::CeilingLaunch &launch, const tune::ReadRanges &ranges) {
    const std::int64_t grid = std::int64_t{gpu::Gpu::get().info().limits.sm_count} * launch.blocks_per_sm;
    return stopwatch_
        .time([&](CUstream stream) {
          kernels_.launch_with(launch.shared_bytes, stream, launch.entry, grid, launch.threads, ranges);
        })
        .median_ms;
  }

  // The same bytes read, in the fastest of the library's ways.
  double read_ms(const bench::BenchTensors &tensors) {
    const tune::ReadRanges ranges =
        tune::ranges_of(ops::bind(*tensors.call().get(), ops::DataRule::ignored), sink_.get());
    double best = std::numeric_limits<double>::infinity();
    for (const tune::CeilingLaunch &way : tune::kLoads) best = std::min(best, time_ceiling(way, ranges));
    if (gpu::Gpu::get().info().architecture.compute_capability >= tune::kBulkCapability) {
      for (const tune::CeilingLaunch &way : tune::kBulkCopies) best = std::min(best, time_ceiling(way, ranges));
    }
    return best;
  }

  // TFLOP/s of a large matrix product; 0 if peers.py did not say.
  double matrix_rate(const std::string &dtype) const {
    const auto ceilings = peers_.value("ceilings", Json::object());
    return ceilings.value(dtype, 0.0);
  }

  // {"torch": {"ms": …}, "lik": …}, of the same features.
  const Json *peers_of(const Case &c) const {
    if (!peers_.contains("cases") || !peers_["cases"].contains(c.key())) return nullptr;
    const Json &found = peers_["cases"][c.key()];
    return found.value("features", "") == c.features() ? &found : nullptr;
  }

  const Options &options_;
  const maxsim_jit::Context &context_;
  bench::Stopwatch stopwatch_;
  gpu::DeviceBytes sink_;
  std::optional<gpu::DeviceBytes> workspace_;
  gpu::Kernels kernels_{{"bench/bench_kernels.cu", "../kernels/ceilings.cu"}};
  Json peers_ = Json::object();
  double empty_ms_ = 0;
};

void print_row(const Json &row) {
  const auto peer = [&row](const char *name) {
    const double ms = row.contains("peers") ? row["peers"].value(name, Json::object()).value("ms", 0.0) : 0.0;
    return ms > 0 ? fmt::format("{:.4f}", ms) : std::string("-");
  };
  fmt::print("{:<18} {:<13} {:<8} {:8.4f} {:8.4f} {:8.4f} {:8.4f} {:6.1f} % {:>8} {:>8} {:>8} {} [{}]\n",
             row["op"].get<std::string>(), row["shape"].get<std::string>(), row["dtype"].get<std::string>(),
             row["read_ms"].get<double>(), row["matrix_ms"].get<double>(), row["time_ms"].get<double>(),
             row["again_ms"].get<double>(), 100 * row["efficiency"].get<double>(), peer("torch"), peer("lik"),
             peer("fm"), row["config"].get<std::string>(), row["features"].get<std::string>());
}

int run_bench(const Options &options) {
  const char *cache = std::getenv("MAXSIM_JIT_CACHE_DIR");
  const testing::ScratchDirectory scratch;
  const maxsim_jit::Context context({.cache_dir = cache == nullptr ? scratch.path() : "", .tune = "on"});
  const auto start = std::chrono::steady_clock::now();
  Bench bench(options, context);
  Json document = {{"schema", "maxsim-jit/bench/1"},
                   {"environment", gpu::Gpu::get().info().environment()},
                   {"driver", gpu::Gpu::get().info().driver_version},
                   {"empty_ms", bench.empty_ms()},
                   {"rows", Json::array()}};
  fmt::print("empty launch {:.4f} ms; {} rounds, cold L2, random data; times in ms\n", bench.empty_ms(),
             options.rounds);
  fmt::print("{:<18} {:<13} {:<8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} config [features]\n", "op", "shape",
             "type", "read", "matrix", "ours", "again", "of floor", "torch", "lik", "fm");
  for (const Case &c : cases_of(options)) {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    if (spent.count() > options.seconds) {
      fmt::print("stopped after {:.0f} s\n", spent.count());
      break;
    }
    try {
      document["rows"].push_back(bench.measure(c));
      print_row(document["rows"].back());
    } catch (const std::exception &error) {
      fmt::print("{}: {}\n", c.key(), error.what());
    }
  }
  if (!options.json.empty()) testing::write_text(options.json, document.dump(1) + "\n");
  return document["rows"].size() == cases_of(options).size() ? 0 : 1;
}

}  // namespace

int main(int argc, char **argv) {
  constexpr int kSkipped = 77;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // rows stay in the log of a run that is stopped
  try {
    const Options options = parse(argc, argv);
    if (const std::string absence = gpu::Gpu::absence(); !absence.empty()) {
      fmt::print("skipped: no GPU: {}\n", absence);
      return kSkipped;
    }
    return run_bench(options);
  } catch (const std::exception &error) {
    fmt::print(stderr, "msj_bench: {}\n", error.what());
    return 2;
  }
}
