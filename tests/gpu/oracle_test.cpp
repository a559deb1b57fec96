// The float64 oracle on the GPU against the CPU reference: two programs that share no line. And against itself broken:
// a check that passes everything would be worse than none.
#include "gpu/oracle.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <random>

#include "gpu/host_values.h"
#include "gpu/instance.h"

using namespace msj;
using namespace msj::gpu;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

void run_oracle(Oracle &oracle, const Instance &instance) {
  const auto places = instance.problem().placements();
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i]) oracle.set(i, instance.operand(i).view());
  }
  oracle.compute();
}

// The reference rounds to float32 once.
bool agree(double oracle, float reference) {
  if (std::isnan(oracle)) return std::isnan(reference);
  if (std::isinf(oracle)) return static_cast<double>(reference) == oracle;
  return std::abs(oracle - static_cast<double>(reference)) <= 1.2e-7 * std::abs(oracle) + 1e-30;
}

void compare(const maxsim_jit::Context &context, const Instance &instance) {
  CAPTURE(instance.problem().text());
  Oracle oracle(instance.problem(), false);
  run_oracle(oracle, instance);
  const auto reference = instance.reference(context.get());
  const auto sums = oracle.sums();
  REQUIRE(sums.size() == reference.scores.size());
  std::size_t differing = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) differing += agree(sums[i], reference.scores[i]) ? 0 : 1;
  CHECK(differing == 0);
  if (instance.problem().has(kArgmax)) CHECK(oracle.winners() == reference.argmax);
}

Problem random_problem(std::mt19937_64 &random, FeatureSet features, DType dtype) {
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  Problem p;
  p.dtype = dtype;
  p.Nq = draw(1, 3), p.Nd = draw(1, 6), p.Lq = draw(1, 70), p.Ld = draw(1, 90), p.d = draw(9, 80);
  p.features = features;
  p.d_lengths = draw(0, 1) == 1;
  p.neg_inf = draw(0, 1) == 1;
  p.values = p.has(kNormalize) ? Values::rows : static_cast<Values>(draw(0, 1));
  p.mask_dtype = std::array{DType::boolean, DType::u8, DType::i8}[static_cast<std::size_t>(draw(0, 2))];
  p.q = kPlacings[static_cast<std::size_t>(draw(0, 4))];
  p.documents = kPlacings[static_cast<std::size_t>(draw(0, 4))];
  p.others = kPlacings[static_cast<std::size_t>(draw(0, 4))];
  p.seed = random();
  return p;
}

// NaN and infinities at random places, active or masked.
void plant_specials(std::mt19937_64 &random, const Instance &instance) {
  for (const std::size_t index : {MSJ_DENSE_FORWARD_Q, MSJ_DENSE_FORWARD_D}) {
    const auto elements = static_cast<std::uint64_t>(instance.operand(index).placement().elements());
    for (const float value : {kNan, kInf, -kInf}) plant(instance.operand(index), random() % elements, value);
  }
}

// B, by nothing but loops.
double plain_bound(const std::vector<float> &q, const std::vector<float> &d, std::int64_t Lq, std::int64_t Ld,
                   std::int64_t k) {
  double bound = 0;
  for (std::int64_t s = 0; s < Lq; ++s) {
    double most = 0;
    for (std::int64_t t = 0; t < Ld; ++t) {
      double sum = 0;
      for (std::int64_t c = 0; c < k; ++c) {
        sum += std::abs(static_cast<double>(q[static_cast<std::size_t>(s * k + c)]) *
                        static_cast<double>(d[static_cast<std::size_t>(t * k + c)]));
      }
      most = std::max(most, sum);
    }
    bound += most;
  }
  return bound;
}

}  // namespace

TEST_CASE("the oracle agrees with the CPU reference") {
  std::mt19937_64 random(test_seed());
  const maxsim_jit::Context context({.cache_dir = "/nonexistent", .tune = "off"});
  int problems = 0;
  for (const DType dtype : kMatrixDtypes) {
    for (FeatureSet features = 0; features <= kAllFeatures; ++features) {
      const Instance instance(random_problem(random, features, dtype));
      compare(context, instance);
      plant_specials(random, instance);
      compare(context, instance);
      problems += 2;
    }
  }
  fmt::print("oracle: {} problems equal to the CPU reference, seed {}\n", problems, test_seed());
}

TEST_CASE("the oracle's B is the sum of the largest sums of magnitudes") {
  Problem p;
  p.dtype = DType::f32;
  p.Lq = 5, p.Ld = 67, p.d = 19;
  const Instance instance(p);
  Oracle oracle(p, false);
  run_oracle(oracle, instance);
  const auto q = instance.operand(MSJ_DENSE_FORWARD_Q).elements<float>();
  const auto d = instance.operand(MSJ_DENSE_FORWARD_D).elements<float>();
  CHECK(oracle.bounds().at(0) == doctest::Approx(plain_bound(q, d, p.Lq, p.Ld, p.d)).epsilon(1e-12));
}

TEST_CASE("the checks see what is wrong") {
  Problem p;
  p.Nq = 2, p.Nd = 3, p.Lq = 5, p.Ld = 40, p.d = 24;
  p.features = kArgmax;
  const Instance instance(p);
  const maxsim_jit::Context context({.cache_dir = "/nonexistent", .tune = "off"});
  const auto reference = instance.reference(context.get());
  const Operand &scores = instance.operand(MSJ_DENSE_FORWARD_SCORES);
  const Operand &argmax = instance.operand(MSJ_DENSE_FORWARD_ARGMAX);
  const auto judged = [&](const std::vector<float> &wrong_scores, const std::vector<int> &wrong_argmax) {
    scores.set(wrong_scores);
    argmax.set(wrong_argmax);
    return instance.judge(false);
  };
  CHECK(complaint(judged(reference.scores, reference.argmax)).empty());

  auto wrong_scores = reference.scores;
  wrong_scores[4] += 1e-3F * std::abs(wrong_scores[4]) + 1e-3F;
  CHECK(judged(wrong_scores, reference.argmax).bad_scores == 1);
  CHECK(judged(wrong_scores, reference.argmax).first_bad_score == 4);
  wrong_scores[4] = kNan;
  CHECK(judged(wrong_scores, reference.argmax).bad_scores == 1);

  auto wrong_argmax = reference.argmax;
  wrong_argmax[7] = (wrong_argmax[7] + 1) % 40;
  wrong_argmax[9] = -1;
  wrong_argmax[11] = 40;
  CHECK(judged(reference.scores, wrong_argmax).bad_argmax == 3);
  wrong_argmax = reference.argmax;
  wrong_argmax[3] = kPoisonedWord;
  CHECK(judged(reference.scores, wrong_argmax).unwritten == 1);

  scores.set(reference.scores);
  argmax.set(reference.argmax);
  auto bytes = scores.download();
  bytes[255] = 0;
  scores.memory().upload(bytes.data());
  CHECK(instance.judge(false).corrupted == 1);
}
