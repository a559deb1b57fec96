// Every candidate config of any op's space, each in a library context of its own whose timer favours it: what is
// launched then goes the way that a tuned call goes.
#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gpu/candidates.h"
#include "gpu/op_problem.h"

namespace msj::gpu {

// Candidates admitted for the key of this problem on this GPU.
[[nodiscard]] inline tune::Admission admission_of(const OpProblem &problem) {
  const auto rules = tune::BucketRules::parse(tune::BucketRules::embedded());
  const tune::AutotuneKey key(*problem.op, rules.bucket(*problem.op, problem.sizes),
                              tune::DtypeTuple(*problem.op, problem.own));
  return tune::admit(tune::CandidateSpace::embedded(*problem.op), key, Gpu::get().info().limits);
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

}  // namespace msj::gpu
