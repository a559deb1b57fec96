// DESIGN, invariant 8: within a kernel path, a score's bits do not depend on the tile config, the layout,
// save_argmax, all-ones masks, the other queries and documents of the call, or the run.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstring>
#include <map>
#include <set>

#include "gpu/candidates.h"
#include "gpu/instance.h"

using namespace msj;
using namespace msj::gpu;

namespace {

struct Target {
  DType dtype;
  std::int64_t d;
};
constexpr std::array<Target, 4> kTargets = {
    {{DType::bf16, 128}, {DType::bf16, 300}, {DType::f16, 100}, {DType::f32, 128}}};

// What a problem computes, apart from how: problems of one group have equal scores.
struct Member {
  Problem problem;
  int group = 0;
  bool ones = false;  // its masks keep everything
};

struct Shape {
  std::int64_t Nq, Nd, Lq, Ld;
};
constexpr std::array<Shape, 4> kShapes = {{{1, 9, 32, 300}, {3, 17, 37, 150}, {9, 5, 130, 70}, {2, 3, 300, 20}}};

std::vector<Member> members(const Target &target) {
  struct Kind {
    FeatureSet features;
    int group;
    bool ones;
  };
  constexpr std::array<Kind, 5> kKinds = {{{0, 0, false},
                                           {kArgmax, 0, false},
                                           {kQMask | kDMask, 0, true},
                                           {kQMask | kDMask | kNormalize, 1, false},
                                           {kAllFeatures, 1, false}}};
  std::vector<Member> all;
  for (std::size_t s = 0; s < kShapes.size(); ++s) {
    for (const Kind &kind : kKinds) {
      for (const Placing placing : {Placing::padded, Placing::odd_rows}) {
        Problem p;
        p.dtype = target.dtype;
        p.d = target.d;
        p.Nq = kShapes[s].Nq, p.Nd = kShapes[s].Nd, p.Lq = kShapes[s].Lq, p.Ld = kShapes[s].Ld;
        p.features = kind.features;
        p.d_lengths = s % 2 == 1;
        p.q = p.documents = placing;
        p.seed = test_seed() + s;
        all.push_back({p, static_cast<int>(2 * s) + kind.group, kind.ones});
      }
    }
  }
  return all;
}

void keep_everything(const Instance &instance) {
  for (const std::size_t mask : {MSJ_DENSE_FORWARD_Q_MASK, MSJ_DENSE_FORWARD_D_MASK}) {
    const Operand &operand = instance.operand(mask);
    operand.set(std::vector<std::uint8_t>(static_cast<std::size_t>(operand.placement().elements()), 1));
  }
}

bool equal_bits(const std::vector<float> &a, const std::vector<float> &b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// ---- a part of a problem: some queries against some documents -----------------------------------------------------

struct Part {
  std::int64_t query, queries, document, documents;
};

maxsim_jit::Tensor rows(const Operand &operand, std::int64_t first, std::int64_t count) {
  Placement placement = operand.placement();
  placement.offset += first * placement.strides[0];
  placement.shape[0] = count;
  const View whole = operand.view();
  const auto *base = static_cast<const char *>(whole.data) - operand.placement().offset * bytes(placement.dtype);
  return placement.tensor(base);
}

std::vector<float> scores_of_part(msj_context *context, const Instance &instance, const Part &part) {
  const Operand scores(place(DType::f32, {part.queries, part.documents}, Placing::contiguous), kResultPoison, 256);
  maxsim_jit::DenseForward arguments;
  arguments.q = rows(instance.operand(MSJ_DENSE_FORWARD_Q), part.query, part.queries);
  arguments.d = rows(instance.operand(MSJ_DENSE_FORWARD_D), part.document, part.documents);
  if (instance.problem().d_lengths) {
    arguments.d_lengths = rows(instance.operand(MSJ_DENSE_FORWARD_D_LENGTHS), part.document, part.documents);
  }
  arguments.scores = scores.tensor();
  run(context, arguments.call());
  return scores.elements<float>();
}

std::vector<Part> parts_of(const Problem &p) {
  return {{0, 1, 0, 1}, {p.Nq - 1, 1, p.Nd - 1, 1}, {p.Nq / 2, 1, 0, p.Nd}, {0, p.Nq, p.Nd / 2, p.Nd - p.Nd / 2}};
}

bool parts_equal(msj_context *context, const Instance &instance, const std::vector<float> &whole) {
  const Problem &p = instance.problem();
  bool equal = true;
  for (const Part &part : parts_of(p)) {
    const auto got = scores_of_part(context, instance, part);
    for (std::int64_t i = 0; i < part.queries; ++i) {
      const float *row = whole.data() + (part.query + i) * p.Nd + part.document;
      equal = equal && std::memcmp(got.data() + i * part.documents, row,
                                   static_cast<std::size_t>(part.documents) * sizeof(float)) == 0;
    }
  }
  return equal;
}

// ---- all candidates of one dtype and d ----------------------------------------------------------------------------

class Comparison {
 public:
  explicit Comparison(const Target &target) : target_(target), members_(members(target)) {
    for (const Member &member : members_) {
      instances_.push_back(std::make_unique<Instance>(member.problem));
      if (member.ones) keep_everything(*instances_.back());
    }
  }

  // Everything that the comparison launches, compiled on all cores.
  void prepare(const ForcedContexts &contexts) {
    candidates_ = admitted_candidates(target_.dtype, target_.d);
    if (is_quick()) {
      for (std::size_t i = 1; i < candidates_.size(); ++i) candidates_.erase(candidates_.begin() + static_cast<int>(i));
    }
    sessions_.resize(candidates_.size());
    in_parallel(candidates_.size(), [&](std::size_t i) {
      sessions_[i] = contexts.context(candidates_[i].config, i);
      for (const Member &member : members_) {
        if (!candidates_[i].takes(layout_of(member.problem))) continue;
        (void)config_of(*sessions_[i], member.problem);
      }
    });
  }

  void run_all() {
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      CAPTURE(to_string(candidates_[i].config));
      run_candidate(candidates_[i], *sessions_[i]);
      CHECK(sessions_[i]->complaints().empty());
    }
    fmt::print("configs: {} d {}: {} candidates, {} runs, {} groups of equal bits\n", name(target_.dtype), target_.d,
               candidates_.size(), runs_, scores_.size());
  }

  [[nodiscard]] std::size_t count() const { return candidates_.size(); }
  [[nodiscard]] std::size_t count_any() const {
    return static_cast<std::size_t>(
        std::count_if(candidates_.begin(), candidates_.end(), [](const Candidate &c) { return c.takes_any; }));
  }

 private:
  void run_candidate(const Candidate &candidate, testing::Session &session) {
    for (std::size_t m = 0; m < members_.size(); ++m) {
      const Problem &problem = members_[m].problem;
      if (!candidate.takes(layout_of(problem))) continue;
      CAPTURE(problem.text());
      CHECK(config_of(session, problem) == candidate.config);
      const auto first = run_once(session, *instances_[m]);
      CHECK(equal_bits(first, run_once(session, *instances_[m])));
      const auto [it, is_new] = scores_.emplace(std::pair(candidate.config.path, members_[m].group), first);
      CHECK(equal_bits(first, it->second));
      if (problem.features == 0) CHECK(parts_equal(session.get(), *instances_[m], first));
    }
  }

  std::vector<float> run_once(testing::Session &session, const Instance &instance) {
    instance.poison();
    run(session.get(), instance.call());
    ++runs_;
    return instance.scores();
  }

  Target target_;
  std::vector<Member> members_;
  std::vector<std::unique_ptr<Instance>> instances_;
  std::vector<Candidate> candidates_;
  std::vector<std::unique_ptr<testing::Session>> sessions_;
  std::map<std::pair<std::string, int>, std::vector<float>> scores_;  // by kernel path and group
  int runs_ = 0;
};

}  // namespace

TEST_CASE("scores are bit-identical across configs, layouts, features that do not change them, and neighbours") {
  for (const Target &target : kTargets) {
    CAPTURE(std::string(name(target.dtype)));
    CAPTURE(target.d);
    const testing::ScratchDirectory root;
    ForcedContexts contexts(root.path());
    contexts.compile_sweep(target.dtype, target.d);
    Comparison comparison(target);
    comparison.prepare(contexts);
    comparison.run_all();
    if (target.dtype == DType::bf16 && target.d == 128 && !is_quick()) {
      CHECK(comparison.count() >= 12);
      CHECK(comparison.count_any() >= 6);
    }
  }
}
