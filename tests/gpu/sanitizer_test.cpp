// Small problems for compute-sanitizer: every candidate in every layout class it takes, and every feature set, each
// operand exactly as large as its tensor. gpu_check.sh runs this file under memcheck and racecheck.
//
// MSJ_GPU_CACHE keeps the contexts' caches, so that a run under the sanitizer finds what a plain run compiled;
// MSJ_GPU_SECONDS ends it early, saying how far it came: the most telling problems come first.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>

#include "gpu/candidates.h"
#include "gpu/instance.h"

using namespace msj;
using namespace msj::gpu;

namespace {

double seconds_allowed() {
  const char *text = std::getenv("MSJ_GPU_SECONDS");
  return text == nullptr ? 1e9 : std::strtod(text, nullptr);
}

std::string cache_root(const testing::ScratchDirectory &scratch) {
  const char *text = std::getenv("MSJ_GPU_CACHE");
  return text == nullptr ? scratch.path() : std::string(text) + "/sanitizer";
}

constexpr int kDepth = 100;  // rows end within 16 bytes

// Several documents a block, ragged tiles in every dimension, a query longer than some blocks take at once.
Problem small(DType dtype, FeatureSet features, Placing placing) {
  Problem p;
  p.dtype = dtype;
  p.Nq = 2, p.Nd = 5, p.Lq = 75, p.Ld = 141, p.d = kDepth;
  p.features = features;
  p.d_lengths = true;
  p.q = p.documents = placing;
  p.guard = 0;
  p.seed = 7;
  return p;
}

struct Step {
  std::size_t candidate;
  Problem problem;
};

// All features and none of every candidate first, then every feature set of the first candidate.
std::vector<Step> steps_of(DType dtype, const std::vector<Candidate> &candidates) {
  std::vector<Step> steps;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    for (const FeatureSet features : {kAllFeatures, FeatureSet{0}}) {
      for (const Placing placing : {Placing::padded, Placing::odd_rows}) {
        const Problem problem = small(dtype, features, placing);
        if (candidates[i].takes(layout_of(problem))) steps.push_back({i, problem});
      }
    }
  }
  for (FeatureSet features = 1; features < kAllFeatures; ++features) {
    for (const Placing placing : {Placing::padded, Placing::odd_rows}) {
      const Problem problem = small(dtype, features, placing);
      if (candidates[0].takes(layout_of(problem))) steps.push_back({0, problem});
    }
  }
  return steps;
}

// What one dtype launches, in the order in which it matters.
struct Program {
  std::vector<Candidate> candidates;
  std::vector<std::unique_ptr<testing::Session>> sessions;
  std::vector<Step> steps;
};

Program program_of(DType dtype, const std::string &root) {
  ForcedContexts contexts(root + "/" + std::string(name(dtype)));
  contexts.compile_sweep(dtype, kDepth);
  Program program;
  program.candidates = admitted_candidates(dtype, kDepth);
  program.steps = steps_of(dtype, program.candidates);
  for (std::size_t i = 0; i < program.candidates.size(); ++i) {
    program.sessions.push_back(contexts.context(program.candidates[i].config, i));
  }
  return program;
}

}  // namespace

TEST_SUITE("sanitizer") {
  TEST_CASE("small problems on every candidate") {
    const auto start = std::chrono::steady_clock::now();
    const testing::ScratchDirectory scratch;
    std::vector<Program> programs;
    for (const DType dtype : kMatrixDtypes) programs.push_back(program_of(dtype, cache_root(scratch)));
    std::size_t most = 0;
    std::size_t total = 0;
    for (const Program &program : programs) {
      most = std::max(most, program.steps.size());
      total += program.steps.size();
    }
    const auto is_late = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > seconds_allowed();
    };
    // Compiled on all cores; under a sanitizer all of it comes from the cache, and loading costs enough to be done
    // late.
    if (std::getenv("MSJ_GPU_SECONDS") == nullptr) {
      in_parallel(most * programs.size(), [&](std::size_t i) {
        Program &program = programs[i % programs.size()];
        if (i / programs.size() >= program.steps.size()) return;
        const Step &step = program.steps[i / programs.size()];
        (void)config_of(*program.sessions[step.candidate], step.problem);
      });
    }
    std::size_t done = 0;
    for (std::size_t s = 0; s < most && !is_late(); ++s) {
      for (Program &program : programs) {
        if (s >= program.steps.size()) continue;
        const Step &step = program.steps[s];
        CAPTURE(step.problem.text());
        CAPTURE(to_string(program.candidates[step.candidate].config));
        const Instance instance(step.problem);
        run(program.sessions[step.candidate]->get(), instance.call());
        CHECK(complaint(instance.judge(false)) == "");
        ++done;
      }
    }
    fmt::print("sanitizer: {} of {} problems launched\n", done, total);
  }
}
