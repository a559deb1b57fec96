#include <nlohmann/json.hpp>

#include "api/documents.h"
#include "cuda/architecture.h"
#include "ops/registry.h"

namespace msj::api {

namespace {

using Json = nlohmann::ordered_json;

Json names(std::span<const DType> dtypes) {
  Json json = Json::array();
  for (const DType dtype : dtypes) json.push_back(name(dtype));
  return json;
}

Json dtype_rule(const OpSpec &op, const DtypeRule &rule) {
  switch (rule.kind) {
    case DtypeRule::Kind::own:
      return {{"kind", "own"}, {"accepted", names(rule.accepted)}};
    case DtypeRule::Kind::follows:
      return {{"kind", "follows"},
              {"follows", op.operands[static_cast<std::size_t>(rule.follows)].name},
              {"accepted", names(rule.accepted)}};
    case DtypeRule::Kind::fixed:
      return {{"kind", "fixed"}, {"canonical", name(rule.canonical)}, {"accepted", names(rule.accepted)}};
  }
  return {};
}

Json operands(const OpSpec &op) {
  Json json = Json::array();
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const OperandSpec &operand = op.operands[i];
    Json dims = Json::array();
    for (int r = 0; r < operand.rank; ++r) {
      dims.push_back(dim_name(op, operand.dims[static_cast<std::size_t>(r)]));
    }
    json.push_back({{"name", operand.name},
                    {"index", i},
                    {"rank", operand.rank},
                    {"dims", dims},
                    {"optional", operand.optional},
                    {"result", operand.is_result},
                    {"streamed", operand.streamed},
                    {"may_be_single", operand.may_be_single},
                    {"dtype", dtype_rule(op, operand.dtype)},
                    {"doc", operand.doc}});
    if (operand.scaled_by >= 0) {
      json.back()["scaled_by"] = op.operands[static_cast<std::size_t>(operand.scaled_by)].name;
    }
  }
  return json;
}

Json features(const OpSpec &op) {
  Json json = Json::array();
  for (const FeatureSpec &feature : op.features) {
    Json row = {{"name", feature.name}};
    if (feature.source == FeatureSpec::Source::flag) {
      row["source"] = "flag";
      row["flag"] = feature.flag;
      row["doc"] = feature.doc;
    } else {
      row["source"] = feature.source == FeatureSpec::Source::presence ? "presence" : "rank";
      row["operand"] = op.operands[static_cast<std::size_t>(feature.operand)].name;
    }
    json.push_back(row);
  }
  return json;
}

Json one_op(const OpSpec &op) {
  Json json = {{"name", op.name}, {"id", op.id}, {"doc", op.doc}, {"tuning_epoch", op.tuning_epoch}};
  for (const SizeSpec &size : op.sizes) {
    json["sizes"].push_back({{"name", size.name},
                             {"static", size.is_static},
                             {"min", size.is_static ? 1 : 0},
                             {"max", size.max},
                             {"default", size.default_value}});
    if (!size.accepted.empty()) json["sizes"].back()["accepted"] = size.accepted;
  }
  for (const ExtentSpec &extent : op.extents) {
    const std::string_view size = op.sizes[static_cast<std::size_t>(extent.size)].name;
    if (extent.rule == ExtentSpec::Rule::power_of_two) {
      json["extents"].push_back({{"name", extent.name}, {"power_of_two", size}});
    } else {
      const std::string_view bits = op.sizes[static_cast<std::size_t>(extent.bits)].name;
      json["extents"].push_back({{"name", extent.name}, {"packed_bits", {size, bits}}});
    }
  }
  json["operands"] = operands(op);
  json["features"] = features(op);
  json["representative_features"] = feature_names(op, op.representative_features);  // of sweeps
  json["params"] = Json::array();
  for (const ParamSpec &param : op.params) {
    Json values = Json::object();
    for (const NamedValue &value : param.values) values[std::string(value.name)] = value.value;
    json["params"].push_back({{"name", param.name},
                              {"id", param.id},
                              {"kind", param.is_double ? "double" : "int"},
                              {"default", param.default_int},
                              {"min", param.min_int},
                              {"max", param.max_int},
                              {"values", std::move(values)},
                              {"doc", param.doc}});
    if (param.size >= 0) json["params"].back()["size"] = op.sizes[static_cast<std::size_t>(param.size)].name;
  }
  for (const OperandSpec &operand : op.operands) {
    if (operand.dtype.kind == DtypeRule::Kind::own && !json.contains("dtypes")) {
      json["dtypes"] = names(operand.dtype.accepted);
    }
  }
  for (const PathSpec &path : op.paths) {
    Json tunables = Json::array();
    for (const std::string_view tunable : path.tunables) tunables.push_back(tunable);
    json["paths"].push_back({{"name", path.name},
                             {"min_compute_capability", path.min_compute_capability},
                             {"max_compute_capability", path.max_compute_capability},
                             {"tunables", tunables}});
  }
  return json;
}

}  // namespace

std::string to_text(const nlohmann::ordered_json &json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

std::string describe() {
  Json json = {{"schema", "maxsim-jit/ops/1"}, {"version", msj_version()}};
  json["architectures"] = cuda::architecture_names();
  for (const ops::Op &op : ops::all_ops()) json["ops"].push_back(one_op(*op.spec));
  return to_text(json);
}

}  // namespace msj::api
