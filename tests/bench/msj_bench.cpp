// DESIGN section 8 measured: dense_forward through the public API against the ceilings of the same run.
//
//   msj_bench [--peers FILE] [--json FILE] [--rounds N] [--seconds N] [--quick] [--shapes A,B] [--candidates]
//
// --candidates: bf16 without features alone, and every candidate of the space on the shape itself, where the tuner
// times its bucket's representative sizes.
//
// The read ceiling is measured here; matrix rates and torch's times come from peers.py's file. The floor of a problem
// is the larger of its read's time and flops / matrix rate; efficiency = floor / (time - empty launch). Configs are
// those that the library's tuner chose (MAXSIM_JIT_CACHE_DIR may hold its entries already). Exit status 77: no GPU.
#define DOCTEST_CONFIG_IMPLEMENT  // the tests' helpers check with it
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "api/context.h"
#include "bench/shapes.h"
#include "bench/stopwatch.h"
#include "gpu/candidates.h"
#include "gpu/instance.h"
#include "support/scratch.h"

using namespace msj;
using Json = nlohmann::ordered_json;

namespace {

struct Options {
  std::string peers;
  std::string json;
  int rounds = 25;
  double seconds = 1e9;
  bool quick = false;
  std::string shapes;  // ",A,B,"; "" for all
  bool candidates = false;
};

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
      options.shapes = "," + value() + ",";
    else if (word == "--candidates")
      options.candidates = true;
    else
      throw std::runtime_error("unknown option " + word);
  }
  return options;
}

// What one problem is timed on.
struct Case {
  bench::Shape shape;
  DType dtype;
  FeatureSet features;
};

std::vector<Case> cases_of(const Options &options) {
  std::vector<Case> cases;
  const auto add = [&](DType dtype, FeatureSet features, const std::vector<std::string> &names) {
    for (const bench::Shape &shape : bench::kDenseShapes) {
      const bool named = std::find(names.begin(), names.end(), shape.name) != names.end();
      const bool wanted =
          options.shapes.empty() || options.shapes.find("," + std::string(shape.name) + ",") != std::string::npos;
      if (wanted && (names.empty() || named)) cases.push_back({shape, dtype, features});
    }
  };
  if (options.quick) {
    add(DType::bf16, 0, {"rerank-1k", "train-128"});
    return cases;
  }
  add(DType::bf16, 0, {});
  if (options.candidates) return cases;
  add(DType::f32, 0, {"rerank-10k", "colpali", "batch32-10k", "train-128"});
  add(DType::f16, 0, {"rerank-10k", "rerank-long", "colpali"});
  add(DType::bf16, gpu::kAllFeatures, {});
  return cases;
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
    empty_ms_ = stopwatch_.time([&](CUstream stream) { kernels_.launch(stream, "empty", 132, 128); }).median_ms;
  }

  [[nodiscard]] double empty_ms() const { return empty_ms_; }

  [[nodiscard]] Json measure(const Case &c) {
    gpu::Problem p;
    p.dtype = c.dtype;
    p.Nq = c.shape.Nq, p.Nd = c.shape.Nd, p.Lq = c.shape.Lq, p.Ld = c.shape.Ld, p.d = c.shape.d;
    p.features = c.features;
    p.seed = 42;
    const gpu::Instance instance(p);
    const auto prepared = std::chrono::steady_clock::now();
    const maxsim_jit::Plan plan = maxsim_jit::prepare_plan(context_, instance.call(stopwatch_.stream()));
    const std::chrono::duration<double> preparing = std::chrono::steady_clock::now() - prepared;
    const Measured ours = time_scores(instance, plan);
    const double read = read_ms(instance) - empty_ms_;
    const Measured again = time_scores(instance, plan);  // a state of the machine that passes shows as a difference
    const double rate = matrix_rate(c.dtype);
    const double flops = rate > 0 ? 2 * p.multiply_adds() / (rate * 1e9) : 0;
    const double floor = std::max(read, flops);
    Json row = {{"shape", c.shape.name},
                {"Nq", p.Nq},
                {"Nd", p.Nd},
                {"Lq", p.Lq},
                {"Ld", p.Ld},
                {"d", p.d},
                {"dtype", name(p.dtype)},
                {"features", gpu::features_text(p.features)},
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
    if (const Json *peer = peer_of(c)) row["torch"] = *peer;
    if (options_.candidates) row["candidates"] = time_candidates(instance);
    return row;
  }

 private:
  using Measured = bench::Measured;

  Measured time_scores(const gpu::Instance &instance, const maxsim_jit::Plan &plan) {
    maxsim_jit::Launch launch;
    launch.stream = stopwatch_.stream();
    launch.plan = &plan;
    auto call = instance.call();
    call.launch(launch);
    return stopwatch_.time([&](CUstream) { maxsim_jit::run(context_, call); });
  }

  Json time_candidates(const gpu::Instance &instance) {
    const gpu::Problem &p = instance.problem();
    const testing::ScratchDirectory root;
    gpu::ForcedContexts contexts(root.path());
    contexts.compile_sweep(p.dtype, p.d);
    Json rows = Json::array();
    std::size_t index = 0;
    for (const gpu::Candidate &candidate : gpu::admitted_candidates(p.dtype, p.d)) {
      if (!candidate.takes(gpu::layout_of(p))) continue;
      const auto session = contexts.context(candidate.config, index++);
      auto call = instance.call(stopwatch_.stream());
      const Measured time = stopwatch_.time([&](CUstream) { gpu::run(session->get(), call); });
      rows.push_back({{"config", to_string(candidate.config)}, {"time_ms", time.median_ms}});
      fmt::print("    {:8.4f} ms +- {:.1f} % {}\n", time.median_ms, 100 * time.deviation, to_string(candidate.config));
    }
    return rows;
  }

  // The same bytes read, at the best of a few grids.
  double read_ms(const gpu::Instance &instance) {
    const auto bytes_of = [&](std::size_t operand) {
      const auto &placement = instance.operand(operand).placement();
      return placement.elements() * bytes(placement.dtype);
    };
    const void *documents = instance.operand(MSJ_DENSE_FORWARD_D).view().data;
    const void *queries = instance.operand(MSJ_DENSE_FORWARD_Q).view().data;
    const long long document_words = bytes_of(MSJ_DENSE_FORWARD_D) / 16;
    const long long query_words = bytes_of(MSJ_DENSE_FORWARD_Q) / 16;
    void *sink = sink_.get();
    double best = 1e30;
    for (const int blocks : {2, 4, 8}) {
      for (const int threads : {256, 512}) {
        const std::int64_t grid = std::int64_t{gpu::Gpu::get().info().limits.sm_count} * blocks;
        const Measured read = stopwatch_.time([&](CUstream stream) {
          kernels_.launch(stream, "read_16", grid, threads, documents, document_words, queries, query_words, sink);
        });
        best = std::min(best, read.median_ms);
      }
    }
    return best;
  }

  // TFLOP/s of a large matrix product; 0 if peers.py did not say.
  double matrix_rate(DType dtype) const {
    const auto ceilings = peers_.value("ceilings", Json::object());
    return ceilings.value(std::string(name(dtype)), 0.0);
  }

  const Json *peer_of(const Case &c) const {
    const std::string key = std::string(c.shape.name) + " " + std::string(name(c.dtype));
    if (c.features != 0 || !peers_.contains("shapes") || !peers_["shapes"].contains(key)) return nullptr;
    return &peers_["shapes"][key];
  }

  const Options &options_;
  const maxsim_jit::Context &context_;
  bench::Stopwatch stopwatch_;
  gpu::DeviceBytes sink_;
  gpu::Kernels kernels_{{"bench/bench_kernels.cu"}};
  Json peers_ = Json::object();
  double empty_ms_ = 0;
};

