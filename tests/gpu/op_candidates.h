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

// A directory with the cubins of the problem's sweep, which the contexts of all of its candidates read.
class ForcedOpContexts {
 public:
  ForcedOpContexts(std::string root, const OpProblem &problem) : root_(std::move(root)) {
    if (!testing::cubin_files(shared()).empty()) return;  // kept from another process
    testing::Session session(shared());
    (void)config_of(session, problem);
    // The cubins stay; the entry would be found below and keep the others' timers from being asked.
    for (const auto &path : testing::entry_files(shared())) std::filesystem::remove(path);
  }

  // A context in which `config` is the winner of every key.
  [[nodiscard]] std::unique_ptr<testing::Session> context(const TileConfig &config, std::size_t index) const {
    const auto favour = [config](const tune::SweepProblem &, const tune::Trial &trial) {
      return trial.config == config ? 1.0 : 2.0;
    };
    return std::make_unique<testing::Session>(fmt::format("{}/forced-{}:{}", root_, index, shared()), "on", favour);
  }

 private:
  [[nodiscard]] std::string shared() const { return root_ + "/shared"; }
  std::string root_;
};

// A context in which calls take one path. An autotune entry made up for each key says so, so nothing is swept, and a
// problem costs the one compile of what it launches. Any thread.
class ForcedPath {
 public:
  ForcedPath(const std::string &cache, std::string path) : path_(std::move(path)), session_(cache, "cached") {}

  [[nodiscard]] const std::string &path() const { return path_; }
  [[nodiscard]] msj_context *get() { return session_.get(); }
  [[nodiscard]] std::vector<std::string> complaints() { return session_.complaints(); }

  // Before the first call of the problem's key. False where no candidate of the path takes its key and layout class.
  [[nodiscard]] bool force(const OpProblem &problem) {
    const tune::Admission admission = admission_of(problem);
    tune::Entry entry;
    entry.configs = {first_of(admission, Layout::aligned16), first_of(admission, Layout::any)};
    if (entry.configs.of(layout_of(problem)).path != path_) return false;
    const tune::AutotuneKey key = key_of(problem);
    entry.op = problem.op->name;
    entry.environment = Gpu::get().info().environment();
    entry.sizes = problem.sizes;
    for (const Layout layout : kLayouts) {
      entry.candidates.push_back({entry.configs.of(layout), layout, {1, 0, 1, {}}, {}});
    }
    session_.pipeline().tuner().entries().save(
        {entry.environment, entry.op, key.text(), tune::to_json(entry, key), {}});
    return true;
  }

 private:
  // The path's first candidate, or where it has none in that class, the first of all.
  [[nodiscard]] TileConfig first_of(const tune::Admission &admission, Layout layout) const {
    const tune::Admitted *first = nullptr;
    for (const tune::Admitted &admitted : admission.admitted) {
      if (admitted.layout != layout) continue;
      if (admitted.config.path == path_) return admitted.config;
      if (first == nullptr) first = &admitted;
    }
    if (first == nullptr) throw std::runtime_error(fmt::format("no candidate takes layout class {}", name(layout)));
    return first->config;
  }

  std::string path_;
  testing::Session session_;
};

}  // namespace msj::gpu
