// residual_forward, all paths: feature sets, nbits and pairs of dtypes on random shapes, indexes and layouts, each
// score within its bound of float64; small integers bit-equal, winners too; NaN, infinities, codes that are no
// centroid's and documents that are not inside the index as in the reference. residual_norms beside it.
//
// A path runs its first candidate: op_configs_test relates its other configs to one another bit by bit. All cases take
// the same problems, filled otherwise, so that each kernel is compiled once; the problems run on all cores.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "gpu/op_candidates.h"
#include "gpu/op_judge.h"
#include "gpu/op_shapes.h"
#include "support/scratch.h"

using namespace msj;
using namespace msj::gpu;

namespace {

constexpr std::array<DType, 3> kDtypes = {DType::f16, DType::bf16, DType::f32};
constexpr std::array<std::int64_t, 4> kBits = {1, 2, 4, 8};

bool has_half_rows(const OpProblem &p) { return p.own[0] == p.own[1] && p.own[0] != DType::f32; }

// Of B, the sum over s of the largest Σ |q| (|centroid| + |weight|).
double bound_of(const OpProblem &p, const std::string &path) {
  if (path == "table" || path == "hopper_table" || !has_half_rows(p)) return 2e-6;
  // Each element of a row is rounded once: of few, the error of one may be a large part of B.
  const double few = p.size("d") < 48 ? 8 : 1;
  return (p.own[0] == DType::f16 ? 1e-4 : 5e-4) * few;
}

std::int64_t dimension(OpShapes &shapes) {
  constexpr std::array<std::int64_t, 5> kUsual = {128, 96, 64, 48, 100};
  if (!shapes.one_in(4)) return kUsual[static_cast<std::size_t>(shapes.whole(0, 4))];
  return shapes.one_in(4) ? shapes.whole(1, 800) : shapes.whole(1, 150);
}

// At most 2^26 multiply-adds of documents of 5,000 tokens: the host computes them in float64, twice.
void choose_sizes(OpShapes &shapes, OpProblem &p) {
  const double budget = std::exp2(is_quick() ? 18 : 26);
  const std::int64_t tokens = shapes.tokens(is_quick() ? 600 : 20'000);
  p.resize({{"N", tokens}, {"K", shapes.tokens(is_quick() ? 300 : 5'000)}, {"d", dimension(shapes)}, {"Ld", 300}});
  const double of_query_token = static_cast<double>(p.size("d") * std::min<std::int64_t>(tokens, 5'000));
  const std::int64_t Lq = shapes.one_in(3) ? shapes.tokens(300) : shapes.whole(1, 40);
  p.resize({{"Lq", std::clamp<std::int64_t>(static_cast<std::int64_t>(budget / of_query_token), 1, Lq)}});
  const double pairs = budget / of_query_token / static_cast<double>(p.size("Lq"));
  const auto Nq = shapes.tokens(std::clamp(pairs, 1.0, 40.0));
  p.resize({{"Nq", Nq}, {"Nd", shapes.tokens(std::clamp(pairs / static_cast<double>(Nq), 1.0, 200.0))}});
}

// 240: every feature set with every nbits and 16-bit dtype, which both paths take, and every nbits and other pair with
// four sets that take turns. A quarter of them in a quick run.
std::vector<OpProblem> problems() {
  OpShapes shapes(test_seed());
  std::vector<OpProblem> all;
  const OpSpec &op = op_of(MSJ_RESIDUAL_FORWARD);
  const std::size_t every = op.all_features() + 1;
  std::size_t turn = 0;
  for (const DType q : kDtypes) {
    for (const DType centroids : kDtypes) {
      for (const std::int64_t nbits : kBits) {
        OpProblem p;
        p.op = &op;
        p.own = {q, centroids};
        p.resize({{"nbits", nbits}});
        const std::size_t sets = (has_half_rows(p) ? every : every / 4) / (is_quick() ? 4 : 1);
        for (std::size_t i = 0; i < sets; ++i) {
          p.features = static_cast<FeatureSet>(turn++ * 5 % every);  // 5: no set is left out, however few follow
          p.alternative = all.size();
          choose_sizes(shapes, p);
          shapes.arrange(p);
          all.push_back(p);
        }
      }
    }
  }
  return all;
}

// Terms of at most 4 in magnitude, of which every float32 sum is exact: d · Lq · 4 below 2^24.
void make_exact(OpProblem &p) {
  p.fill = Fill::integers;
  p.resize({{"Lq", std::clamp<std::int64_t>((1 << 20) / p.size("d"), 1, p.size("Lq"))}});
}

// What came of a problem, on all paths.
struct Outcome {
  std::string complaint;
  std::map<std::string, double> worst;  // by path: error / bound
  std::size_t nans = 0, infinities = 0;

  void count(const Bits &scores) {
    for (const std::uint32_t score : scores) {
      nans += std::isnan(std::bit_cast<float>(score)) ? 1 : 0;
      infinities += std::isinf(std::bit_cast<float>(score)) ? 1 : 0;
    }
  }
};

// All paths; their cubins stay for the cases that follow.
class Paths {
 public:
  [[nodiscard]] msj_context *host() { return paths_.any(); }  // for the reference

  // Runs an instance on each path that takes its problem; judge(path, results) is "" or a complaint.
  template <typename Judge>
  void each(OpInstance &instance, Outcome &outcome, const Judge &judge) {
    paths_.each(instance.problem().call_to_prepare(), [&](ForcedPath &path) {
      outcome.worst.emplace(path.path(), 0);
      const std::string found = judge(path.path(), instance.run(path.get())) + instance.damage();
      if (!found.empty()) outcome.complaint += path.path() + ": " + found + "; ";
    });
  }

 private:
  static const testing::ScratchDirectory &root() {
    static const testing::ScratchDirectory directory;
    return directory;
  }

  AllPaths paths_{op_of(MSJ_RESIDUAL_FORWARD), root().path()};
};

// Bodies run on all cores; doctest hears of it afterwards, on one.
template <typename Body>
std::vector<Outcome> outcomes_of(const std::vector<OpProblem> &all, const Body &body) {
  std::vector<Outcome> outcomes(all.size());
  in_parallel(all.size(), [&](std::size_t i) {
    try {
      body(i, outcomes[i]);
    } catch (const std::exception &error) {
      outcomes[i].complaint += error.what();
    }
  });
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(all[i].text());
    CHECK(outcomes[i].complaint == "");
  }
  return outcomes;
}

void report(const std::vector<OpProblem> &all, const std::vector<Outcome> &outcomes) {
  struct Worst {
    double error = 0;
    std::string where = "none";
    int problems = 0;
  };
  std::map<std::string, Worst> rows;
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const auto &[path, error] : outcomes[i].worst) {
      Worst &row = rows[fmt::format("{} {} {}", path, name(all[i].own[0]), name(all[i].own[1]))];
      ++row.problems;
      if (error >= row.error) row.error = error, row.where = all[i].text();
    }
  }
  for (const auto &[which, row] : rows) {
    fmt::print("residual: {}: {} problems, worst error / bound {:.4f} at {}\n", which, row.problems, row.error,
               row.where);
  }
}

// Problems that a path took.
std::size_t runs_of(const std::vector<Outcome> &outcomes, const std::string &path) {
  return static_cast<std::size_t>(
      std::ranges::count_if(outcomes, [&](const Outcome &outcome) { return outcome.worst.contains(path); }));
}

// Each path of compute capability 9.0, there, in as many problems at least.
void check_hopper_ran(const std::vector<Outcome> &outcomes, std::size_t least) {
  if (Gpu::get().info().architecture.name != "sm_90a") return;
  for (const char *path : {"hopper", "hopper_table", "hopper_gather"}) {
    CAPTURE(path);
    CHECK(runs_of(outcomes, path) >= least);
  }
}

}  // namespace

TEST_CASE("feature sets, nbits and pairs of dtypes of residual_forward are within their bounds of float64") {
  Paths paths;
  const std::vector<OpProblem> all = problems();
  const auto outcomes = outcomes_of(all, [&](std::size_t i, Outcome &outcome) {
    OpInstance instance(all[i]);
    const Bits want = instance.reference(paths.host())[MSJ_RESIDUAL_FORWARD_SCORES];
    const Bits bounds = instance.magnitudes(paths.host())[MSJ_RESIDUAL_FORWARD_SCORES];
    paths.each(instance, outcome, [&](const std::string &path, const OpResults &got) {
      ScoreCheck check;
      for (std::size_t at = 0; at < bounds.size(); ++at) {
        check.take(at, std::bit_cast<float>(got[MSJ_RESIDUAL_FORWARD_SCORES][at]), std::bit_cast<float>(want[at]),
                   bound_of(all[i], path) * std::bit_cast<float>(bounds[at]));
      }
      outcome.worst[path] = check.worst;
      return check.complaint();
    });
  });
  report(all, outcomes);
  CHECK(runs_of(outcomes, "gather") == all.size());
  CHECK(runs_of(outcomes, "table") >= (is_quick() ? 25 : 100));
  check_hopper_ran(outcomes, is_quick() ? 10 : 45);
}

TEST_CASE("small integers are exact in residual_forward, broken codes and documents are NaN, ties go to the lowest") {
  Paths paths;
  std::vector<OpProblem> all = problems();
  for (std::size_t i = 0; i < all.size(); ++i) {
    make_exact(all[i]);
    all[i].broken = i % 2 == 1;
  }
  const auto outcomes = outcomes_of(all, [&](std::size_t i, Outcome &outcome) {
    OpInstance instance(all[i]);
    const OpResults want = instance.reference(paths.host());
    outcome.count(want[MSJ_RESIDUAL_FORWARD_SCORES]);
    paths.each(instance, outcome,
               [&](const std::string &, const OpResults &got) { return difference(all[i], got, want); });
  });
  std::size_t nans = 0;
  for (const Outcome &outcome : outcomes) nans += outcome.nans;
  CHECK(nans > (is_quick() ? 20 : 100));
  std::string counts;
  for (const char *path : {"table", "gather", "hopper", "hopper_table", "hopper_gather"}) {
    fmt::format_to(std::back_inserter(counts), "{} {}, ", path, runs_of(outcomes, path));
  }
  check_hopper_ran(outcomes, is_quick() ? 10 : 45);
  fmt::print("residual: problems bit-equal to the reference: {}{} scores of NaN, seed {}\n", counts, nans, test_seed());
}

namespace {

void replace_zeros(OpShapes &shapes, OpInstance &instance, std::size_t operand) {
  const DType dtype = instance.problem().dtype(operand);
  Bits bits = instance.elements(operand);
  for (std::uint32_t &element : bits) {
    if (element == 0) element = encode(dtype, shapes.one_in(2) ? -1.0 : 1.0);
  }
  instance.set(operand, bits);
}

// NaN and infinities in up to two elements of Q, centroids and weights; of weights where there are 16 at least, as each
// of few is in every row. With `infinities_alone` none in Q, and no zero there, which would make NaN of an infinity.
void plant(OpShapes &shapes, OpInstance &instance, bool infinities_alone) {
  const OpProblem &p = instance.problem();
  if (infinities_alone) replace_zeros(shapes, instance, MSJ_RESIDUAL_FORWARD_Q);
  for (const std::size_t operand :
       {MSJ_RESIDUAL_FORWARD_Q, MSJ_RESIDUAL_FORWARD_CENTROIDS, MSJ_RESIDUAL_FORWARD_BUCKET_WEIGHTS}) {
    if (operand == MSJ_RESIDUAL_FORWARD_BUCKET_WEIGHTS && p.size("nbits") < 4) continue;
    if (operand == MSJ_RESIDUAL_FORWARD_Q && infinities_alone) continue;
    Bits bits = instance.elements(operand);
    for (std::int64_t count = shapes.whole(0, 2); count > 0; --count) {
      const bool infinity = infinities_alone || !shapes.one_in(3);
      const double special =
          infinity ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
      const auto at = static_cast<std::size_t>(shapes.whole(0, static_cast<std::int64_t>(bits.size()) - 1));
      bits[at] = encode(p.dtype(operand), shapes.one_in(2) ? -special : special);
    }
    instance.set(operand, bits);
  }
}

// The first element of each query token.
void make_infinite(OpInstance &instance) {
  const OpProblem &p = instance.problem();
  Bits bits = instance.elements(MSJ_RESIDUAL_FORWARD_Q);
  for (std::size_t at = 0; at < bits.size(); at += static_cast<std::size_t>(p.size("d")))
    bits[at] = encode(p.dtype(MSJ_RESIDUAL_FORWARD_Q), std::numeric_limits<double>::infinity());
  instance.set(MSJ_RESIDUAL_FORWARD_Q, bits);
}

}  // namespace

TEST_CASE("NaN and infinities in queries, centroids and weights of residual_forward are the reference's") {
  Paths paths;
  std::vector<OpProblem> all = problems();
  for (OpProblem &p : all) {
    p.resize({{"N", 300}, {"K", 200}, {"Nd", 7}, {"Nq", 3}, {"Lq", 1 + p.size("Lq") % 70}});
    make_exact(p);
  }
  // Of a query of one infinite token nothing else makes a document's score NaN.
  for (std::size_t i = 0; i < all.size(); i += 4) all[i].resize({{"Nd", 40}, {"Lq", 1}}), all[i].broken = true;
  const auto outcomes = outcomes_of(all, [&](std::size_t i, Outcome &outcome) {
    OpShapes shapes(all[i].seed);
    OpInstance instance(all[i]);
    plant(shapes, instance, i % 2 == 1);
    if (i % 4 == 0) make_infinite(instance);
    const OpResults want = instance.reference(paths.host());
    outcome.count(want[MSJ_RESIDUAL_FORWARD_SCORES]);
    paths.each(instance, outcome,
               [&](const std::string &, const OpResults &got) { return difference(all[i], got, want); });
  });
  std::size_t nans = 0;
  std::size_t infinities = 0;
  for (const Outcome &outcome : outcomes) nans += outcome.nans, infinities += outcome.infinities;
  CHECK(nans > (is_quick() ? 20 : 100));
  CHECK(infinities > (is_quick() ? 20 : 100));
  check_hopper_ran(outcomes, is_quick() ? 10 : 45);
}

TEST_CASE("residual_norms are the reference's within 1e-6, of all tokens and of documents") {
  const testing::ScratchDirectory cache;
  const maxsim_jit::Context context({.cache_dir = cache.path(), .tune = "off"});
  OpShapes shapes(test_seed() + 3);
  const OpSpec &op = op_of(MSJ_RESIDUAL_NORMS);
  std::vector<OpProblem> all;
  for (const DType dtype : kDtypes) {
    for (const std::int64_t nbits : kBits) {
      for (int variant = 0; variant < (is_quick() ? 4 : 16); ++variant) {
        OpProblem p;
        p.op = &op;
        p.own = {dtype};
        p.features = variant % 2 == 0 ? 0 : op.all_features();
        p.resize({{"N", shapes.tokens(30'000)},
                  {"Nd", shapes.tokens(50)},
                  {"K", shapes.tokens(2'000)},
                  {"d", dimension(shapes)},
                  {"nbits", nbits}});
        shapes.arrange(p);
        p.extras = variant % 4 >= 2;
        p.broken = variant % 8 >= 4;
        if (variant % 3 == 2 && dtype != DType::f16) p.fill = Fill::wide;  // squares overflow
        if (variant % 5 == 3) p.fill = Fill::special;                      // infinities and NaN
        all.push_back(p);
      }
    }
  }
  const auto outcomes = outcomes_of(all, [&](std::size_t i, Outcome &outcome) {
    OpInstance instance(all[i]);
    const Bits got = instance.run(context.get())[MSJ_RESIDUAL_NORMS_INV_NORMS];
    const Bits want = instance.reference(context.get())[MSJ_RESIDUAL_NORMS_INV_NORMS];
    ScoreCheck check;
    for (std::size_t at = 0; at < got.size(); ++at) {
      if (got[at] == want[at]) continue;
      const auto expected = std::bit_cast<float>(want[at]);
      check.take(at, std::bit_cast<float>(got[at]), expected, 1e-6 * std::abs(expected) + 1e-44);
    }
    outcome.worst["norms"] = check.worst;
    outcome.complaint = check.complaint() + instance.damage();
  });
  double worst = 0;
  for (const Outcome &outcome : outcomes) worst = std::max(worst, outcome.worst.at("norms"));
  fmt::print("residual_norms: worst error / bound {:.4f}\n", worst);
}
