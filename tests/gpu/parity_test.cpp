// Accuracy, DESIGN section 5: every dtype and feature set on random shapes and layouts, each score within its bound of
// float64, each argmax a maximum within rounding, every result written and nothing beside it.
//
// Every path that takes the problem, by its first candidate, which configs_test relates to the path's others bit by
// bit.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <random>

#include "gpu/instance.h"
#include "gpu/op_candidates.h"
#include "support/scratch.h"

using namespace msj;
using namespace msj::gpu;

namespace {

constexpr std::int64_t kMostTokens = 5'000;
constexpr double kMostResults = 16'777'216;  // query tokens x documents: what the oracle keeps

class Shapes {
 public:
  explicit Shapes(std::uint64_t seed) : random_(seed) {}

  Problem next(DType dtype, FeatureSet features, int index) {
    Problem p;
    p.dtype = dtype;
    p.features = features;
    p.Lq = tokens(index == 0), p.Ld = tokens(index == 1);
    p.d = dimension();
    const double least = index < 2 ? 28 : 18;  // room for the longest
    const double budget = std::exp2(is_quick() ? real(18, 24) : real(least, 36));
    while (p.multiply_adds() > budget && (p.Lq > 1 || p.Ld > 1)) (p.Lq > p.Ld ? p.Lq : p.Ld) /= 2;
    const double pairs = std::max(1.0, budget / p.multiply_adds());
    const double Nq = std::min({std::exp2(real(0, 8)), pairs, kMostResults / static_cast<double>(p.Lq)});
    p.Nq = std::max<std::int64_t>(1, static_cast<std::int64_t>(Nq));
    const double most_documents =
        std::min(kMostResults / static_cast<double>(p.Nq * p.Lq), 268'435'456.0 / static_cast<double>(p.Ld * p.d));
    p.Nd = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(std::min(pairs / static_cast<double>(p.Nq), most_documents)));
    arrange(p);
    return p;
  }

 private:
  std::int64_t whole(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  double real(double low, double high) { return std::uniform_real_distribution<double>(low, high)(random_); }

  std::int64_t tokens(bool most) {
    if (most) return kMostTokens;
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::exp2(real(0, std::log2(kMostTokens)))));
  }

  std::int64_t dimension() {
    constexpr std::array<std::int64_t, 12> kUsual = {128, 128, 128, 96, 48, 64, 256, 320, 384, 768, 1'024, 4'096};
    if (whole(0, 2) != 0)
      return kUsual[static_cast<std::size_t>(whole(0, kUsual.size() - 1))] - (whole(0, 3) == 0 ? 1 : 0);
    return whole(1, whole(0, 3) == 0 ? 1'200 : 160);
  }

  void arrange(Problem &p) {
    const auto placing = [&] { return kPlacings[static_cast<std::size_t>(whole(0, 4))]; };
    // Half of them in the class `aligned16`.
    const bool aligned = whole(0, 1) == 0;
    p.q = aligned ? Placing::padded : placing();
    p.documents = aligned ? Placing::padded : placing();
    p.others = placing();
    p.d_lengths = whole(0, 1) == 0;
    p.neg_inf = whole(0, 1) == 0;
    p.mask_dtype = std::array{DType::boolean, DType::u8, DType::i8}[static_cast<std::size_t>(whole(0, 2))];
    p.values = p.has(kNormalize) && whole(0, 1) == 0 ? Values::rows : Values::random;
    p.seed = static_cast<std::uint64_t>(whole(1, 1'000'000'000));
  }

  std::mt19937_64 random_;
};

std::vector<Problem> problems() {
  Shapes shapes(test_seed());
  std::vector<Problem> all;
  const int each = is_quick() ? 2 : 5;
  for (const DType dtype : kMatrixDtypes) {
    for (FeatureSet features = 0; features <= kAllFeatures; ++features) {
      for (int i = 0; i < each; ++i) all.push_back(shapes.next(dtype, features, i));
    }
  }
  return all;
}

struct Worst {
  int problems = 0;
  float score = 0, argmax = 0;
  std::string where;
  void add(const Problem &problem, const Verdict &verdict) {
    ++problems;
    argmax = std::max(argmax, verdict.worst_argmax);
    if (verdict.worst_score < score) return;
    score = verdict.worst_score;
    where = problem.text();
  }
};

}  // namespace

TEST_CASE("every dtype and feature set is within its bound of float64 on random shapes") {
  const testing::ScratchDirectory cache;
  AllPaths paths(ops::dense_forward_spec(), cache.path());
  const std::vector<Problem> all = problems();
  paths.prepare(all.size(), [&](std::size_t i) { return all[i].call_to_prepare(); });
  fmt::print("parity: {} problems, {} compiles, seed {}\n", all.size(), paths.compiles(), test_seed());

  std::map<std::pair<DType, std::string>, Worst> worst;
  double most = 0;
  for (const Problem &problem : all) {
    CAPTURE(problem.text());
    const Instance instance(problem);
    const int taken = paths.each(problem.call_to_prepare(), [&](ForcedPath &path) {
      CAPTURE(path.path());
      instance.poison();
      run(path.get(), instance.call());
      const Verdict verdict = instance.judge(false);
      CHECK(complaint(verdict) == "");
      worst[{problem.dtype, path.path()}].add(problem, verdict);
    });
    CHECK(taken > 0);
    most = std::max(most, problem.multiply_adds());
  }
  for (const auto &[which, w] : worst) {
    fmt::print("parity: {} {}: {} problems, worst error / bound {:.3f}, argmax {:.3f}; at {}\n", name(which.first),
               which.second, w.problems, w.score, w.argmax, w.where);
  }
  fmt::print("parity: largest problem 2^{:.1f} multiply-adds\n", std::log2(most));
}
