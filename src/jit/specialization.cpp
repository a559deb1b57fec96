#include "jit/specialization.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "jit/arguments.h"

namespace msj::jit {

namespace {

using Out = std::back_insert_iterator<std::string>;

std::string_view flag(bool value) { return value ? "true" : "false"; }

// The dtypes' numbers are the ABI's, so that a kernel and the host can't disagree on them.
void write_dtypes(Out out, const Specialization &s) {
  fmt::format_to(out, "enum class DType : int {{");
  for (const DTypeInfo &dtype : all_dtypes()) {
    fmt::format_to(out, " {} = {},", dtype.enumerator, static_cast<int>(dtype.dtype));
  }
  fmt::format_to(out, " }};\nnamespace dtype {{\n");
  for (std::size_t i = 0; i < s.op->operands.size(); ++i) {
    fmt::format_to(out, "constexpr DType {} = DType::{};\n", s.op->operands[i].name, info(s.dtypes[i]).enumerator);
  }
  fmt::format_to(out, "}}  // namespace dtype\n");
}

void write_constants(Out out, const Specialization &s) {
  fmt::format_to(out, "constexpr int target_arch = {};\n", s.architecture.compute_capability * 10);
  fmt::format_to(out, "constexpr bool aligned16 = {};\n", flag(s.layout == Layout::aligned16));
  fmt::format_to(out, "namespace feature {{\n");
  for (std::size_t i = 0; i < s.op->features.size(); ++i) {
    fmt::format_to(out, "constexpr bool {} = {};\n", s.op->features[i].name, flag((s.features >> i) & 1U));
  }
  fmt::format_to(out, "}}  // namespace feature\nnamespace static_size {{\n");
  for (std::size_t i = 0; i < s.op->sizes.size(); ++i) {
    if (s.op->sizes[i].is_static)
      fmt::format_to(out, "constexpr int {} = {};\n", s.op->sizes[i].name, s.static_sizes[i]);
  }
  fmt::format_to(out, "}}  // namespace static_size\nnamespace config {{\n");
  for (const auto &[name, value] : s.config.tunables) fmt::format_to(out, "constexpr int {} = {};\n", name, value);
  fmt::format_to(out, "}}  // namespace config\n");
}

// The layout that jit/arguments.cpp fills.
void write_args(Out out, const OpSpec &op, const PathSpec &path) {
  if (!path.tensor_maps.empty()) {
    fmt::format_to(out, "struct alignas({}) TensorMap {{ unsigned long long word[16]; }};\n", kTensorMapAlignment);
  }
  fmt::format_to(out,
                 "template <int rank> struct Operand {{ void *data; long long stride[rank]; }};\nstruct Args {{\n");
  for (const OperandSpec &operand : op.operands) fmt::format_to(out, "  Operand<{}> {};\n", operand.rank, operand.name);
  for (const SizeSpec &size : op.sizes) fmt::format_to(out, "  long long size_{};\n", size.name);
  for (const ParamSpec &param : op.params) {
    fmt::format_to(out, "  {} param_{};\n", param.is_double ? "double" : "long long", param.name);
  }
  for (const OperandSpec &operand : op.operands) {
    if (has_run_time_dtype(operand)) fmt::format_to(out, "  long long dtype_{};  // a DType\n", operand.name);
  }
  fmt::format_to(out, "  void *workspace;\n");
  if (op.in_rounds) fmt::format_to(out, "  long long round;\n");
  for (const TensorMapSpec &map : path.tensor_maps) {
    fmt::format_to(out, "  TensorMap map_{};\n", op.operands[static_cast<std::size_t>(map.operand)].name);
  }
  fmt::format_to(out, "}};\n");
}

}  // namespace

std::string Specialization::key() const {
  nlohmann::ordered_json json;
  json["op"] = op->name;
  json["path"] = config.path;
  json["architecture"] = architecture.name;
  json["layout"] = name(layout);
  json["features"] = feature_names(*op, features);
  for (std::size_t i = 0; i < op->operands.size(); ++i) json["dtypes"].push_back(msj::name(dtypes[i]));
  for (std::size_t i = 0; i < op->sizes.size(); ++i) {
    if (op->sizes[i].is_static) json["static_sizes"][std::string(op->sizes[i].name)] = static_sizes[i];
  }
  for (const auto &[tunable, value] : config.tunables) json["config"][tunable] = value;
  return json.dump();
}

std::string translation_unit(const Specialization &specialization, KernelSources &sources) {
  std::string text = "namespace msj {\n";
  const Out out(text);
  write_dtypes(out, specialization);
  write_constants(out, specialization);
  write_args(out, *specialization.op, path_of(*specialization.op, specialization.config));
  text += "}  // namespace msj\n";
  text += sources.expanded(fmt::format("{}.{}.cu", specialization.op->name, specialization.config.path));
  return text;
}

const std::vector<std::string> &compile_options() {
  // A spill is reported in the log, which the tests refuse, whatever the config. No kernel uses every constant of its
  // prologue: that (177) is no news.
  static const std::vector<std::string> options = {"--std=c++17", "--ptxas-options=--warn-on-spills",
                                                   "--diag-suppress=177"};
  return options;
}

}  // namespace msj::jit
