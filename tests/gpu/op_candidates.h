// Every candidate config of any op's space, each in a library context of its own whose timer favours it: what is
// launched then goes the way that a tuned call goes. One path alone without a sweep.
#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gpu/candidates.h"
#include "gpu/op_problem.h"

namespace msj::gpu {

[[nodiscard]] inline tune::AutotuneKey key_of(const OpProblem &problem) {
  const auto rules = tune::BucketRules::parse(tune::BucketRules::embedded());
  return {*problem.op, rules.bucket(*problem.op, problem.sizes), tune::DtypeTuple(*problem.op, problem.own)};
}

[[nodiscard]] inline tune::AutotuneKey key_of(const BoundCall &call) {
  const auto rules = tune::BucketRules::parse(tune::BucketRules::embedded());
  std::vector<DType> own;
  for (std::size_t i = 0; i < call.op->operands.size(); ++i) {
    if (call.op->operands[i].dtype.kind == DtypeRule::Kind::own) own.push_back(call.dtypes[i]);
  }
  return {*call.op, rules.bucket(*call.op, call.sizes), tune::DtypeTuple(*call.op, own)};
}

// Candidates admitted for the key of this problem on this GPU.
[[nodiscard]] inline tune::Admission admission_of(const OpProblem &problem) {
  return tune::admit(tune::CandidateSpace::embedded(*problem.op), key_of(problem), Gpu::get().info().limits);
}

[[nodiscard]] inline std::vector<Candidate> admitted_candidates(const OpProblem &problem) {
  std::vector<Candidate> candidates;
  for (const tune::Admitted &admitted : admission_of(problem).admitted) {
    auto it = std::find_if(candidates.begin(), candidates.end(),
                           [&](const Candidate &c) { return c.config == admitted.config; });
    if (it == candidates.end()) it = candidates.insert(candidates.end(), {admitted.config, false, false});
    (admitted.layout == Layout::any ? it->takes_any : it->takes_aligned) = true;
  }
  return candidates;
}

[[nodiscard]] inline Layout layout_of(const OpProblem &problem) {
  const maxsim_jit::Call call = problem.call_to_prepare();
  return ops::bind(*call.get(), ops::DataRule::ignored).layout;
}

// Compiles and loads what a call of this problem launches; its config.
inline TileConfig config_of(testing::Session &session, const OpProblem &problem) {
  const maxsim_jit::Call call = problem.call_to_prepare();
  ops::LaunchSite site;
  return session.pipeline().prepare(ops::bind(*call.get(), ops::DataRule::ignored), site)->config;
}

// An autotune entry made up for the call's key, which is found before a shipped one: of each layout class the first
// candidate that is `wanted`, or where none is, the first of all. False, and no entry, where the call's own has none.
template <typename Wanted>
bool save_winner(testing::Session &session, const BoundCall &bound, const Wanted &wanted) {
  const tune::AutotuneKey key = key_of(bound);
  const auto admitted = tune::admit(tune::CandidateSpace::embedded(*bound.op), key, Gpu::get().info().limits).admitted;
  const auto first_of = [&](Layout layout) {
    const tune::Admitted *first = nullptr;
    for (const tune::Admitted &candidate : admitted) {
      if (candidate.layout != layout) continue;
      if (wanted(candidate.config)) return candidate.config;
      if (first == nullptr) first = &candidate;
    }
    if (first == nullptr) throw std::runtime_error(fmt::format("no candidate takes layout class {}", name(layout)));
    return first->config;
  };
  tune::Entry entry;
  entry.configs = {first_of(Layout::aligned16), first_of(Layout::any)};
  if (!wanted(entry.configs.of(bound.layout))) return false;
  entry.op = bound.op->name;
  entry.environment = Gpu::get().info().environment();
  entry.sizes = bound.sizes;
  for (const Layout layout : kLayouts) {
    entry.candidates.push_back({entry.configs.of(layout), layout, {1, 0, 1, {}}, {}});
  }
  session.pipeline().tuner().entries().save({entry.environment, entry.op, key.text(), tune::to_json(entry, key), {}});
  return true;
}

// A directory with the cubins of the problem's sweep, which the contexts of all of its candidates read.
class ForcedOpContexts {
 public:
  ForcedOpContexts(std::string root, OpProblem problem) : root_(std::move(root)), problem_(std::move(problem)) {
    if (!testing::cubin_files(shared()).empty()) return;  // kept from another process
    testing::Session session(shared());
    (void)config_of(session, problem_);
    // The cubins stay; the entry would be found below and keep the others' timers from being asked.
    for (const auto &path : testing::entry_files(shared())) std::filesystem::remove(path);
  }

