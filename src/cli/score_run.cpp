#include "cli/score_run.h"

#include <fmt/format.h>

#include "cli/failure.h"

namespace msj::cli {
namespace {

using maxsim_jit::Call;
using maxsim_jit::DeviceMemory;
using maxsim_jit::Tensor;

Call call_without_tensors(const ScoreJob &job) {
  Call call(job.op->id);
  call.flag(job.flags);
  for (const msj_param &param : job.params) call.param(param);
  return call;
}

Tensor view_of(const HostTensor &tensor, const void *data) {
  return Tensor(data, tensor.dtype, tensor.shape.data(), tensor.shape.size())
      .with_strides(tensor.strides.data(), tensor.strides.size());
}

Tensor view_of(const HostResult &result, void *data) {
  return {data, result.operand->canonical, result.shape.data(), result.shape.size()};
}

void run_on_cpu(const maxsim_jit::Context &context, ScoreJob &job) {
  Call call = call_without_tensors(job);
  for (const HostTensor &tensor : job.inputs) call.operand(tensor.operand->index, view_of(tensor, tensor.data));
  for (HostResult &result : job.results) call.operand(result.operand->index, view_of(result, result.data.data()));
  maxsim_jit::Launch launch;
  launch.device = MSJ_DEVICE_CPU;
  maxsim_jit::run(context, call.launch(launch));
}

void run_on_cuda(const maxsim_jit::Context &context, ScoreJob &job, std::int32_t device) {
  Call call = call_without_tensors(job);
  std::vector<DeviceMemory> inputs;
  for (const HostTensor &tensor : job.inputs) {
    const DeviceMemory &memory = inputs.emplace_back(context, device, tensor.bytes());
    memory.upload(tensor.data);
    call.operand(tensor.operand->index, view_of(tensor, memory.get()));
  }
  std::vector<DeviceMemory> results;
  for (const HostResult &result : job.results) {
    const DeviceMemory &memory = results.emplace_back(context, device, result.data.size());
    call.operand(result.operand->index, view_of(result, memory.get()));
  }
  maxsim_jit::Launch launch;
  launch.device = device;
  launch.workspace_size = maxsim_jit::workspace_size(context, call.launch(launch));
  const DeviceMemory workspace(context, device, launch.workspace_size);
  launch.workspace = workspace.get();
  maxsim_jit::run(context, call.launch(launch));
  for (std::size_t i = 0; i < results.size(); ++i) results[i].download(job.results[i].data.data());
}

}  // namespace

HostResult make_result(const OperandInfo &operand, const SizeMap &sizes) {
  HostResult result;
  result.operand = &operand;
  std::int64_t total = bytes(operand.canonical);
  bool overflows = false;
  for (const std::string &dim : operand.dims) {
    result.shape.push_back(sizes.find(dim)->second);
    overflows |= __builtin_mul_overflow(total, result.shape.back(), &total);
  }
  const auto size = static_cast<std::size_t>(total);
  if (overflows || size > result.data.max_size()) failure("{} would have more than 2^63 bytes", operand.name);
  result.data.resize(size);
  return result;
}

std::int32_t choose_device(const maxsim_jit::Context &context, std::optional<std::int32_t> asked_for,
                           Console &console) {
  if (asked_for) return *asked_for;
  try {
    const DeviceMemory probe(context, 0, 1);
    return 0;
  } catch (const maxsim_jit::Error &error) {
    if (error.status() != MSJ_ERROR_NO_DRIVER) throw;
    console.note(fmt::format("scoring on the CPU, as --device cpu does: {}", error.what()));
    return MSJ_DEVICE_CPU;
  }
}

void run_score_job(const maxsim_jit::Context &context, ScoreJob &job, std::int32_t device) {
  if (device == MSJ_DEVICE_CPU) {
    run_on_cpu(context, job);
  } else {
    run_on_cuda(context, job, device);
  }
}

}  // namespace msj::cli
