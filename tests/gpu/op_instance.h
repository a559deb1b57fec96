// A problem of any op on the device: operands made on the host from its seed, uploaded between guard zones, results
// poisoned; run through the C ABI, and by the CPU reference on the same bytes.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "gpu/op_problem.h"
#include "gpu/op_values.h"

namespace msj::gpu {

// By operand; empty for inputs and what is absent.
using OpResults = std::array<Bits, kMaxOperands>;
// A copy of an operand's memory, guards and all.
using Image = std::vector<char>;
using Images = std::array<Image, kMaxOperands>;

class OpInstance {
 public:
  explicit OpInstance(const OpProblem &problem);

  [[nodiscard]] const OpProblem &problem() const { return problem_; }
  [[nodiscard]] const Operand &operand(std::size_t index) const { return *operands_.at(index); }
  [[nodiscard]] bool is_present(std::size_t index) const { return operands_.at(index).has_value(); }
  // The elements of an input, C order; empty if it is absent.
  [[nodiscard]] const Bits &elements(std::size_t index) const { return elements_.at(index); }
  // Puts other elements into an input.
  void set(std::size_t index, const Bits &elements);

  // Poisons the results, runs on the device with a workspace of exactly the promised size, and waits.
  [[nodiscard]] OpResults run(msj_context *context);
  // "" or what a run wrote where it must not: beside a result, into an input, past the workspace.
  [[nodiscard]] std::string damage() const;
  // What the CPU reference makes of the same bytes, through MSJ_DEVICE_CPU.
  [[nodiscard]] OpResults reference(msj_context *context) const;
  // The same of the magnitudes of matrices and scales, an empty document scoring 0: B of the accuracy bounds.
  [[nodiscard]] OpResults magnitudes(msj_context *context) const;
  // An operand in host memory, for other calls on the CPU: valid while this lives and `set` is not called.
  [[nodiscard]] maxsim_jit::Tensor host_tensor(std::size_t index);

 private:
  [[nodiscard]] bool is_result(std::size_t operand) const { return problem_.op->operands[operand].is_result; }
  [[nodiscard]] OpResults run_on_host(msj_context *context, const OpProblem &problem, Images images) const;
  void write_elements(Image &image, std::size_t operand, const Bits &bits) const;
  [[nodiscard]] Bits read_elements(const Image &image, std::size_t operand) const;

  static constexpr std::size_t kWorkspaceGuard = 4096;

  OpProblem problem_;
  std::array<std::optional<Operand>, kMaxOperands> operands_;
  std::array<Bits, kMaxOperands> elements_;
  Images images_;  // as uploaded
  std::optional<DeviceBytes> workspace_;
  std::size_t workspace_size_ = 0;
};

// Offsets of a placement's elements in C order, from its base.
template <typename Body>
inline void for_each_element(const Placement &at, const Body &body) {
  for (std::int64_t a = 0; a < at.shape[0]; ++a) {
    for (std::int64_t b = 0; b < at.shape[1]; ++b) {
      std::int64_t offset = at.offset + a * at.strides[0] + b * at.strides[1];
      for (std::int64_t c = 0; c < at.shape[2]; ++c, offset += at.strides[2]) body(static_cast<std::size_t>(offset));
    }
  }
}

inline void must(msj_status status) {
  if (status != MSJ_OK) throw std::runtime_error(msj_last_error());
}

// ---------------------------------------------------------------------------------------------------------------------

inline OpInstance::OpInstance(const OpProblem &problem) : problem_(problem) {
  const OpPlacements places = problem.placements();
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (!places[i]) continue;
    const unsigned char poison = is_result(i) ? kResultPoison : kInputPoison;
    operands_[i].emplace(*places[i], poison, problem.guard);
    images_[i].assign(operands_[i]->memory().bytes(), static_cast<char>(poison));
    if (!is_result(i)) set(i, make_elements(problem, i, *places[i]));
  }
}

inline void OpInstance::set(std::size_t index, const Bits &elements) {
  if (elements.size() != static_cast<std::size_t>(operand(index).placement().elements())) {
    throw std::runtime_error(fmt::format("{} elements for {}", elements.size(), problem_.op->operands[index].name));
  }
  elements_[index] = elements;
  write_elements(images_[index], index, elements);
  operand(index).memory().upload(images_[index].data());
}