  // A context in which `config` is the winner of the problem's key, and of every other that no entry is shipped for.
  [[nodiscard]] std::unique_ptr<testing::Session> context(const TileConfig &config, std::size_t index) const {
    const auto favour = [config](const tune::SweepProblem &, const tune::Trial &trial) {
      return trial.config == config ? 1.0 : 2.0;
    };
    auto session =
        std::make_unique<testing::Session>(fmt::format("{}/forced-{}:{}", root_, index, shared()), "on", favour);
    const maxsim_jit::Call call = problem_.call_to_prepare();
    save_winner(*session, ops::bind(*call.get(), ops::DataRule::ignored),
                [&](const TileConfig &candidate) { return candidate == config; });
    return session;
  }

 private:
  [[nodiscard]] std::string shared() const { return root_ + "/shared"; }
  std::string root_;
  OpProblem problem_;
};

// A context in which calls take one path. Nothing is swept, and a problem costs the one compile of what it launches.
// Any thread.
class ForcedPath {
 public:
  ForcedPath(const std::string &cache, std::string path) : path_(std::move(path)), session_(cache, "cached") {}

  [[nodiscard]] const std::string &path() const { return path_; }
  [[nodiscard]] msj_context *get() { return session_.get(); }
  [[nodiscard]] std::vector<std::string> complaints() { return session_.complaints(); }

  // Before the first call of the call's key. False where no candidate of the path takes its key and layout class.
  [[nodiscard]] bool force(const maxsim_jit::Call &call) {
    return save_winner(session_, ops::bind(*call.get(), ops::DataRule::ignored),
                       [&](const TileConfig &config) { return config.path == path_; });
  }

 private:
  std::string path_;
  testing::Session session_;
};

// Every path of an op. The caches of their contexts are below `root`, which may be kept for others.
class AllPaths {
 public:
  AllPaths(const OpSpec &op, const std::string &root) {
    for (const PathSpec &path : op.paths) {
      paths_.push_back(std::make_unique<ForcedPath>(fmt::format("{}/{}", root, path.name), std::string(path.name)));
    }
  }
  ~AllPaths() {
    for (const auto &path : paths_) CHECK(path->complaints() == std::vector<std::string>{});
  }

  [[nodiscard]] msj_context *any() { return paths_.front()->get(); }  // for the reference

  // visit(path) for each one that takes the call; returns how many.
  template <typename Visit>
  int each(const maxsim_jit::Call &to_prepare, const Visit &visit) {
    int taken = 0;
    for (const auto &path : paths_) {
      if (!path->force(to_prepare)) continue;
      ++taken;
      visit(*path);
    }
    return taken;
  }

  // Compiles what calls launch, on all cores. call_of(i): made to prepare.
  template <typename CallOf>
  void prepare(std::size_t count, const CallOf &call_of) {
    in_parallel(count, [&](std::size_t i) {
      const maxsim_jit::Call call = call_of(i);
      each(call, [&](ForcedPath &path) {
        if (msj_prepare(path.get(), call.get(), nullptr, nullptr) != MSJ_OK) {
          throw std::runtime_error(msj_last_error());
        }
      });
    });
  }

  [[nodiscard]] std::int64_t compiles() const {
    std::int64_t sum = 0;
    for (const auto &path : paths_) {
      msj_counters counters{};
      counters.struct_size = sizeof counters;
      if (msj_stats(path->get(), &counters) == MSJ_OK) sum += counters.nvrtc_invocations;
    }
    return sum;
  }

 private:
  std::vector<std::unique_ptr<ForcedPath>> paths_;
};

}  // namespace msj::gpu
