// Real text as fast-plaid's indexes (tests/data/plaid2, plaid4), normalized by residual_norms on the GPU: each path of
// residual_forward is within its bound of the reference, finds the answers, and ranks passages as the library does up
// to what its float16 can't tell apart.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "gpu/fixture_files.h"
#include "gpu/op_candidates.h"
#include "gpu/op_judge.h"

using namespace msj;
using namespace msj::gpu;

namespace {

constexpr std::int64_t kQuestions = 8;
constexpr std::int64_t kPassages = 64;
constexpr std::size_t kBoolean = 2;  // the third dtype that a mask may have

// The first `count` elements of `size` bytes; of an int64 its lower half.
Bits load(const std::string &file, std::size_t size, std::int64_t count) {
  const std::string bytes = npy_elements(file);
  Bits bits(static_cast<std::size_t>(count));
  REQUIRE(bytes.size() >= bits.size() * size);
  for (std::size_t i = 0; i < bits.size(); ++i)
    std::memcpy(&bits[i], bytes.data() + i * size, std::min(size, sizeof(bits[i])));
  return bits;
}

// An index of the fixtures, and the calls that read it.
class Index {
 public:
  explicit Index(std::int64_t nbits) : nbits_(nbits), folder_(fmt::format("plaid{}/", nbits)) {
    const auto lengths = nlohmann::json::parse(testing::read_text(kData + folder_ + "doclens.0.json"));
    for (const nlohmann::json &length : lengths) {
      starts_.push_back(static_cast<std::uint32_t>(tokens_));
      lengths_.push_back(length.get<std::uint32_t>());
      tokens_ += length.get<std::int64_t>();
    }
    weights_ = load(folder_ + "bucket_weights.npy", 4, std::int64_t{1} << nbits);
    for (std::uint32_t &weight : weights_) {
      weight = encode(DType::f16, round_to(DType::f16, static_cast<double>(std::bit_cast<float>(weight))));
    }
  }

  [[nodiscard]] OpProblem problem(msj_op op, std::vector<DType> own) const {
    OpProblem p;
    p.op = &op_of(op);
    p.own = std::move(own);
    p.alternative = kBoolean;
    p.resize({{"N", tokens_}, {"Nd", kPassages}, {"K", 512}, {"d", 128}, {"nbits", nbits_}});
    return p;
  }

  void fill(OpInstance &instance) const {
    const auto set = [&](std::string_view operand, const Bits &bits) {
      instance.set(operand_of(*instance.problem().op, operand), bits);
    };
    set("codes", load(folder_ + "merged_codes.npy", 8, tokens_));
    set("residuals", load(folder_ + "merged_residuals.npy", 1, tokens_ * 16 * nbits_));
    set("centroids", load(folder_ + "centroids.npy", 2, std::int64_t{512} * 128));
    set("bucket_weights", weights_);
    if (instance.problem().op->id != MSJ_RESIDUAL_FORWARD) return;
    set("d_starts", starts_);
    set("d_lengths", lengths_);
    set("q", load("q_emb.npy", 2, kQuestions * 20 * 128));
    set("q_mask", load("q_mask.npy", 1, kQuestions * 20));
  }

  // NaN where its search did not come upon a passage.
  [[nodiscard]] std::vector<float> library_scores() const {
    return floats_of(load(folder_ + "library_scores.npy", 4, kQuestions * kPassages));
  }
  [[nodiscard]] static std::vector<float> floats_of(const Bits &bits) {
    std::vector<float> floats;
    for (const std::uint32_t element : bits) floats.push_back(std::bit_cast<float>(element));
    return floats;
  }

 private:
  std::int64_t nbits_;
  std::string folder_;
  std::int64_t tokens_ = 0;
  Bits starts_, lengths_, weights_;
};

// Pairs of a question's passages that are in the other order; each must be as close as 2e-3, two float16 roundings of
// either side.
int swapped_pairs(const std::vector<float> &ours, const std::vector<float> &library) {
  int swapped = 0;
  for (std::size_t question = 0; question < static_cast<std::size_t>(kQuestions); ++question) {
    const std::size_t row = question * kPassages;
    for (std::size_t i = row; i < row + kPassages; ++i) {
      for (std::size_t j = row; j < row + kPassages; ++j) {
        if (!(library[i] > library[j]) || ours[i] > ours[j]) continue;
        ++swapped;
        CHECK(library[i] - library[j] <= 2e-3F * std::abs(library[i]));
      }
    }
  }
  return swapped;
}

}  // namespace

TEST_CASE("all paths score fast-plaid's index of real text as the reference does and rank as fast-plaid does") {
  const testing::ScratchDirectory root;
  ForcedPath table(root / "table", "table");
  ForcedPath gather(root / "gather", "gather");
  ForcedPath hopper(root / "hopper", "hopper");
  ForcedPath hopper_table(root / "hopper_table", "hopper_table");
  ForcedPath hopper_gather(root / "hopper_gather", "hopper_gather");
  const auto questions = nlohmann::json::parse(testing::read_text(kData + "questions.json"));
  for (const std::int64_t nbits : {2, 4}) {
    const Index index(nbits);
    OpInstance norms(index.problem(MSJ_RESIDUAL_NORMS, {DType::f16}));
    index.fill(norms);
    OpProblem p = index.problem(MSJ_RESIDUAL_FORWARD, {DType::f16, DType::f16});
    p.resize({{"Nq", kQuestions}, {"Lq", 20}, {"Ld", 52}});
    p.features = features_of(*p.op, {"q_mask", "normalize"});
    OpInstance instance(p);
    index.fill(instance);
    instance.set(MSJ_RESIDUAL_FORWARD_D_INV_NORMS, norms.run(gather.get())[MSJ_RESIDUAL_NORMS_INV_NORMS]);
    const auto want = Index::floats_of(instance.reference(gather.get())[MSJ_RESIDUAL_FORWARD_SCORES]);
    const auto bounds = Index::floats_of(instance.magnitudes(gather.get())[MSJ_RESIDUAL_FORWARD_SCORES]);
    for (ForcedPath *path : {&table, &gather, &hopper, &hopper_table, &hopper_gather}) {
      CAPTURE(path->path());
      if (!path->force(p.call_to_prepare())) {
        REQUIRE(path->path().starts_with("hopper"));
        REQUIRE(Gpu::get().info().architecture.name != "sm_90a");
        continue;
      }
      const auto got = Index::floats_of(instance.run(path->get())[MSJ_RESIDUAL_FORWARD_SCORES]);
      CHECK(instance.damage() == "");
      ScoreCheck check;
      for (std::size_t i = 0; i < got.size(); ++i) {
        check.take(i, got[i], want[i], (path == &table || path == &hopper_table ? 2e-6 : 1e-4) * bounds[i]);
      }
      CHECK(check.complaint() == "");
      const int swapped = swapped_pairs(got, index.library_scores());
      for (std::size_t question = 0; question < static_cast<std::size_t>(kQuestions); ++question) {
        CHECK(ranking(got, question, kPassages).front() ==
              questions.at(question).at("expected_passage").get<std::size_t>());
      }
      fmt::print("residual: fast-plaid's index, {} bits, {}: worst error / bound {:.4f}, {} pairs in another order\n",
                 nbits, path->path(), check.worst, swapped);
    }
  }
}
