// DESIGN, invariant 8, of fp8_forward, fused_head_forward and residual_forward: within a kernel path a score's bits do
// not depend on the tile config, the layout, save_argmax, all-ones masks, the other queries and documents of the call,
// or the run.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "gpu/op_candidates.h"
#include "gpu/op_judge.h"

using namespace msj;
using namespace msj::gpu;

namespace {

struct Target {
  msj_op op;
  std::vector<DType> own;
  std::vector<std::pair<std::string_view, std::int64_t>> statics;
};

std::vector<std::pair<std::string_view, std::int64_t>> residual_sizes(std::int64_t d, std::int64_t nbits) {
  return {{"d", d}, {"nbits", nbits}, {"K", 501}, {"N", 1'203}};
}

std::vector<Target> targets() {
  return {{MSJ_FP8_FORWARD, {DType::fp8_e4m3, DType::fp8_e4m3}, {{"d", 128}}},
          {MSJ_FP8_FORWARD, {DType::fp8_e5m2, DType::fp8_e4m3}, {{"d", 300}}},
          {MSJ_FP8_FORWARD, {DType::fp8_e4m3, DType::fp8_e5m2}, {{"d", 48}}},
          {MSJ_FUSED_HEAD_FORWARD, {DType::bf16}, {{"d_out", 128}, {"d_model", 384}}},
          {MSJ_FUSED_HEAD_FORWARD, {DType::f16}, {{"d_out", 100}, {"d_model", 200}}},
          {MSJ_FUSED_HEAD_FORWARD, {DType::f32}, {{"d_out", 64}, {"d_model", 96}}},
          {MSJ_RESIDUAL_FORWARD, {DType::f16, DType::f16}, residual_sizes(128, 2)},
          {MSJ_RESIDUAL_FORWARD, {DType::bf16, DType::bf16}, residual_sizes(100, 4)},
          {MSJ_RESIDUAL_FORWARD, {DType::f16, DType::f32}, residual_sizes(96, 2)}};
}

struct Shape {
  std::int64_t Nq, Nd, Lq, Ld;
};
constexpr std::array<Shape, 4> kShapes = {{{1, 9, 32, 300}, {3, 17, 37, 150}, {9, 5, 130, 70}, {2, 3, 300, 20}}};

// What a problem computes, apart from how: problems of one group have equal scores.
struct Member {
  OpProblem problem;
  int group = 0;
};

// Group by group: masks that keep everything and argmax change nothing; all other features do.
std::vector<Member> members(const Target &target) {
  const OpSpec &op = op_of(target.op);
  const FeatureSet argmax = features_of(op, {"save_argmax"});
  FeatureSet masks = features_of(op, {"q_mask"});
  if (find_named(op.features, "d_mask") >= 0) masks |= features_of(op, {"d_mask"});
  const FeatureSet others = op.all_features() & ~argmax & ~masks;
  std::vector<Member> all;
  for (std::size_t s = 0; s < kShapes.size(); ++s) {
    OpProblem p;
    p.op = &op;
    p.own = target.own;
    p.resize({{"Nq", kShapes[s].Nq}, {"Nd", kShapes[s].Nd}, {"Lq", kShapes[s].Lq}, {"Ld", kShapes[s].Ld}});
    for (const auto &[name, value] : target.statics) p.resize({{name, value}});
    p.extras = s % 2 == 1;
    p.singles = true;
    p.seed = test_seed() + s;
    for (const FeatureSet base : {FeatureSet{0}, others}) {
      for (const FeatureSet neutral : {FeatureSet{0}, argmax, masks | argmax}) {
        for (const Placing placing : {Placing::padded, Placing::odd_rows}) {
          if (placing == Placing::odd_rows && neutral == argmax) continue;
          p.features = base | neutral;
          p.streamed = placing;
          all.push_back({p, static_cast<int>(2 * s + (base == 0 ? 0 : 1))});
        }
      }
    }
  }
  return all;
}

void keep_everything(OpInstance &instance) {
  for (const char *mask : {"q_mask", "d_mask"}) {
    if (find_named(instance.problem().op->operands, mask) < 0) continue;
    const std::size_t operand = operand_of(*instance.problem().op, mask);
    if (instance.is_present(operand)) instance.set(operand, Bits(instance.elements(operand).size(), 1));
  }
}

const Bits &scores_of(const OpProblem &problem, const OpResults &results) {
  return results[operand_of(*problem.op, "scores")];
}

// ---- a part of a problem: some queries against some documents -------------------------------------------------------

struct Part {
  std::int64_t query, queries, document, documents;
};

// The part's rows of an operand, by the names of its dimensions.
Bits part_of(const OpInstance &instance, std::size_t operand, const Part &part) {
  const OpSpec &op = *instance.problem().op;
  const Placement &at = instance.operand(operand).placement();
  const Bits &all = instance.elements(operand);
  if (at.rank != op.operands[operand].rank) return all;  // one value for all
  const auto dimension = static_cast<std::size_t>(op.operands[operand].dims[0]);
  if (dimension >= op.sizes.size()) return all;  // an extent, not a size
  const std::string_view first = op.sizes[dimension].name;
  if (first != "Nq" && first != "Nd") return all;
  const auto row = static_cast<std::ptrdiff_t>(at.shape[1] * at.shape[2]);
  const auto begin = all.begin() + row * (first == "Nq" ? part.query : part.document);
  return {begin, begin + row * (first == "Nq" ? part.queries : part.documents)};
}

bool parts_equal(msj_context *context, const OpInstance &instance, const Bits &whole) {
  const OpProblem &p = instance.problem();
  const std::int64_t Nq = p.size("Nq");
  const std::int64_t Nd = p.size("Nd");
  bool equal = true;
  for (const Part &part :
       {Part{0, 1, 0, 1}, Part{Nq - 1, 1, Nd - 1, 1}, Part{Nq / 2, 1, 0, Nd}, Part{0, Nq, Nd / 2, Nd - Nd / 2}}) {
    OpProblem smaller = p;
    smaller.resize({{"Nq", part.queries}, {"Nd", part.documents}});
    OpInstance alone(smaller);
    for (std::size_t i = 0; i < p.op->operands.size(); ++i) {
      if (alone.is_present(i) && !p.op->operands[i].is_result) alone.set(i, part_of(instance, i, part));
    }
    const Bits got = scores_of(p, alone.run(context));
    for (std::int64_t i = 0; i < part.queries * part.documents; ++i) {
      const std::int64_t query = part.query + i / part.documents;
      const std::int64_t document = part.document + i % part.documents;
      equal = equal && got[static_cast<std::size_t>(i)] == whole[static_cast<std::size_t>(query * Nd + document)];
    }
  }
  return equal;
}

// ---- all candidates of one target -----------------------------------------------------------------------------------

class Comparison {
 public:
  explicit Comparison(const Target &target) : members_(members(target)) {
    for (const Member &member : members_) {
      instances_.push_back(std::make_unique<OpInstance>(member.problem));
      keep_everything(*instances_.back());
    }
    for (const Member &member : members_) admitted_.push_back(admitted_candidates(member.problem));
    candidates_ = admitted_.front();
    if (is_quick() && candidates_.size() > 3) candidates_.resize(3);
  }

  void run_all() {
    const testing::ScratchDirectory root;
    const ForcedOpContexts contexts(root.path(), members_.front().problem);
    prepare(contexts);
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      CAPTURE(to_string(candidates_[i].config));
      run_candidate(candidates_[i], *sessions_[i]);
      CHECK(sessions_[i]->complaints().empty());
    }
    fmt::print("configs: {}: {} candidates, {} runs, {} groups of equal bits\n", members_.front().problem.text(),
               candidates_.size(), runs_, scores_.size());
  }

 private:
  // Everything that the comparison launches, compiled on all cores.
  void prepare(const ForcedOpContexts &contexts) {
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      sessions_.push_back(contexts.context(candidates_[i].config, i));
    }
    in_parallel(candidates_.size() * members_.size(), [&](std::size_t i) {
      const Candidate &candidate = candidates_[i % candidates_.size()];
      const OpProblem &problem = members_[i / candidates_.size()].problem;
      if (takes(candidate, i / candidates_.size())) (void)config_of(*sessions_[i % candidates_.size()], problem);
    });
  }

  void run_candidate(const Candidate &candidate, testing::Session &session) {
    for (std::size_t m = 0; m < members_.size(); ++m) {
      const OpProblem &problem = members_[m].problem;
      if (!takes(candidate, m)) continue;
      CAPTURE(problem.text());
      CHECK(config_of(session, problem) == candidate.config);
      const Bits first = run_once(session, *instances_[m]);
      CHECK(first == run_once(session, *instances_[m]));
      const auto [it, is_new] = scores_.emplace(std::pair(candidate.config.path, members_[m].group), first);
      CHECK(first == it->second);
      const bool is_argmax_or_mask = (problem.features & features_of(*problem.op, {"save_argmax", "q_mask"})) != 0;
      if (!is_argmax_or_mask) CHECK(parts_equal(session.get(), *instances_[m], first));
    }
  }

  // Longer queries than the first member's are in another bucket, where shared memory may not do.
  [[nodiscard]] bool takes(const Candidate &candidate, std::size_t member) const {
    return candidate.takes(layout_of(members_[member].problem)) &&
           std::ranges::any_of(admitted_[member], [&](const Candidate &c) { return c.config == candidate.config; });
  }

  Bits run_once(testing::Session &session, OpInstance &instance) {
    ++runs_;
    return scores_of(instance.problem(), instance.run(session.get()));
  }

  std::vector<Member> members_;
  std::vector<std::unique_ptr<OpInstance>> instances_;
  std::vector<std::vector<Candidate>> admitted_;  // of each member
  std::vector<Candidate> candidates_;             // of the first
  std::vector<std::unique_ptr<testing::Session>> sessions_;
  std::map<std::pair<std::string, int>, Bits> scores_;  // by path and group
  int runs_ = 0;
};

}  // namespace

TEST_CASE(
    "scores of fp8_forward, fused_head_forward and residual_forward are bit-identical across configs, layouts and "
    "neighbours") {
  for (const Target &target : targets()) {
    Comparison comparison(target);
    comparison.run_all();
  }
}
