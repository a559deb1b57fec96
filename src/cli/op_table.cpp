#include "cli/op_table.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/failure.h"
#include "cli/words.h"

namespace msj::cli {
namespace {

using json = nlohmann::ordered_json;  // in the table's order

DType parse_dtype(const json &value) {
  const auto text = value.get<std::string>();
  const auto dtype = dtype_from(text);
  if (!dtype) failure("the library describes an op with the dtype '{}', which this command does not know", text);
  return *dtype;
}

SizeInfo parse_size(const json &value) {
  return {value.at("name"), value.at("static"), value.value("max", std::int64_t{0}),
          value.value("default", std::int64_t{0}), value.value("accepted", std::vector<std::int64_t>{})};
}

ExtentInfo parse_extent(const json &value) {
  ExtentInfo extent;
  extent.name = value.at("name");
  if (value.contains("power_of_two")) {
    extent.size = value.at("power_of_two");
  } else {
    extent.size = value.at("packed_bits").at(0);
    extent.bits = value.at("packed_bits").at(1);
  }
  return extent;
}

void parse_dtype_rule(const json &rule, OperandInfo &operand) {
  const auto kind = rule.at("kind").get<std::string>();
  if (kind == "follows") {
    operand.kind = OperandInfo::DTypeKind::follows;
    operand.follows = rule.at("follows");
    for (const json &dtype : rule.value("accepted", json::array())) operand.others.push_back(parse_dtype(dtype));
    return;
  }
  operand.kind = kind == "own" ? OperandInfo::DTypeKind::own : OperandInfo::DTypeKind::fixed;
  for (const json &dtype : rule.at("accepted")) operand.accepted.push_back(parse_dtype(dtype));
  if (operand.kind == OperandInfo::DTypeKind::fixed) operand.canonical = parse_dtype(rule.at("canonical"));
}

OperandInfo parse_operand(const json &value) {
  OperandInfo operand;
  operand.name = value.at("name");
  operand.index = value.at("index");
  operand.dims = value.at("dims").get<std::vector<std::string>>();
  operand.optional = value.value("optional", false);
  operand.is_result = value.value("result", false);
  operand.scaled_by = value.value("scaled_by", "");
  operand.may_be_single = value.value("may_be_single", false);
  operand.doc = value.value("doc", "");
  parse_dtype_rule(value.at("dtype"), operand);
  return operand;
}

FeatureInfo parse_feature(const json &value) {
  FeatureInfo feature;
  feature.name = value.at("name");
  const auto source = value.at("source").get<std::string>();
  if (source == "flag") {
    feature.flag = value.at("flag");
  } else {
    feature.source = source == "rank" ? FeatureInfo::Source::rank : FeatureInfo::Source::presence;
    feature.operand = value.at("operand");
  }
  feature.doc = value.value("doc", "");
  return feature;
}

ParamInfo parse_param(const json &value) {
  ParamInfo param;
  param.name = value.at("name");
  param.id = value.at("id");
  param.is_double = value.at("kind") == "double";
  if (!param.is_double) {
    param.default_int = value.value("default", std::int64_t{0});
    param.min = value.at("min");
    param.max = value.at("max");
  }
  const json values = value.value("values", json::object());
  for (const auto &[name, number] : values.items()) param.values.push_back({name, number});
  param.size = value.value("size", "");
  param.doc = value.value("doc", "");
  return param;
}

OpInfo parse_op(const json &value) {
  OpInfo op;
  op.name = value.at("name");
  op.id = value.at("id");
  op.doc = value.value("doc", "");
  for (const json &size : value.at("sizes")) op.sizes.push_back(parse_size(size));
  for (const json &operand : value.at("operands")) op.operands.push_back(parse_operand(operand));
  for (const json &feature : value.at("features")) op.features.push_back(parse_feature(feature));
  for (const json &name : value.value("representative_features", json::array())) {
    const auto found = std::ranges::find(op.features, name.get<std::string>(), &FeatureInfo::name);
    if (found == op.features.end()) failure("the library describes sweeps of {} with an unknown feature", op.name);
    op.representative_features |= FeatureSet{1} << (found - op.features.begin());
  }
  for (const json &extent : value.value("extents", json::array())) op.extents.push_back(parse_extent(extent));
  for (const json &param : value.at("params")) op.params.push_back(parse_param(param));
  // An operand that follows another accepts what that one does.
  for (OperandInfo &operand : op.operands) {
    if (operand.kind != OperandInfo::DTypeKind::follows) continue;
    const OperandInfo *leader = op.find_operand(operand.follows);
    if (leader == nullptr) failure("the library describes {}.{} with an unknown leader", op.name, operand.name);
    operand.accepted = leader->accepted;
    for (const DType other : operand.others) {
      if (std::ranges::find(operand.accepted, other) == operand.accepted.end()) operand.accepted.push_back(other);
    }
  }
  return op;
}

}  // namespace

const OperandInfo *OpInfo::find_operand(std::string_view operand) const {
  const auto found = std::ranges::find(operands, operand, &OperandInfo::name);
  return found == operands.end() ? nullptr : &*found;
}

const ExtentInfo *OpInfo::find_extent(std::string_view dim) const {
  const auto found = std::ranges::find(extents, dim, &ExtentInfo::name);
  return found == extents.end() ? nullptr : &*found;
}

std::vector<std::string> OpInfo::feature_names(FeatureSet set) const {
  std::vector<std::string> result;
  for (std::size_t f = 0; f < features.size(); ++f) {
    if ((set >> f & 1) != 0) result.push_back(features[f].name);
  }
  return result;
}

std::vector<DType> OpInfo::matrix_dtypes() const {
  std::vector<DType> result;
  for (const OperandInfo &operand : operands) {
    if (operand.kind != OperandInfo::DTypeKind::own) continue;
    for (const DType dtype : operand.accepted) {
      if (std::ranges::find(result, dtype) == result.end()) result.push_back(dtype);
    }
  }
  return result;
}

std::vector<OpInfo> parse_ops(std::string_view text) try {
  const json document = json::parse(text);
  if (document.at("schema") != "maxsim-jit/ops/1") {
    failure("the library describes its ops as {}; this command reads \"maxsim-jit/ops/1\"",
            document.at("schema").dump());
  }
  std::vector<OpInfo> ops;
  for (const json &op : document.at("ops")) ops.push_back(parse_op(op));
  if (ops.empty()) failure("the library describes no op");
  return ops;
} catch (const json::exception &error) {
  failure("the library's description of its ops cannot be read: {}", error.what());
}

const OpInfo &find_op(std::span<const OpInfo> ops, std::string_view name, std::string_view from) {
  const auto found = std::ranges::find(ops, name, &OpInfo::name);
  if (found != ops.end()) return *found;
  std::vector<std::string_view> known;
  for (const OpInfo &op : ops) known.push_back(op.name);
  usage_error("{} is '{}'; accepted: {}", from, shortened(name), fmt::join(known, ", "));
}

std::string option_name(std::string_view name) {
  std::string result = fmt::format("--{}", name);
  std::ranges::replace(result, '_', '-');
  return result;
}

std::string matrix_dtype_names(std::span<const OpInfo> ops) {
  std::vector<std::pair<std::string, std::vector<std::string_view>>> rows;  // dtypes, and the ops that have them
  for (const OpInfo &op : ops) {
    const std::string dtypes = names(op.matrix_dtypes());
    auto row = std::ranges::find(rows, dtypes, [](const auto &known) { return known.first; });
    if (row == rows.end()) row = rows.emplace(rows.end(), dtypes, std::vector<std::string_view>{});
    row->second.push_back(op.name);
  }
  if (rows.size() == 1) return rows.front().first;
  std::vector<std::string> parts;
  for (const auto &[dtypes, having] : rows) parts.push_back(fmt::format("{} ({})", dtypes, fmt::join(having, ", ")));
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string names(std::span<const DType> dtypes) {
  std::vector<std::string_view> result;
  for (const DType dtype : dtypes) result.push_back(name(dtype));
  return fmt::format("{}", fmt::join(result, ", "));
}

}  // namespace msj::cli
