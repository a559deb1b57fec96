// DESIGN section 5's table of semantics, case by case on the GPU: what the table says, and what the CPU reference says.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <limits>
#include <random>

#include "gpu/host_values.h"
#include "gpu/instance.h"
#include "gpu/op_candidates.h"
#include "support/scratch.h"

using namespace msj;
using namespace msj::gpu;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

// d is 2; one query unless said otherwise. Empty masks and lengths: absent.
struct Case {
  std::string what;
  std::int64_t Nd;
  std::vector<float> q;  // [Lq, 2]
  std::vector<float> d;  // [Nd, Ld, 2]
  std::vector<float> scores;
  std::vector<int> argmax;
  std::vector<std::uint8_t> q_mask = {};
  std::vector<std::uint8_t> d_mask = {};
  std::vector<int> lengths = {};
  bool neg_inf = false;
  bool normalize = false;
};

// Scores of each document token against q = (1, 0) are the first numbers of its rows.
std::vector<Case> mask_cases() {
  return {
      {"a masked document token never wins", 1, {1, 0}, {3, 0, 9, 0, 5, 0}, {5}, {2}, {}, {1, 0, 1}},
      {"any nonzero byte keeps", 1, {1, 0}, {3, 0, 9, 0, 5, 0}, {9}, {1}, {}, {0, 255, 2}},
      {"a masked query token adds 0", 1, {1, 0, 0, 1}, {3, 7}, {3}, {0, -1}, {1, 0}},
      {"no active query token gives 0", 2, {1, 0}, {3, 0, 4, 0}, {0, 0}, {-1, -1}, {0}},
      {"no active query token gives 0 for empty documents, too", 1, {1, 0}, {3, 0}, {0}, {-1}, {0}, {0}, {}, true},
      {"masks and lengths combine",
       2,
       {1, 0},
       {1, 0, 5, 0, 9, 0, 1, 0, 5, 0, 9, 0},
       {1, 5},
       {0, 1},
       {},
       {1, 0, 1, 1, 1, 0},
       {2, 3}},
      {"lengths below 0 are 0, above Ld are Ld",
       4,
       {1, 0},
       {1, 0, 5, 0, 2, 0, 6, 0, 3, 0, 7, 0, 4, 0, 8, 0},
       {1, 0, 7, 0},
       {0, -1, 1, -1},
       {},
       {},
       {1, -5, 99, 0}},
  };
}

std::vector<Case> empty_cases() {
  std::vector<Case> cases;
  for (const bool neg_inf : {false, true}) {
    const float empty = neg_inf ? -kInf : 0.0F;
    cases.push_back({"a document without active token, by mask",
                     2,
                     {1, 0},
                     {3, 0, 4, 0, 5, 0, 6, 0},
                     {empty, 6},
                     {-1, 1},
                     {},
                     {0, 0, 1, 1},
                     {},
                     neg_inf});
    cases.push_back({"a document without active token, by length",
                     2,
                     {1, 0},
                     {3, 0, 4, 0, 5, 0, 6, 0},
                     {empty, 6},
                     {-1, 1},
                     {},
                     {},
                     {0, 2},
                     neg_inf});
    cases.push_back({"masked query tokens beside an empty document",
                     1,
                     {1, 0, 1, 0},
                     {3, 0},
                     {empty},
                     {-1, -1},
                     {1, 0},
                     {0},
                     {},
                     neg_inf});
    cases.push_back({"Ld is 0", 2, {1, 0}, {}, {empty, empty}, {-1, -1}, {}, {}, {}, neg_inf});
    cases.push_back({"Lq is 0", 2, {}, {3, 0, 4, 0}, {0, 0}, {}, {}, {}, {}, neg_inf});
    cases.push_back({"a real -inf is a token", 1, {1, 0}, {-kInf, 0}, {-kInf}, {0}, {}, {}, {}, neg_inf});
  }
  return cases;
}

