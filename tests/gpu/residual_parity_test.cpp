// residual_forward, both paths: every feature set, nbits and pair of dtypes on random shapes, indexes and layouts, each
// score within its bound of float64; small integers bit-equal, winners too; NaN, infinities, codes that are no
// centroid's and documents that are not inside the index as in the reference. residual_norms beside it.
//
// Tuning is off, and each path is forced by a timer of its own: op_configs_test relates a path's other configs to one
// another bit by bit.
#include <doctest/doctest.h>

#include <map>

#include "gpu/op_candidates.h"
#include "gpu/op_judge.h"
#include "gpu/op_shapes.h"
#include "support/scratch.h"

using namespace msj;
using namespace msj::gpu;

namespace {

constexpr std::array<DType, 3> kDtypes = {DType::f16, DType::bf16, DType::f32};
constexpr std::array<std::int64_t, 4> kBits = {1, 2, 4, 8};

// Of B, the sum over s of the largest Σ |q| (|centroid| + |weight|).
double bound_of(const OpProblem &p, const std::string &path) {
  const bool half = p.own[0] == p.own[1] && p.own[0] != DType::f32;
  if (path == "table" || !half) return 2e-6;
  return p.own[0] == DType::f16 ? 1e-4 : 5e-4;
}

std::int64_t dimension(OpShapes &shapes) {
  constexpr std::array<std::int64_t, 5> kUsual = {128, 96, 64, 48, 100};
  if (!shapes.one_in(4)) return kUsual[static_cast<std::size_t>(shapes.whole(0, 4))];
  return shapes.one_in(4) ? shapes.whole(1, 800) : shapes.whole(1, 150);
}

void choose_sizes(OpShapes &shapes, OpProblem &p) {
  const std::int64_t tokens = shapes.tokens(is_quick() ? 600 : 20'000);
  p.resize({{"N", tokens},
            {"K", shapes.tokens(is_quick() ? 300 : 5'000)},
            {"d", dimension(shapes)},
            {"Lq", shapes.one_in(3) ? shapes.tokens(300) : shapes.whole(1, 40)},
            {"Ld", 300}});
  const double pairs = std::exp2(is_quick() ? 18 : 26) /
                       static_cast<double>(p.size("Lq") * p.size("d") * std::min<std::int64_t>(tokens, 5'000));
  const auto Nq = shapes.tokens(std::clamp(pairs, 1.0, 40.0));
  p.resize({{"Nq", Nq}, {"Nd", shapes.tokens(std::clamp(pairs / static_cast<double>(Nq), 1.0, 200.0))}});
}

// Every feature set with every nbits and pair of dtypes: 16 · 4 · 9, a third of them in a quick run.
std::vector<OpProblem> problems(std::uint64_t seed) {
  OpShapes shapes(seed);
  std::vector<OpProblem> all;
  const OpSpec &op = op_of(MSJ_RESIDUAL_FORWARD);
  for (const DType q : kDtypes) {
    for (const DType centroids : kDtypes) {
      for (const std::int64_t nbits : kBits) {
        for (FeatureSet features = 0; features <= op.all_features(); ++features) {
          OpProblem p;
          p.op = &op;
          p.own = {q, centroids};
          p.features = features;
          p.alternative = all.size();
          p.resize({{"nbits", nbits}});
          choose_sizes(shapes, p);
          shapes.arrange(p);
          if (!is_quick() || shapes.one_in(3)) all.push_back(p);
        }
      }
    }
  }
  return all;
}

// A context in which the first admissible candidate of a path wins every sweep; none where the path takes no such call.
class Paths {
 public:
  explicit Paths(const testing::ScratchDirectory &root) {
    for (const char *path : {"table", "gather"}) {
      sessions_[path] = std::make_unique<testing::Session>(
          root / path, "on", [path](const tune::SweepProblem &, const tune::Trial &trial) {
            return trial.config.path == path ? 1.0 : 2.0;
          });
    }
  }

  // body(path, session) for each path that the problem's key and layout admit.
  template <typename Body>
  void each(const OpProblem &p, const Body &body) {
    for (auto &[path, session] : sessions_) {
      const TileConfig config = config_of(*session, p);
      if (config.path == path) body(path, *session);
    }
  }

 private:
  std::map<std::string, std::unique_ptr<testing::Session>> sessions_;
};

struct Worst {
  double score = 0;
  std::string where = "none";
  int problems = 0;
};

void report(const char *what, const std::map<std::string, Worst> &worst) {
  for (const auto &[name, w] : worst) {
    fmt::print("residual: {} {}: {} problems, worst error / bound {:.4f} at {}\n", what, name, w.problems, w.score,
               w.where);
  }
}

// Terms of at most 4 in magnitude, of which every float32 sum is exact: d · Lq · 4 below 2^24.
void make_exact(OpProblem &p) {
  p.fill = Fill::integers;
  p.resize({{"Lq", std::clamp<std::int64_t>((1 << 20) / p.size("d"), 1, p.size("Lq"))}});
}

}  // namespace

TEST_CASE("every feature set, nbits and pair of dtypes of residual_forward is within its bound of float64") {
  const testing::ScratchDirectory root;
  Paths paths(root);
  std::map<std::string, Worst> worst;
  for (const OpProblem &p : problems(test_seed())) {
    CAPTURE(p.text());
    OpInstance instance(p);
    const testing::ScratchDirectory cache;
    const maxsim_jit::Context host({.cache_dir = cache.path(), .tune = "off"});
    const Bits want = instance.reference(host.get())[MSJ_RESIDUAL_FORWARD_SCORES];
    const Bits bounds = instance.magnitudes(host.get())[MSJ_RESIDUAL_FORWARD_SCORES];
    paths.each(p, [&](const std::string &path, testing::Session &session) {
      CAPTURE(path);
      const OpResults got = instance.run(session.get());
      CHECK(instance.damage() == "");
      ScoreCheck check;
      for (std::size_t i = 0; i < bounds.size(); ++i) {
        check.take(i, std::bit_cast<float>(got[MSJ_RESIDUAL_FORWARD_SCORES][i]), std::bit_cast<float>(want[i]),
                   bound_of(p, path) * std::bit_cast<float>(bounds[i]));
      }
      CHECK(check.complaint() == "");
      Worst &w = worst[fmt::format("{} {} {}", path, name(p.own[0]), name(p.own[1]))];
      ++w.problems;
      if (check.worst >= w.score) w.score = check.worst, w.where = p.text();
    });
  }
  report("random values,", worst);
}

TEST_CASE("small integers are exact in residual_forward, broken codes and documents are NaN, ties go to the lowest") {
  const testing::ScratchDirectory root;
  Paths paths(root);
  std::map<std::string, int> runs;
  std::size_t nans = 0;
  std::vector<OpProblem> all = problems(test_seed() + 1);
  for (std::size_t i = 0; i < all.size(); ++i) {
    OpProblem &p = all[i];
    make_exact(p);
    p.broken = i % 2 == 1;
    CAPTURE(p.text());
    OpInstance instance(p);
    paths.each(p, [&](const std::string &path, testing::Session &session) {
      CAPTURE(path);
      const OpResults want = instance.reference(session.get());
      CHECK(difference(p, instance.run(session.get()), want) == "");
      CHECK(instance.damage() == "");
      ++runs[path];
      for (const std::uint32_t score : want[MSJ_RESIDUAL_FORWARD_SCORES])
        nans += std::isnan(std::bit_cast<float>(score)) ? 1 : 0;
    });
  }
  CHECK(nans > 100);
  fmt::print("residual: bit-equal to the reference: table {}, gather {} problems, {} scores of NaN, seed {}\n",
             runs["table"], runs["gather"], nans, test_seed() + 1);
}

TEST_CASE("NaN and infinities in queries, centroids and weights of residual_forward are the reference's") {
  const testing::ScratchDirectory root;
  Paths paths(root);
  OpShapes shapes(test_seed() + 2);
  std::size_t infinities = 0;
  for (OpProblem p : problems(test_seed() + 2)) {
    make_exact(p);
    p.resize({{"N", 300}, {"K", 200}, {"Nd", 7}, {"Nq", 3}, {"Lq", shapes.tokens(70)}, {"d", 40}});
    CAPTURE(p.text());
    OpInstance instance(p);
    for (const std::size_t operand :
         {MSJ_RESIDUAL_FORWARD_Q, MSJ_RESIDUAL_FORWARD_CENTROIDS, MSJ_RESIDUAL_FORWARD_BUCKET_WEIGHTS}) {
      if (operand == MSJ_RESIDUAL_FORWARD_BUCKET_WEIGHTS && p.size("nbits") < 4) continue;  // it would be everywhere
      Bits bits = instance.elements(operand);
      for (std::int64_t count = shapes.whole(0, 2); count > 0; --count) {
        const double special =
            shapes.one_in(3) ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
        const auto at = static_cast<std::size_t>(shapes.whole(0, static_cast<std::int64_t>(bits.size()) - 1));
        bits[at] = encode(p.dtype(operand), shapes.one_in(2) ? -special : special);
      }
      instance.set(operand, bits);
    }
    paths.each(p, [&](const std::string &path, testing::Session &session) {
      CAPTURE(path);
      const OpResults want = instance.reference(session.get());
      CHECK(difference(p, instance.run(session.get()), want) == "");
      for (const std::uint32_t score : want[MSJ_RESIDUAL_FORWARD_SCORES])
        infinities += std::isinf(std::bit_cast<float>(score)) ? 1 : 0;
    });
  }
  CHECK(infinities > 100);
}

TEST_CASE("residual_norms are the reference's within 1e-6, of all tokens and of documents") {
  const testing::ScratchDirectory cache;
  const maxsim_jit::Context context({.cache_dir = cache.path(), .tune = "off"});
  OpShapes shapes(test_seed() + 3);
  const OpSpec &op = op_of(MSJ_RESIDUAL_NORMS);
  double worst = 0;
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
        CAPTURE(p.text());
        OpInstance instance(p);
        const Bits got = instance.run(context.get())[MSJ_RESIDUAL_NORMS_INV_NORMS];
        const Bits want = instance.reference(context.get())[MSJ_RESIDUAL_NORMS_INV_NORMS];
        CHECK(instance.damage() == "");
        ScoreCheck check;
        for (std::size_t i = 0; i < got.size(); ++i) {
          if (got[i] == want[i]) continue;
          const float expected = std::bit_cast<float>(want[i]);
          check.take(i, std::bit_cast<float>(got[i]), expected, 1e-6 * std::abs(expected) + 1e-44);
        }
        CHECK(check.complaint() == "");
        worst = std::max(worst, check.worst);
      }
    }
  }
  fmt::print("residual_norms: worst error / bound {:.4f}\n", worst);
}
