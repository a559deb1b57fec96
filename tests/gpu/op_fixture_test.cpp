// Real text (tests/data): the fused head on hidden states and a projection scores as dense_forward does on the
// projected rows; fp8, with one scale or one a token, is within its bound of the reference and ranks the passages much
// as fp16.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "gpu/fixture_files.h"
#include "gpu/op_judge.h"

using namespace msj;
using namespace msj::gpu;

namespace {

constexpr std::size_t kQuestions = 8;
constexpr std::size_t kBoolean = 2;  // the third dtype that a mask may have

Bits load(const std::string &file, std::size_t size) {
  const std::string bytes = npy_elements(file);
  Bits bits(bytes.size() / size);
  for (std::size_t i = 0; i < bits.size(); ++i) std::memcpy(&bits[i], bytes.data() + i * size, size);
  return bits;
}

OpProblem real_text(msj_op op, std::vector<DType> own, std::int64_t Nd) {
  OpProblem p;
  p.op = &op_of(op);
  p.own = std::move(own);
  p.resize({{"Nq", kQuestions}, {"Lq", 20}, {"Nd", Nd}, {"Ld", 96}});
  p.alternative = kBoolean;
  return p;
}

void set(OpInstance &instance, std::string_view operand, const Bits &bits) {
  instance.set(operand_of(*instance.problem().op, operand), bits);
}

std::vector<float> scores_of(const OpProblem &problem, const OpResults &results) {
  std::vector<float> scores;
  for (const std::uint32_t bits : results[operand_of(*problem.op, "scores")]) {
    scores.push_back(std::bit_cast<float>(bits));
  }
  return scores;
}

// The greatest |a - b| / bound.
double worst_of(const std::vector<float> &a, const std::vector<float> &b, const std::vector<float> &bounds) {
  REQUIRE(a.size() == b.size());
  REQUIRE(a.size() == bounds.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(a[i]) - b[i]) / bounds[i]);
  }
  return worst;
}

// The scores of fp16 rows in float64, and their B.
struct Dense {
  std::vector<float> scores, bounds;
};

Dense dense(msj_context *context, const Bits &documents, const Bits &d_mask, const Bits &d_lengths) {
  OpProblem p = real_text(MSJ_DENSE_FORWARD, {DType::f16}, static_cast<std::int64_t>(documents.size() / 96 / 128));
  p.resize({{"d", 128}});
  p.features = features_of(*p.op, {"q_mask", "d_mask"});
  p.extras = !d_lengths.empty();
  OpInstance instance(p);
  set(instance, "q", load("q_emb.npy", 2));
  set(instance, "d", documents);
  set(instance, "q_mask", load("q_mask.npy", 1));
  set(instance, "d_mask", d_mask);
  if (p.extras) set(instance, "d_lengths", d_lengths);
  return {scores_of(p, instance.reference(context)), scores_of(p, instance.magnitudes(context))};
}

// ---- rank quality ---------------------------------------------------------------------------------------------------

// Kendall's tau: pairs of documents in the same order less those in the other, over all pairs.
double kendall(const std::vector<float> &a, const std::vector<float> &b, std::size_t question, std::size_t documents) {
  double agreeing = 0;
  for (std::size_t i = 0; i < documents; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const std::size_t first = question * documents + i;
      const std::size_t second = question * documents + j;
      const double product = (static_cast<double>(a[first]) - a[second]) * (static_cast<double>(b[first]) - b[second]);
      agreeing += product > 0 ? 1 : product < 0 ? -1 : 0;
    }
  }
  return agreeing / (static_cast<double>(documents * (documents - 1)) / 2);
}

double overlap(const std::vector<float> &a, const std::vector<float> &b, std::size_t question, std::size_t documents,
               std::ptrdiff_t top) {
  const auto first = ranking(a, question, documents);
  const auto second = ranking(b, question, documents);
  const auto shared = std::count_if(first.begin(), first.begin() + top, [&](std::size_t document) {
    return std::find(second.begin(), second.begin() + top, document) != second.begin() + top;
  });
  return static_cast<double>(shared) / static_cast<double>(top);
}

void check_ranks(const std::vector<float> &fp8, const std::vector<float> &fp16, const std::string &what) {
  const auto questions = nlohmann::json::parse(testing::read_text(kData + "questions.json"));
  double tau = 0;
  double least = 1;
  double shared = 0;
  std::size_t firsts = 0;
  for (std::size_t question = 0; question < kQuestions; ++question) {
    const double of_question = kendall(fp8, fp16, question, 64);
    tau += of_question / kQuestions;
    least = std::min(least, of_question);
    shared += overlap(fp8, fp16, question, 64, 10) / kQuestions;
    const auto expected = questions.at(question).at("expected_passage").get<std::size_t>();
    firsts += ranking(fp8, question, 64).front() == expected ? 1 : 0;
  }
  CHECK(tau >= 0.95);
  CHECK(shared >= 0.9);
  CHECK(firsts == kQuestions);
  fmt::print("fixture: fp8 {}: Kendall's tau to fp16 {:.3f} (least {:.3f}), top-10 overlap {:.3f}, {} of {} first\n",
             what, tau, least, shared, firsts, kQuestions);
}

// ---- fp8 ------------------------------------------------------------------------------------------------------------

struct Quantized {
  Bits codes, scales;
};