std::vector<Case> value_cases() {
  return {
      {"a tie goes to the lowest token", 1, {1, 0}, {2, 1, 5, 2, 5, 3, 5, 4}, {5}, {1}},
      {"NaN wins, the lowest of them", 1, {1, 0}, {9, 0, kNan, 0, 99, 0, kNan, 0}, {kNan}, {1}},
      {"a NaN in the query makes the first token win", 1, {kNan, 0}, {1, 0, 2, 0}, {kNan}, {0}},
      {"NaN in a masked document token has no effect", 1, {1, 0}, {3, 0, kNan, 0}, {3}, {0}, {}, {1, 0}},
      {"NaN past the length has no effect", 1, {1, 0}, {3, 0, kNan, kNan}, {3}, {0}, {}, {}, {1}},
      {"NaN in a masked query token has no effect", 1, {1, 0, kNan, kNan}, {3, 0}, {3}, {0, -1}, {1, 0}},
      {"+inf wins", 1, {1, 0}, {3, 0, kInf, 0, 9, 0}, {kInf}, {1}},
      {"-inf loses to any number", 1, {1, 0}, {-kInf, 0, -9, 0}, {-9}, {1}},
      {"of two -inf the lower wins", 1, {1, 0}, {-kInf, 0, -kInf, 0}, {-kInf}, {0}},
      {"-inf behind a masked token", 1, {1, 0}, {3, 0, -kInf, 0}, {-kInf}, {1}, {}, {0, 1}},
      {"inf - inf is NaN", 1, {1, 1}, {1, 1, kInf, -kInf}, {kNan}, {1}},
      {"0 times inf is NaN", 1, {1, 0}, {1, kInf}, {kNan}, {0}},
      {"+inf and -inf of two query tokens sum to NaN", 1, {1, 0, -1, 0}, {kInf, 1}, {kNan}, {0, 0}},
      {"normalize keeps a zero query at 0", 1, {0, 0}, {3, 4}, {0}, {0}, {}, {}, {}, false, true},
      {"normalize keeps a zero document at 0", 1, {1, 0}, {0, 0}, {0}, {0}, {}, {}, {}, false, true},
      {"normalize divides by both norms", 1, {3, 4}, {4, 3, 6, 8}, {1}, {1}, {}, {}, {}, false, true},
      {"normalize of an infinite vector is NaN", 1, {1, 0}, {1, 0, kInf, 0}, {kNan}, {1}, {}, {}, {}, false, true},
      {"normalize with a masked NaN", 1, {3, 4}, {kNan, 1, 3, 4}, {1}, {1}, {}, {0, 1}, {}, false, true},
  };
}

std::vector<Case> all_cases() {
  auto cases = mask_cases();
  for (auto &&more : {empty_cases(), value_cases()}) cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

Problem problem_of(const Case &c, DType dtype, Placing placing) {
  Problem p;
  p.dtype = dtype;
  p.Nd = c.Nd, p.Lq = static_cast<std::int64_t>(c.q.size() / 2), p.d = 2;
  p.Ld = static_cast<std::int64_t>(c.d.size()) / 2 / c.Nd;
  p.features =
      kArgmax | (c.q_mask.empty() ? 0 : kQMask) | (c.d_mask.empty() ? 0 : kDMask) | (c.normalize ? kNormalize : 0);
  p.d_lengths = !c.lengths.empty();
  p.neg_inf = c.neg_inf;
  p.values = Values::untouched;
  p.mask_dtype = DType::u8;
  p.q = p.documents = p.others = placing;
  return p;
}

bool same(float got, float want, bool rounded) {
  if (std::isnan(want)) return std::isnan(got);
  return got == want || (rounded && std::abs(got - want) < 1e-6F);
}

void check_results(const Case &c, const Instance::Results &results) {
  REQUIRE(results.scores.size() == c.scores.size());
  for (std::size_t i = 0; i < c.scores.size(); ++i) {
    CAPTURE(i);
    CAPTURE(results.scores[i]);
    CHECK(same(results.scores[i], c.scores[i], c.normalize));
  }
  CHECK(results.argmax == c.argmax);
}

// On every path that takes it.
void check_case(AllPaths &paths, const Case &c, DType dtype, Placing placing) {
  CAPTURE(c.what);
  CAPTURE(std::string(name(dtype)));
  CAPTURE(name(placing));
  const Instance instance(problem_of(c, dtype, placing));
  set_values(instance.operand(MSJ_DENSE_FORWARD_Q), c.q);
  set_values(instance.operand(MSJ_DENSE_FORWARD_D), c.d);
  if (!c.q_mask.empty()) instance.operand(MSJ_DENSE_FORWARD_Q_MASK).set(c.q_mask);
  if (!c.d_mask.empty()) instance.operand(MSJ_DENSE_FORWARD_D_MASK).set(c.d_mask);
  if (!c.lengths.empty()) instance.operand(MSJ_DENSE_FORWARD_D_LENGTHS).set(c.lengths);
  Gpu::get().synchronize();
  const int taken = paths.each(instance.problem().call_to_prepare(), [&](ForcedPath &path) {
    CAPTURE(path.path());
    instance.poison();
    run(path.get(), instance.call());
    check_results(c, instance.results());
  });
  CHECK(taken > 0);
  check_results(c, instance.reference(paths.any()));
}

}  // namespace

