// Every candidate config of dense_forward's space, each in a library context of its own whose timer favours it: what
// is launched then goes the way that a tuned call goes.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "gpu/problem.h"
#include "ops/bind.h"
#include "support/scratch.h"
#include "support/session.h"
#include "tune/space.h"

namespace msj::gpu {

struct Candidate {
  TileConfig config;
  bool takes_aligned = false;
  bool takes_any = false;
  [[nodiscard]] bool takes(Layout layout) const { return layout == Layout::any ? takes_any : takes_aligned; }
};

// Candidates admitted for matrices of this dtype and d on this GPU.
[[nodiscard]] std::vector<Candidate> admitted_candidates(DType dtype, std::int64_t d);

// Contexts for one dtype and d. Their cache directories are below `root`, which may be kept for another process.
class ForcedContexts {
 public:
  explicit ForcedContexts(std::string root) : root_(std::move(root)) {}

  // Compiles the sweep's cubins into the layer that all contexts below read.
  void compile_sweep(DType dtype, std::int64_t d);
  // A context in which `config` is the winner of every key.
  [[nodiscard]] std::unique_ptr<testing::Session> context(const TileConfig &config, std::size_t index) const;

 private:
  [[nodiscard]] std::string shared() const { return root_ + "/shared"; }
  std::string root_;
};

// The config that a call of this problem launches in this context.
[[nodiscard]] TileConfig config_of(testing::Session &session, const Problem &problem);
[[nodiscard]] Layout layout_of(const Problem &problem);

// ---------------------------------------------------------------------------------------------------------------------

inline tune::Admission admission_of(DType dtype, std::int64_t d) {
  const OpSpec &op = ops::dense_forward_spec();
  const auto rules = tune::BucketRules::parse(tune::BucketRules::embedded());
  const std::array<DType, 1> own = {dtype};
  const tune::AutotuneKey key(op, rules.bucket(op, {1, 100, 32, 300, d}), tune::DtypeTuple(op, own));
  return tune::admit(tune::CandidateSpace::embedded(op), key, Gpu::get().info().limits);
}

inline std::vector<Candidate> admitted_candidates(DType dtype, std::int64_t d) {
  std::vector<Candidate> candidates;
  for (const tune::Admitted &admitted : admission_of(dtype, d).admitted) {
    auto it = std::find_if(candidates.begin(), candidates.end(),
                           [&](const Candidate &c) { return c.config == admitted.config; });
    if (it == candidates.end()) it = candidates.insert(candidates.end(), {admitted.config, false, false});
    (admitted.layout == Layout::any ? it->takes_any : it->takes_aligned) = true;
  }
  return candidates;
}

inline void ForcedContexts::compile_sweep(DType dtype, std::int64_t d) {
  if (!testing::cubin_files(shared()).empty()) return;  // kept from another process
  testing::Session session(shared());
  Problem problem;
  problem.dtype = dtype;
  problem.Lq = 32, problem.Ld = 300, problem.Nd = 100, problem.d = d;
  if (msj_prepare(session.get(), problem.call_to_prepare().get(), nullptr, nullptr) != MSJ_OK) {
    throw std::runtime_error(msj_last_error());
  }
  // The cubins stay; the entry would be found below and keep the others' timers from being asked.
  for (const auto &path : testing::entry_files(shared())) std::filesystem::remove(path);
}

inline std::unique_ptr<testing::Session> ForcedContexts::context(const TileConfig &config, std::size_t index) const {
  const auto favour = [config](const tune::SweepProblem &, const tune::Trial &trial) {
    return trial.config == config ? 1.0 : 2.0;
  };
  return std::make_unique<testing::Session>(fmt::format("{}/forced-{}:{}", root_, index, shared()), "on", favour);
}

inline TileConfig config_of(testing::Session &session, const Problem &problem) {
  const maxsim_jit::Call call = problem.call_to_prepare();
  ops::LaunchSite site;
  return session.pipeline().prepare(ops::bind(*call.get(), ops::DataRule::ignored), site)->config;
}

inline Layout layout_of(const Problem &problem) {
  const maxsim_jit::Call call = problem.call_to_prepare();
  return ops::bind(*call.get(), ops::DataRule::ignored).layout;
}

}  // namespace msj::gpu