// By the CPU; the GPU's must be the same.
Quantized quantize(msj_context *context, const Bits &x, std::int64_t N, std::int64_t L, DType to, bool per_token) {
  OpProblem p;
  p.op = &op_of(MSJ_FP8_QUANTIZE);
  p.own = {DType::f16, to};
  p.resize({{"N", N}, {"L", L}, {"d", 128}});
  p.features = per_token ? p.op->all_features() : 0;
  OpInstance instance(p);
  instance.set(MSJ_FP8_QUANTIZE_X, x);
  const OpResults results = instance.reference(context);
  CHECK(difference(p, instance.run(context), results) == "");
  return {results[MSJ_FP8_QUANTIZE_QUANTIZED], results[MSJ_FP8_QUANTIZE_SCALES]};
}

void check_fp8(msj_context *context, DType dtype, bool per_token, const Dense &fp16) {
  const std::string what = fmt::format("{}, {}", name(dtype), per_token ? "a scale a token" : "one scale");
  CAPTURE(what);
  OpProblem p = real_text(MSJ_FP8_FORWARD, {dtype, dtype}, 64);
  p.resize({{"d", 128}});
  p.features = features_of(*p.op, {"q_mask", "d_mask", "save_argmax"});
  if (per_token) p.features |= features_of(*p.op, {"scale_q_per_token", "scale_d_per_token"});
  p.singles = true;
  p.extras = true;
  const Quantized q = quantize(context, load("q_emb.npy", 2), kQuestions, 20, dtype, per_token);
  const Quantized documents = quantize(context, load("d_emb.npy", 2), 64, 96, dtype, per_token);
  OpInstance instance(p);
  set(instance, "q", q.codes);
  set(instance, "scale_q", q.scales);
  set(instance, "d", documents.codes);
  set(instance, "scale_d", documents.scales);
  set(instance, "q_mask", load("q_mask.npy", 1));
  set(instance, "d_mask", load("d_mask.npy", 1));
  set(instance, "d_lengths", load("d_lengths.npy", 4));
  const std::vector<float> got = scores_of(p, instance.run(context));
  const std::vector<float> want = scores_of(p, instance.reference(context));
  const double worst = worst_of(got, want, scores_of(p, instance.magnitudes(context)));
  CHECK(worst <= 2e-4);
  CHECK(instance.damage() == "");
  fmt::print("fixture: fp8 {}: worst error / B {:.2g}; off fp16 by {:.2g} of B\n", what, worst,
             worst_of(got, fp16.scores, fp16.bounds));
  check_ranks(got, fp16.scores, what);
}

}  // namespace

TEST_CASE("the fused head on hidden states of real text scores as the projected rows do") {
  const testing::ScratchDirectory cache;
  const maxsim_jit::Context context({.cache_dir = cache.path(), .tune = "off"});
  OpProblem p = real_text(MSJ_FUSED_HEAD_FORWARD, {DType::f16}, 12);
  p.resize({{"d_out", 128}, {"d_model", 384}});
  p.features = features_of(*p.op, {"q_mask", "d_mask", "normalize", "save_argmax"});
  OpInstance instance(p);
  set(instance, "q", load("q_emb.npy", 2));
  set(instance, "h", load("h.npy", 2));
  set(instance, "w", load("w.npy", 2));
  set(instance, "q_mask", load("q_mask.npy", 1));
  set(instance, "d_mask", load("h_mask.npy", 1));
  const std::vector<float> got = scores_of(p, instance.run(context.get()));
  CHECK(instance.damage() == "");

  // The same passages as they were encoded.
  const auto passages = nlohmann::json::parse(testing::read_text(kData + "passages.json"));
  const auto questions = nlohmann::json::parse(testing::read_text(kData + "questions.json"));
  const Bits all = load("d_emb.npy", 2);
  Bits rows;
  std::vector<std::size_t> indices;
  for (const auto &passage : passages) {
    if (passage.at("h_row").is_null()) continue;
    REQUIRE(passage.at("h_row").get<std::size_t>() == indices.size());
    indices.push_back(passage.at("index").get<std::size_t>());
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(indices.back() * 96 * 128);
    rows.insert(rows.end(), begin, begin + 96 * 128);
  }
  const Dense projected = dense(context.get(), rows, load("h_mask.npy", 1), {});
  const double worst = worst_of(got, projected.scores, projected.bounds);
  const double of_reference =
      worst_of(scores_of(p, instance.reference(context.get())), projected.scores, projected.bounds);
  CHECK(worst <= 1e-4);
  CHECK(of_reference <= 1e-6);
  for (std::size_t question = 0; question < kQuestions; ++question) {
    CAPTURE(question);
    const auto best = ranking(got, question, 12);
    CHECK(best == ranking(projected.scores, question, 12));
    CHECK(indices.at(best.front()) == questions.at(question).at("expected_passage").get<std::size_t>());
  }
  fmt::print("fixture: fused head: worst error / B {:.2g} of the projected rows' scores, the reference's {:.2g}\n",
             worst, of_reference);
}

TEST_CASE("fp8 of real text") {
  const testing::ScratchDirectory cache;
  const maxsim_jit::Context context({.cache_dir = cache.path(), .tune = "off"});
  const Dense fp16 = dense(context.get(), load("d_emb.npy", 2), load("d_mask.npy", 1), load("d_lengths.npy", 4));
  for (const DType dtype : {DType::fp8_e4m3, DType::fp8_e5m2}) {
    for (const bool per_token : {false, true}) check_fp8(context.get(), dtype, per_token, fp16);
  }
}
