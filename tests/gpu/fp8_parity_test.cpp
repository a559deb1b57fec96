// fp8_forward, DESIGN section 5: every feature set and pair of dtypes on random shapes, layouts and scales, each score
// within 2e-4 of B of float64 (2e-3 where values span all of fp8, on Hopper), each argmax a maximum within it; small
// integers bit-equal; NaN, infinities and empty documents as in the reference.
//
// Tuning is off: all run the default config, which op_configs_test relates to the others bit by bit.
#include <doctest/doctest.h>

#include <map>

#include "gpu/op_candidates.h"
#include "gpu/op_judge.h"
#include "gpu/op_shapes.h"
#include "support/scratch.h"

using namespace msj;
using namespace msj::gpu;

namespace {

constexpr double kBound = 2e-4;
// Of values over all of fp8's range on Hopper's own path (class aligned16), whose tensor cores align the 32 terms of
// one product by the largest and cut them to about 13 bits, before anything can be summed in float32.
constexpr double kWideBoundOfHopper = 2e-3;
constexpr double kLongest = 3'000;
constexpr std::int64_t kMostElements = 4'194'304;  // of a matrix, which the host makes one by one
constexpr std::array<DType, 2> kDtypes = {DType::fp8_e4m3, DType::fp8_e5m2};

std::int64_t dimension(OpShapes &shapes, int index) {
  constexpr std::array<std::int64_t, 6> kUsual = {128, 96, 48, 64, 320, 384};
  constexpr std::array<std::int64_t, 6> kLarge = {768, 1'023, 1'024, 2'000, 4'095, 4'096};
  if (index % 12 == 7) return kLarge[static_cast<std::size_t>(shapes.whole(0, 5))];
  if (shapes.one_in(3)) return kUsual[static_cast<std::size_t>(shapes.whole(0, 5))];
  return shapes.whole(1, shapes.one_in(2) ? 600 : 150);
}

double multiply_adds(const OpProblem &p) { return p.op->multiply_adds(p.sizes); }

// At most 2^28 multiply-adds; the first two have the longest queries and documents.
void choose_sizes(OpShapes &shapes, OpProblem &p, int index) {
  const double budget = std::exp2(is_quick() ? shapes.real(16, 22) : shapes.real(index < 2 ? 27 : 17, 28));
  const auto d = static_cast<double>(dimension(shapes, index));
  double Lq = index == 0 ? kLongest : static_cast<double>(shapes.tokens(kLongest));
  double Ld = index == 1 ? kLongest : static_cast<double>(shapes.tokens(kLongest));
  while (Lq * Ld * d > budget && (Lq > 1 || Ld > 1))
    (Lq > Ld ? Lq : Ld) = std::max(1.0, std::floor((Lq > Ld ? Lq : Ld) / 2));
  while (Ld * d > static_cast<double>(kMostElements)) Ld = std::floor(Ld / 2);
  while (Lq * d > static_cast<double>(kMostElements)) Lq = std::floor(Lq / 2);
  const double most = static_cast<double>(kMostElements);
  const double pairs = std::max(1.0, budget / (Lq * Ld * d));
  const double Nq = std::floor(std::min({std::exp2(shapes.real(0, 7)), pairs, most / (Lq * d)}));
  const double Nd = std::floor(std::min({std::max(1.0, pairs / Nq), most / (Ld * d), most / (Nq * Lq)}));
  p.resize({{"Nq", static_cast<std::int64_t>(std::max(1.0, Nq))},
            {"Nd", static_cast<std::int64_t>(std::max(1.0, Nd))},
            {"Lq", static_cast<std::int64_t>(Lq)},
            {"Ld", static_cast<std::int64_t>(Ld)},
            {"d", static_cast<std::int64_t>(d)}});
}

// Every feature set with every pair of dtypes.
std::vector<OpProblem> problems(std::uint64_t seed) {
  OpShapes shapes(seed);
  std::vector<OpProblem> all;
  for (const DType q : kDtypes) {
    for (const DType documents : kDtypes) {
      for (FeatureSet features = 0; features <= op_of(MSJ_FP8_FORWARD).all_features(); ++features) {
        OpProblem p;
        p.op = &op_of(MSJ_FP8_FORWARD);
        p.own = {q, documents};
        p.features = features;
        p.alternative = all.size();
        choose_sizes(shapes, p, static_cast<int>(all.size()));
        shapes.arrange(p);
        all.push_back(p);
      }
    }
  }
  return all;
}

// Each test's problems on every path that takes them.
class Paths {
 public:
  explicit Paths(const std::vector<OpProblem> &all) : paths_(op_of(MSJ_FP8_FORWARD), cache_.path()) {
    paths_.prepare(all.size(), [&](std::size_t i) { return all[i].call_to_prepare(); });
  }

  [[nodiscard]] msj_context *host() { return paths_.any(); }  // for the reference
  [[nodiscard]] std::int64_t compiles() const { return paths_.compiles(); }

  // judge(path, results)
  template <typename Judge>
  void each(OpInstance &instance, const Judge &judge) {
    const int taken = paths_.each(instance.problem().call_to_prepare(), [&](ForcedPath &path) {
      CAPTURE(path.path());
      judge(path.path(), instance.run(path.get()));
      CHECK(instance.damage() == "");
      ++runs_[path.path()];
    });
    CHECK(taken > 0);
  }

  [[nodiscard]] std::string runs() const {
    std::string text;
    for (const auto &[path, count] : runs_) text += fmt::format("{} {} ", path, count);
    return text;
  }

 private:
  testing::ScratchDirectory cache_;
  AllPaths paths_;
  std::map<std::string, int> runs_;
};

double bound_of(const OpProblem &p, const std::string &path) {
  return path != "portable" && p.fill == Fill::wide ? kWideBoundOfHopper : kBound;
}

Rows judged_rows(const OpInstance &instance, const std::string &path) {
  const OpProblem &p = instance.problem();
  Rows rows = rows_of(instance);
  rows.rows = decode(p.dtype(MSJ_FP8_FORWARD_D), instance.elements(MSJ_FP8_FORWARD_D));
  rows.scales = decode(DType::f32, instance.elements(MSJ_FP8_FORWARD_SCALE_D));
  rows.coefficient = bound_of(p, path);
  return rows;
}

struct Worst {
  double score = 0;
  std::string where = "none";
};

// Small integers of few enough terms that every float32 sum is exact: d · Lq · 16 below 2^24.
void make_exact(OpProblem &p) {
  p.fill = Fill::integers;
  p.resize({{"d", std::min<std::int64_t>(p.size("d"), 4'000)}});
  p.resize({{"Lq", std::clamp<std::int64_t>((1 << 20) / p.size("d"), 1, p.size("Lq"))}});
}

}  // namespace

TEST_CASE("every pair of dtypes and feature set of fp8_forward is within its bound of float64") {
  std::vector<OpProblem> all = problems(test_seed());
  for (std::size_t i = 0; i < all.size(); i += 2) all[i].fill = Fill::wide;
  Paths paths(all);
  std::map<std::pair<std::string, Fill>, Worst> worst;
  double most = 0;
  for (const OpProblem &p : all) {
    CAPTURE(p.text());
    OpInstance instance(p);
    const OpResults want = instance.reference(paths.host());
    const Bits bounds = instance.magnitudes(paths.host())[MSJ_FP8_FORWARD_SCORES];
    paths.each(instance, [&](const std::string &path, const OpResults &got) {
      ScoreCheck check;
      for (std::size_t i = 0; i < bounds.size(); ++i) {
        check.take(i, std::bit_cast<float>(got[MSJ_FP8_FORWARD_SCORES][i]),
                   std::bit_cast<float>(want[MSJ_FP8_FORWARD_SCORES][i]),
                   bound_of(p, path) * std::bit_cast<float>(bounds[i]));
      }
      CHECK(check.complaint() == "");
      if (p.has("save_argmax")) {
        CHECK(winners_complaint(judged_rows(instance, path), got[MSJ_FP8_FORWARD_ARGMAX],
                                want[MSJ_FP8_FORWARD_ARGMAX]) == "");
      }
      Worst &most_of = worst[{path, p.fill}];
      if (check.worst >= most_of.score) most_of = {check.worst, p.text()};
    });
    most = std::max(most, multiply_adds(p));
  }
  fmt::print("fp8: {}of {} problems to 2^{:.1f} multiply-adds, {} compiles, seed {}\n", paths.runs(), all.size(),
             std::log2(most), paths.compiles(), test_seed());
  for (const auto &[which, w] : worst) {
    fmt::print("fp8: {} {} values: worst error / bound {:.4f} at {}\n", which.first, name(which.second), w.score,
               w.where);
  }
}

TEST_CASE("small integers and power-of-two scales are exact in fp8_forward, ties go to the lowest token") {
  std::vector<OpProblem> all = problems(test_seed() + 1);
  for (OpProblem &p : all) make_exact(p);
  Paths paths(all);
  for (const OpProblem &p : all) {
    CAPTURE(p.text());
    OpInstance instance(p);
    const OpResults want = instance.reference(paths.host());
    paths.each(instance, [&](const std::string &, const OpResults &got) { CHECK(difference(p, got, want) == ""); });
  }
  fmt::print("fp8: {}of {} problems bit-equal to the reference, seed {}\n", paths.runs(), all.size(), test_seed() + 1);
}

namespace {

// An infinity, a NaN, in a matrix or a scale, anywhere: active, masked, or past a document's length.
void plant(OpShapes &shapes, OpInstance &instance, std::size_t operand) {
  Bits bits = instance.elements(operand);
  if (bits.empty()) return;
  const DType dtype = instance.problem().dtype(operand);
  const bool has_infinity = dtype != DType::fp8_e4m3;
  for (std::int64_t count = shapes.whole(0, 3); count > 0; --count) {
    const bool infinity = has_infinity && shapes.one_in(2);
    const double value = infinity ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    const auto at = static_cast<std::size_t>(shapes.whole(0, static_cast<std::int64_t>(bits.size()) - 1));
    bits[at] = encode(dtype, shapes.one_in(2) ? -value : value);
  }
  instance.set(operand, bits);
}

}  // namespace

TEST_CASE("NaN, infinities and empty documents of fp8_forward are the reference's") {
  OpShapes shapes(test_seed() + 2);
  std::vector<OpProblem> all = problems(test_seed() + 2);
  for (OpProblem &p : all) {
    p.fill = Fill::integers;
    p.resize({{"Nq", 3}, {"Nd", 11}, {"Lq", shapes.tokens(70)}, {"Ld", shapes.tokens(150)}, {"d", 40}});
  }
  Paths paths(all);
  std::size_t nans = 0;
  std::size_t infinities = 0;
  for (const OpProblem &p : all) {
    CAPTURE(p.text());
    OpInstance instance(p);
    for (const std::size_t operand :
         {MSJ_FP8_FORWARD_Q, MSJ_FP8_FORWARD_D, MSJ_FP8_FORWARD_SCALE_Q, MSJ_FP8_FORWARD_SCALE_D}) {
      plant(shapes, instance, operand);
    }
    const OpResults want = instance.reference(paths.host());
    paths.each(instance, [&](const std::string &, const OpResults &got) { CHECK(difference(p, got, want) == ""); });
    for (const std::uint32_t score : want[MSJ_FP8_FORWARD_SCORES]) {
      nans += std::isnan(std::bit_cast<float>(score)) ? 1 : 0;
      infinities += std::isinf(std::bit_cast<float>(score)) ? 1 : 0;
    }
  }
  CHECK(nans > 100);
  CHECK(infinities > 100);
  fmt::print("fp8: {}of {} problems with {} scores of NaN and {} of infinity as in the reference\n", paths.runs(),
             all.size(), nans, infinities);
}