inline void OpInstance::write_elements(Image &image, std::size_t operand, const Bits &bits) const {
  const auto size = static_cast<std::size_t>(bytes(operands_[operand]->placement().dtype));
  std::size_t next = 0;
  for_each_element(operands_[operand]->placement(), [&](std::size_t at) {
    // Little-endian; an int64 is what its lower half is as an int32.
    const auto element = static_cast<std::int64_t>(static_cast<std::int32_t>(bits[next++]));
    std::memcpy(image.data() + problem_.guard + at * size, &element, size);
  });
}

inline Bits OpInstance::read_elements(const Image &image, std::size_t operand) const {
  const auto size = static_cast<std::size_t>(bytes(operands_[operand]->placement().dtype));
  Bits bits;
  bits.reserve(static_cast<std::size_t>(operands_[operand]->placement().elements()));
  for_each_element(operands_[operand]->placement(), [&](std::size_t at) {
    std::uint32_t element = 0;
    std::memcpy(&element, image.data() + problem_.guard + at * size, std::min(size, sizeof element));
    bits.push_back(element);
  });
  return bits;
}

inline OpResults OpInstance::run(msj_context *context) {
  OpTensors tensors;
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    if (!operands_[i]) continue;
    tensors[i] = operands_[i]->tensor();
    if (is_result(i)) operands_[i]->poison();
  }
  maxsim_jit::Call call = problem_.call(tensors);
  must(msj_workspace_size(context, call.get(), &workspace_size_));
  const std::size_t guard = problem_.guard == 0 ? 0 : kWorkspaceGuard;
  if (!workspace_ || workspace_->bytes() != workspace_size_ + guard) workspace_.emplace(workspace_size_ + guard);
  workspace_->fill(kInputPoison);
  maxsim_jit::Launch launch;
  launch.workspace = workspace_size_ > 0 ? workspace_->get() : nullptr;
  launch.workspace_size = workspace_size_;
  Gpu::get().synchronize();
  must(msj_run(context, call.launch(launch).get()));
  Gpu::get().synchronize();
  OpResults results;
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    if (operands_[i] && is_result(i)) results[i] = read_elements(operands_[i]->download(), i);
  }
  return results;
}

inline std::string OpInstance::damage() const {
  const auto first_difference = [](const Image &a, const Image &b) {
    return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin());
  };
  std::string found;
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    if (!operands_[i]) continue;
    const Image now = operands_[i]->download();
    Image expected = images_[i];
    if (is_result(i)) write_elements(expected, i, read_elements(now, i));
    if (now == expected) continue;
    found += fmt::format("{} of {} bytes was written at byte {} ", problem_.op->operands[i].name, now.size(),
                         first_difference(now, expected));
  }
  if (!workspace_ || workspace_->bytes() == workspace_size_) return found;
  Image workspace(workspace_->bytes());
  workspace_->download(workspace.data());
  const Image untouched(workspace.size() - workspace_size_, static_cast<char>(kInputPoison));
  if (std::memcmp(workspace.data() + workspace_size_, untouched.data(), untouched.size()) != 0) {
    found += fmt::format("the workspace of {} bytes was written past its end", workspace_size_);
  }
  return found;
}

inline OpResults OpInstance::run_on_host(msj_context *context, const OpProblem &problem, Images images) const {
  OpTensors tensors;
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    if (operands_[i] && problem.is_present(i)) tensors[i] = operands_[i]->tensor_in(images[i]);
  }
  maxsim_jit::Launch launch;
  launch.device = MSJ_DEVICE_CPU;
  must(msj_run(context, problem.call(tensors).launch(launch).get()));
  OpResults results;
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    if (tensors[i].present() && is_result(i)) results[i] = read_elements(images[i], i);
  }
  return results;
}

inline OpResults OpInstance::reference(msj_context *context) const { return run_on_host(context, problem_, images_); }

inline OpResults OpInstance::magnitudes(msj_context *context) const {
  OpProblem problem = problem_;
  problem.neg_inf = false;
  Images images = images_;
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    if (!operands_[i] || is_result(i)) continue;
    const DtypeRule &rule = problem_.op->operands[i].dtype;
    if (rule.kind == DtypeRule::Kind::fixed && rule.canonical != DType::f32) continue;  // masks and lengths
    const std::uint32_t sign = format_of(operand(i).placement().dtype).sign();
    Bits bits = elements_[i];
    for (std::uint32_t &element : bits) element &= ~sign;
    write_elements(images[i], i, bits);
  }
  return run_on_host(context, problem, std::move(images));
}

inline maxsim_jit::Tensor OpInstance::host_tensor(std::size_t index) {
  return operand(index).tensor_in(images_.at(index));
}

}  // namespace msj::gpu