TEST_CASE("each case of the table") {
  const testing::ScratchDirectory cache;
  AllPaths paths(ops::dense_forward_spec(), cache.path());
  const auto cases = all_cases();
  constexpr std::array<Placing, 2> kBoth = {Placing::padded, Placing::inner_two};
  paths.prepare(cases.size() * 6, [&](std::size_t i) {
    return problem_of(cases[i / 6], kMatrixDtypes[i % 3], kBoth[i / 3 % 2]).call_to_prepare();
  });
  for (const DType dtype : kMatrixDtypes) {
    for (const Placing placing : kBoth) {
      for (const Case &c : cases) check_case(paths, c, dtype, placing);
    }
  }
}

TEST_CASE("no query or no document: nothing is launched, null data are fine") {
  const testing::ScratchDirectory cache;
  const maxsim_jit::Context context({.cache_dir = cache.path(), .tune = "off"});
  for (const auto &[Nq, Nd] : {std::pair<std::int64_t, std::int64_t>{0, 3}, {3, 0}, {0, 0}}) {
    maxsim_jit::DenseForward call;
    call.q = maxsim_jit::Tensor(nullptr, maxsim_jit::DType::bf16, {Nq, 4, 16});
    call.d = maxsim_jit::Tensor(nullptr, maxsim_jit::DType::bf16, {Nd, 5, 16});
    if (Nq > 0) call.q = maxsim_jit::Tensor(reinterpret_cast<void *>(256), maxsim_jit::DType::bf16, {Nq, 4, 16});
    if (Nd > 0) call.d = maxsim_jit::Tensor(reinterpret_cast<void *>(256), maxsim_jit::DType::bf16, {Nd, 5, 16});
    call.scores = maxsim_jit::Tensor(nullptr, maxsim_jit::DType::f32, {Nq, Nd});
    call.argmax = maxsim_jit::Tensor(nullptr, maxsim_jit::DType::i32, {Nq, Nd, 4});
    maxsim_jit::dense_forward(context, call);
  }
  CHECK(context.stats().launches == 0);
  CHECK(context.stats().nvrtc_invocations == 0);
}

TEST_CASE("NaN and infinities anywhere in larger problems") {
  const testing::ScratchDirectory cache;
  AllPaths paths(ops::dense_forward_spec(), cache.path());
  std::mt19937_64 random(test_seed());
  std::vector<Problem> problems;
  for (const DType dtype : kMatrixDtypes) {
    for (FeatureSet features = 0; features <= kAllFeatures; ++features) {
      Problem p;
      p.dtype = dtype;
      p.features = features;
      p.Nq = 1 + static_cast<std::int64_t>(random() % 5), p.Nd = 3 + static_cast<std::int64_t>(random() % 40);
      p.Lq = 1 + static_cast<std::int64_t>(random() % 150), p.Ld = 1 + static_cast<std::int64_t>(random() % 400);
      p.d = 72;
      p.d_lengths = random() % 2 == 0;
      p.neg_inf = random() % 2 == 0;
      p.documents = random() % 2 == 0 ? Placing::padded : Placing::offset_one;
      p.seed = random();
      problems.push_back(p);
    }
  }
  paths.prepare(problems.size(), [&](std::size_t i) { return problems[i].call_to_prepare(); });
  for (const Problem &problem : problems) {
    CAPTURE(problem.text());
    const Instance instance(problem);
    for (int i = 0; i < 6; ++i) {
      const float value = std::array{kNan, kInf, -kInf}[static_cast<std::size_t>(i % 3)];
      const auto &operand = instance.operand(i < 5 ? MSJ_DENSE_FORWARD_D : MSJ_DENSE_FORWARD_Q);
      plant(operand, random() % static_cast<std::uint64_t>(operand.placement().elements()), value);
    }
    Gpu::get().synchronize();
    paths.each(problem.call_to_prepare(), [&](ForcedPath &path) {
      CAPTURE(path.path());
      instance.poison();
      run(path.get(), instance.call());
      CHECK(complaint(instance.judge(false)) == "");
    });
  }
}
