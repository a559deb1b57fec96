// A problem on the device: its operands filled from the seed and between guard zones, to be run and judged.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "gpu/oracle.h"
#include "gpu/problem.h"

namespace msj::gpu {

class Instance {
 public:
  // Allocates in `context` (null: the primary one), fills inputs, poisons results; all of it is done when this returns.
  // In other contexts than the primary one inputs stay poison: the tests' kernels are not there.
  explicit Instance(const Problem &problem, CUcontext context = nullptr);

  [[nodiscard]] const Problem &problem() const { return problem_; }
  [[nodiscard]] const Operand &operand(std::size_t index) const { return *operands_.at(index); }
  [[nodiscard]] maxsim_jit::Call call(void *stream = nullptr) const;
  // Poisons the results again, and waits for it.
  void poison() const;

  struct Results {
    std::vector<float> scores;  // C order
    std::vector<int> argmax;    // empty without the feature
  };
  [[nodiscard]] std::vector<float> scores() const { return operand(MSJ_DENSE_FORWARD_SCORES).elements<float>(); }
  [[nodiscard]] Results results() const;
  // What the CPU reference makes of the same bytes, through MSJ_DEVICE_CPU.
  [[nodiscard]] Results reference(msj_context *context) const;
  // The results against the float64 oracle, then every byte around them. Poisons the results. Primary context only.
  [[nodiscard]] Verdict judge(bool exact) const;

 private:
  void fill() const;
  [[nodiscard]] static bool is_result(std::size_t operand) {
    return ops::dense_forward_spec().operands[operand].is_result;
  }

  Problem problem_;
  CUcontext context_;
  std::array<std::optional<Operand>, MSJ_DENSE_FORWARD_OPERANDS> operands_;
};

// ---------------------------------------------------------------------------------------------------------------------

inline Instance::Instance(const Problem &problem, CUcontext context) : problem_(problem), context_(context) {
  const Placements places = problem.placements();
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (!places[i]) continue;
    operands_[i].emplace(*places[i], is_result(i) ? kResultPoison : kInputPoison, problem.guard, context);
  }
  if (context == nullptr || context == Gpu::get().primary()) fill();
  Gpu::get().synchronize(context_);
}

inline void Instance::fill() const {
  if (problem_.values == Values::untouched) return;
  const bool is_f16 = problem_.dtype == DType::f16;
  const std::uint64_t seed = problem_.seed * 1'000'003;
  fill_values(operand(MSJ_DENSE_FORWARD_Q), problem_.values, is_f16 ? 4 : 20, seed + 11);
  fill_values(operand(MSJ_DENSE_FORWARD_D), problem_.values, is_f16 ? 4 : 70, seed + 22);
  if (problem_.has(kQMask)) fill_mask(operand(MSJ_DENSE_FORWARD_Q_MASK), seed + 33);
  if (problem_.has(kDMask)) fill_mask(operand(MSJ_DENSE_FORWARD_D_MASK), seed + 44);
  if (problem_.d_lengths) fill_lengths(operand(MSJ_DENSE_FORWARD_D_LENGTHS), problem_.Ld, seed + 55);
}

inline maxsim_jit::Call Instance::call(void *stream) const {
  Tensors tensors;
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    if (operands_[i]) tensors[i] = operands_[i]->tensor();
  }
  maxsim_jit::Launch launch;
  launch.stream = stream;
  return problem_.call(tensors).launch(launch);
}

inline void Instance::poison() const {
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    if (operands_[i] && is_result(i)) operands_[i]->poison();
  }
  Gpu::get().synchronize(context_);
}

inline Instance::Results Instance::results() const {
  Results results{scores(), {}};
  if (problem_.has(kArgmax)) results.argmax = operand(MSJ_DENSE_FORWARD_ARGMAX).elements<int>();
  return results;
}

inline Instance::Results Instance::reference(msj_context *context) const {
  std::array<std::vector<char>, MSJ_DENSE_FORWARD_OPERANDS> host;
  Tensors tensors;
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    if (!operands_[i]) continue;
    host[i] = operands_[i]->download();
    tensors[i] = operands_[i]->tensor_in(host[i]);
  }
  maxsim_jit::Launch launch;
  launch.device = MSJ_DEVICE_CPU;
  run(context, problem_.call(tensors).launch(launch));
  Results results{operand(MSJ_DENSE_FORWARD_SCORES).gather<float>(host[MSJ_DENSE_FORWARD_SCORES]), {}};
  if (problem_.has(kArgmax)) {
    results.argmax = operand(MSJ_DENSE_FORWARD_ARGMAX).gather<int>(host[MSJ_DENSE_FORWARD_ARGMAX]);
  }
  return results;
}

inline Verdict Instance::judge(bool exact) const {
  Oracle oracle(problem_, exact);
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    if (operands_[i]) oracle.set(i, operands_[i]->view());
  }
  oracle.compute();
  oracle.check();
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    if (operands_[i] && is_result(i)) oracle.check_around(*operands_[i]);
  }
  return oracle.verdict();
}

}  // namespace msj::gpu