void print_row(const Json &row) {
  const double torch = row.contains("torch") ? row["torch"].value("ms", 0.0) : 0.0;
  fmt::print("{:<14} {:<4} {:<38} {:8.4f} {:8.4f} {:8.4f} {:8.4f} {:6.1f} % {:>9} {}\n",
             row["shape"].get<std::string>(), row["dtype"].get<std::string>(), row["features"].get<std::string>(),
             row["read_ms"].get<double>(), row["matrix_ms"].get<double>(), row["floor_ms"].get<double>(),
             row["time_ms"].get<double>(), 100 * row["efficiency"].get<double>(),
             torch > 0 ? fmt::format("{:.4f}", torch) : "-", row["config"].get<std::string>());
}

int run_bench(const Options &options) {
  const char *cache = std::getenv("MAXSIM_JIT_CACHE_DIR");
  const testing::ScratchDirectory scratch;
  const maxsim_jit::Context context({.cache_dir = cache == nullptr ? scratch.path() : "", .tune = "on"});
  const auto start = std::chrono::steady_clock::now();
  Bench bench(options, context);
  Json document = {{"schema", "maxsim-jit/bench-dense/1"},
                   {"environment", gpu::Gpu::get().info().environment()},
                   {"driver", gpu::Gpu::get().info().driver_version},
                   {"empty_ms", bench.empty_ms()},
                   {"rows", Json::array()}};
  fmt::print("empty launch {:.4f} ms; {} rounds, cold L2, random data; times in ms\n", bench.empty_ms(),
             options.rounds);
  fmt::print("{:<14} {:<4} {:<38} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9} config\n", "shape", "type", "features", "read",
             "matrix", "floor", "ours", "of floor", "torch");
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
      fmt::print("{} {}: {}\n", c.shape.name, name(c.dtype), error.what());
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
