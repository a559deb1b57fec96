// A problem's tensors in device memory, filled there: some are larger than a host would fill in the time.
#pragma once

#include <array>
#include <optional>

#include "gpu/gpu.h"
#include "gpu/op_problem.h"

namespace msj::bench {

class BenchTensors {
 public:
  // Filled and ready when this returns.
  BenchTensors(const gpu::OpProblem &problem, gpu::Kernels &kernels, CUstream stream);

  [[nodiscard]] maxsim_jit::Call call() const { return problem_.call(tensors()); }

 private:
  [[nodiscard]] gpu::OpTensors tensors() const;
  void fill(std::size_t operand, gpu::Kernels &kernels, CUstream stream) const;
  // What is no number: whether it was filled.
  [[nodiscard]] bool fill_index(std::size_t operand, gpu::Kernels &kernels, CUstream stream) const;
  [[nodiscard]] std::uint64_t seed_of(std::size_t operand) const {
    return problem_.seed * 1'000'003 + operand * (std::uint64_t{1} << 48);
  }

  static constexpr int kThreads = 256;
  static constexpr std::int64_t kGrid = 1024;

  gpu::OpProblem problem_;
  std::array<std::optional<gpu::Operand>, kMaxOperands> operands_;
};

// ---------------------------------------------------------------------------------------------------------------------

inline BenchTensors::BenchTensors(const gpu::OpProblem &problem, gpu::Kernels &kernels, CUstream stream)
    : problem_(problem) {
  const gpu::OpPlacements places = problem.placements();
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (!places[i]) continue;
    operands_[i].emplace(*places[i], gpu::kResultPoison, 0);
    if (!problem.op->operands[i].is_result) fill(i, kernels, stream);
  }
  gpu::Gpu::get().synchronize();
}

inline gpu::OpTensors BenchTensors::tensors() const {
  gpu::OpTensors tensors;
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    if (operands_[i]) tensors[i] = operands_[i]->tensor();
  }
  return tensors;
}

inline bool BenchTensors::fill_index(std::size_t operand, gpu::Kernels &kernels, CUstream stream) const {
  const OperandSpec &spec = problem_.op->operands[operand];
  void *data = operands_[operand]->memory().get();
  const long long count = operands_[operand]->placement().elements();
  const unsigned long long seed = seed_of(operand);
  if (spec.content == Content::codes) {
    const long long most = problem_.sizes[static_cast<std::size_t>(spec.content_size)];
    kernels.launch(stream, "fill_codes", kGrid, kThreads, data, count, most, seed);
  } else if (spec.content == Content::starts) {
    const long long length = problem_.size("Ld");
    const long long places = problem_.sizes[static_cast<std::size_t>(spec.content_size)] / length;
    kernels.launch(stream, "fill_starts", kGrid, kThreads, data, count, places, length);
  } else if (spec.dtype.kind == DtypeRule::Kind::fixed && spec.dtype.canonical == DType::i32) {
    const long long length = problem_.size("Ld");
    kernels.launch(stream, "fill_lengths", kGrid, kThreads, data, count, length);
  } else if (spec.dtype.kind == DtypeRule::Kind::fixed && spec.dtype.canonical == DType::u8) {
    kernels.launch(stream, "fill_bytes", kGrid, kThreads, data, count, seed);
  } else {
    return false;
  }
  return true;
}

inline void BenchTensors::fill(std::size_t operand, gpu::Kernels &kernels, CUstream stream) const {
  if (fill_index(operand, kernels, stream)) return;
  const gpu::Placement &at = operands_[operand]->placement();
  void *data = operands_[operand]->memory().get();
  const long long count = at.elements();
  const unsigned long long seed = seed_of(operand);
  const auto floats = [&](const char *kernel, int significand, int bias) {
    const int exponent = bias - 4;  // 2^-4 is the least magnitude
    kernels.launch(stream, kernel, kGrid, kThreads, data, count, significand, exponent, seed);
  };
  switch (at.dtype) {
    case DType::f32:
      return floats("fill_floats_4", 23, 127);
    case DType::bf16:
      return floats("fill_floats_2", 7, 127);
    case DType::f16:
      return floats("fill_floats_2", 10, 15);
    case DType::fp8_e4m3:
      return floats("fill_floats_1", 3, 7);
    case DType::fp8_e5m2:
      return floats("fill_floats_1", 2, 15);
    case DType::i8:
    case DType::u8:
    case DType::boolean:
      return kernels.launch(stream, "fill_mask_bytes", kGrid, kThreads, data, count, seed);
    default:
      throw std::runtime_error(fmt::format("no values for {}", problem_.op->operands[operand].name));
  }
}

}  // namespace msj::bench
