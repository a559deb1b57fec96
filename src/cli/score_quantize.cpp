#include "cli/score_quantize.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/convert.h"
#include "cli/failure.h"

namespace msj::cli {
namespace {

using maxsim_jit::Tensor;

std::shared_ptr<std::vector<std::byte>> make_bytes(const std::vector<std::int64_t> &shape, DType dtype) {
  auto count = static_cast<std::size_t>(bytes(dtype));
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  return std::make_shared<std::vector<std::byte>>(count);
}

// The same memory as one more batch dimension of size 1, as the op wants it.
Tensor view_of_rank_3(const HostTensor &tensor, const void *data) {
  std::vector<std::int64_t> shape = tensor.shape;
  std::vector<std::int64_t> strides = tensor.strides;
  if (shape.size() == 2) {
    shape.insert(shape.begin(), 1);
    strides.insert(strides.begin(), std::max<std::int64_t>(tensor.elements(), 1));
  }
  return Tensor(data, tensor.dtype, shape.data(), shape.size()).with_strides(strides.data(), strides.size());
}

}  // namespace

std::optional<Quantized> load_quantized(const maxsim_jit::Context &context, std::span<const OpInfo> ops,
                                        const OpInfo &op, const OperandInfo &operand, const std::string &file,
                                        bool has_scales, std::optional<DType> to, Console &console) {
  if (operand.scaled_by.empty()) return std::nullopt;
  const auto type = read_npy(file).type;
  const auto dtype = dtype_of(type);
  if (!is_float(type) || dtype == DType::fp8_e4m3 || dtype == DType::fp8_e5m2) return std::nullopt;
  if (has_scales) {
    usage_error("{} is given, but {} {} holds wider floats, whose scales are computed; it is accepted with fp8",
                option_name(operand.scaled_by), option_name(operand.name), file);
  }

  const OperandInfo &x = *find_op(ops, "fp8_quantize").find_operand("x");
  const HostTensor floats = load_operand(x, file, std::nullopt, console);
  if (floats.shape.size() != 2 && floats.shape.size() != 3) {
    failure("{} {} has {} dimensions; 3, or 2 for a batch of one, are accepted", option_name(operand.name), file,
            floats.shape.size());
  }
  const auto width = std::ranges::find(op.sizes, operand.dims.back(), &SizeInfo::name);
  if (width != op.sizes.end() && (floats.shape.back() < 1 || floats.shape.back() > width->max)) {
    failure("{} {} makes {} {}; 1 to {} is accepted", option_name(operand.name), file, width->name, floats.shape.back(),
            width->max);
  }
  const DType fp8 = to.value_or(DType::fp8_e4m3);
  std::vector<std::int64_t> tokens(floats.shape.begin(), floats.shape.end() - 1);
  const OperandInfo &scales = *op.find_operand(operand.scaled_by);
  const auto value_bytes = make_bytes(floats.shape, fp8);
  const auto scale_bytes = make_bytes(tokens, DType::f32);
  Quantized result{make_tensor(operand, floats.source, fp8, floats.shape, value_bytes),
                   make_tensor(scales, floats.source, DType::f32, tokens, scale_bytes)};

  maxsim_jit::Fp8Quantize call;
  call.x = view_of_rank_3(floats, floats.data);
  call.quantized = view_of_rank_3(result.values, value_bytes->data());
  if (tokens.size() == 1) tokens.insert(tokens.begin(), 1);
  call.scales = Tensor(scale_bytes->data(), DType::f32, tokens.data(), tokens.size());
  call.launch.device = MSJ_DEVICE_CPU;
  maxsim_jit::fp8_quantize(context, call);
  console.note(
      fmt::format("{} {}: quantized to {}, with a scale for each token", option_name(operand.name), file, name(fp8)));
  return result;
}

}  // namespace msj::cli
