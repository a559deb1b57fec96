// Small integers, where float32 sums are exact: scores and argmax equal the reference bit for bit, with many ties, for
// every dtype, layout class and feature set but `normalize`.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <bit>
#include <random>

#include "gpu/instance.h"
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
  const maxsim_jit::Context context({.cache_dir = cache.path(), .tune = "off"});
  const std::vector<Problem> all = problems();
  in_parallel(all.size(), [&](std::size_t i) { maxsim_jit::prepare(context, all[i].call_to_prepare()); });
  for (const Problem &problem : all) {
    CAPTURE(problem.text());
    const Instance instance(problem);
    run(context.get(), instance.call());
    const auto results = instance.results();
    const auto reference = instance.reference(context.get());
    CHECK(equal_bits(results.scores, reference.scores));
    CHECK(results.argmax == reference.argmax);
    CHECK(complaint(instance.judge(true)) == "");
  }
  fmt::print("exact: {} problems bit-equal to the reference, seed {}\n", all.size(), test_seed());
}
