// Small problems of fp8_forward, fused_head_forward, fp8_quantize and the residual ops for compute-sanitizer: every
// candidate in every layout class it takes, with all features and with none, each operand exactly as large as its
// tensor. gpu_check.sh runs this file under memcheck and racecheck.
//
// MSJ_GPU_CACHE keeps the contexts' caches, so that a run under the sanitizer finds what a plain run compiled;
// MSJ_GPU_SECONDS ends it early, saying how far it came.
#include <doctest/doctest.h>

#include <chrono>

#include "gpu/op_candidates.h"
#include "gpu/op_judge.h"

using namespace msj;
using namespace msj::gpu;

namespace {

double seconds_allowed() {
  const char *text = std::getenv("MSJ_GPU_SECONDS");
  return text == nullptr ? 1e9 : std::strtod(text, nullptr);
}

std::string cache_root(const testing::ScratchDirectory &scratch) {
  const char *text = std::getenv("MSJ_GPU_CACHE");
  return text == nullptr ? scratch.path() : std::string(text) + "/op_sanitizer";
}

// Several documents a block, ragged tiles in every dimension, rows that end within 16 bytes (of 2 bits within 4), a
// query longer than some blocks take at once.
OpProblem small(msj_op op, std::vector<DType> own) {
  OpProblem p;
  p.op = &op_of(op);
  p.own = std::move(own);
  if (op == MSJ_FP8_QUANTIZE) {
    p.resize({{"N", 5}, {"L", 141}, {"d", 100}});
    p.fill = Fill::special;
  } else if (op == MSJ_RESIDUAL_FORWARD || op == MSJ_RESIDUAL_NORMS) {
    p.resize({{"Nd", 9}, {"N", 141}, {"K", 37}, {"d", 100}, {"nbits", 2}});
    if (op == MSJ_RESIDUAL_FORWARD) p.resize({{"Nq", 2}, {"Lq", 75}, {"Ld", 141}});
    p.fill = Fill::integers;
    p.broken = true;
  } else {
    p.resize({{"Nq", 2}, {"Nd", 5}, {"Lq", 75}, {"Ld", 141}});
    if (op == MSJ_FP8_FORWARD) p.resize({{"d", 100}});
    if (op == MSJ_FUSED_HEAD_FORWARD) p.resize({{"d_out", 100}, {"d_model", 92}});
    p.fill = Fill::integers;
  }
  p.extras = true;
  p.singles = true;
  p.alternative = 1;
  p.guard = 0;
  p.seed = 7;
  return p;
}

struct Step {
  std::size_t candidate;
  OpProblem problem;
};

// What one op and dtypes launch, in order.
struct Program {
  std::vector<Candidate> candidates;
  std::vector<std::unique_ptr<testing::Session>> sessions;
  std::vector<Step> steps;

  Program(OpProblem problem, const std::string &root) : candidates(admitted_candidates(problem)) {
    const ForcedOpContexts contexts(root, problem);
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      sessions.push_back(contexts.context(candidates[i].config, i));
      for (const FeatureSet features : {problem.op->all_features(), FeatureSet{0}}) {
        for (const Placing placing : {Placing::padded, Placing::odd_rows}) {
          problem.features = features;
          problem.streamed = placing;
          if (candidates[i].takes(layout_of(problem))) steps.push_back({i, problem});
        }
      }
    }
  }

  static void check_norms(const OpResults &got, const OpResults &want) {
    ScoreCheck check;
    for (std::size_t i = 0; i < got[MSJ_RESIDUAL_NORMS_INV_NORMS].size(); ++i) {
      if (got[MSJ_RESIDUAL_NORMS_INV_NORMS][i] == want[MSJ_RESIDUAL_NORMS_INV_NORMS][i]) continue;  // or untouched
      const float expected = std::bit_cast<float>(want[MSJ_RESIDUAL_NORMS_INV_NORMS][i]);
      check.take(i, std::bit_cast<float>(got[MSJ_RESIDUAL_NORMS_INV_NORMS][i]), expected, 1e-6 * std::abs(expected));
    }
    CHECK(check.complaint() == "");
  }

  // Integers are exact; normalized ones are not.
  void launch(const Step &step) const {
    CAPTURE(step.problem.text());
    CAPTURE(to_string(candidates[step.candidate].config));
    OpInstance instance(step.problem);
    msj_context *context = sessions[step.candidate]->get();
    const OpResults got = instance.run(context);
    const OpResults want = instance.reference(context);
    CHECK(instance.damage() == "");
    if (step.problem.op->id == MSJ_RESIDUAL_NORMS) return check_norms(got, want);
    if (find_named(step.problem.op->features, "normalize") < 0 || !step.problem.has("normalize")) {
      CHECK(difference(step.problem, got, want) == "");
      return;
    }
    const std::size_t scores = operand_of(*step.problem.op, "scores");
    ScoreCheck check;
    for (std::size_t i = 0; i < got[scores].size(); ++i) {
      const float expected = std::bit_cast<float>(want[scores][i]);
      check.take(i, std::bit_cast<float>(got[scores][i]), expected, 1e-2 * (1 + std::abs(expected)));
    }
    CHECK(check.complaint() == "");
  }
};

std::vector<Program> programs(const std::string &root) {
  const std::vector<OpProblem> problems = {small(MSJ_FUSED_HEAD_FORWARD, {DType::bf16}),
                                           small(MSJ_FP8_FORWARD, {DType::fp8_e4m3, DType::fp8_e5m2}),
                                           small(MSJ_FUSED_HEAD_FORWARD, {DType::f32}),
                                           small(MSJ_FP8_QUANTIZE, {DType::f32, DType::fp8_e4m3}),
                                           small(MSJ_FP8_QUANTIZE, {DType::bf16, DType::fp8_e5m2}),
                                           small(MSJ_RESIDUAL_FORWARD, {DType::f16, DType::f16}),
                                           small(MSJ_RESIDUAL_FORWARD, {DType::bf16, DType::f32}),
                                           small(MSJ_RESIDUAL_NORMS, {DType::f16})};
  std::vector<Program> all;
  for (std::size_t i = 0; i < problems.size(); ++i) all.emplace_back(problems[i], fmt::format("{}/{}", root, i));
  return all;
}

}  // namespace

TEST_SUITE("sanitizer") {
  TEST_CASE("small problems of the other ops on every candidate") {
    const auto start = std::chrono::steady_clock::now();
    const testing::ScratchDirectory scratch;
    const std::vector<Program> all = programs(cache_root(scratch));
    std::size_t most = 0;
    std::size_t total = 0;
    for (const Program &program : all) {
      most = std::max(most, program.steps.size());
      total += program.steps.size();
    }
    // Compiled on all cores; under a sanitizer all of it comes from the cache, and loading costs enough to be done
    // late.
    if (std::getenv("MSJ_GPU_SECONDS") == nullptr) {
      in_parallel(most * all.size(), [&](std::size_t i) {
        const Program &program = all[i % all.size()];
        if (i / all.size() >= program.steps.size()) return;
        const Step &step = program.steps[i / all.size()];
        (void)config_of(*program.sessions[step.candidate], step.problem);
      });
    }
    const auto is_late = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > seconds_allowed();
    };
    std::size_t done = 0;
    for (std::size_t s = 0; s < most && !is_late(); ++s) {
      for (const Program &program : all) {
        if (s >= program.steps.size()) continue;
        program.launch(program.steps[s]);
        ++done;
      }
    }
    fmt::print("sanitizer: {} of {} problems of the other ops launched\n", done, total);
  }
}
