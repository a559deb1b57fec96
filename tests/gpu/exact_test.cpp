// Small integers, where float32 sums are exact: scores and argmax equal the reference bit for bit, with many ties, for
// every dtype, layout class and feature set but `normalize`.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <bit>
#include <map>
#include <random>

#include "gpu/instance.h"
#include "gpu/op_candidates.h"
#include "support/scratch.h"

using namespace msj;
using namespace msj::gpu;

namespace {

struct Shape {
  std::int64_t Nq, Nd, Lq, Ld, d;
};

std::vector<Problem> problems() {
  constexpr std::array<Shape, 6> kShapes = {{{1, 7, 32, 300, 128},
                                             {5, 9, 19, 77, 128},
                                             {3, 4, 130, 257, 40},
                                             {40, 3, 8, 64, 40},
                                             {1, 2, 1030, 1025, 40},
                                             {2, 300, 1, 1, 128}}};
  std::mt19937_64 random(test_seed());
  std::vector<Problem> all;
  for (const DType dtype : kMatrixDtypes) {
    for (FeatureSet features = 0; features <= kAllFeatures; ++features) {
      if ((features & kNormalize) != 0) continue;
      for (std::size_t i = 0; i < kShapes.size(); ++i) {
        const Shape &s = kShapes[i];
        Problem p;
        p.dtype = dtype;
        p.Nq = s.Nq, p.Nd = s.Nd, p.Lq = s.Lq, p.Ld = s.Ld, p.d = s.d;
        p.features = features;
        p.values = Values::integers;
        p.d_lengths = random() % 2 == 0;
        p.neg_inf = random() % 2 == 0;
        p.q = p.documents = i % 2 == 0 ? Placing::contiguous : kPlacings[random() % kPlacings.size()];
        p.seed = random();
        all.push_back(p);
      }
    }
  }
  return all;
}

bool equal_bits(const std::vector<float> &a, const std::vector<float> &b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("small integers are exact, ties go to the lowest token") {
  const testing::ScratchDirectory cache;
  AllPaths paths(ops::dense_forward_spec(), cache.path());
  const std::vector<Problem> all = problems();
  paths.prepare(all.size(), [&](std::size_t i) { return all[i].call_to_prepare(); });
  std::map<std::string, int> runs;
  for (const Problem &problem : all) {
    CAPTURE(problem.text());
    const Instance instance(problem);
    const auto reference = instance.reference(paths.any());
    paths.each(problem.call_to_prepare(), [&](ForcedPath &path) {
      CAPTURE(path.path());
      instance.poison();
      run(path.get(), instance.call());
      const auto results = instance.results();
      CHECK(equal_bits(results.scores, reference.scores));
      CHECK(results.argmax == reference.argmax);
      CHECK(complaint(instance.judge(true)) == "");
      ++runs[path.path()];
    });
  }
  for (const auto &[path, count] : runs) {
    fmt::print("exact: {}: {} problems bit-equal to the reference, seed {}\n", path, count, test_seed());
  }
}
