#include "cli/bench_case.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/failure.h"
#include "cli/words.h"

namespace msj::cli {
namespace {

using Json = nlohmann::ordered_json;
using Names = std::vector<std::string_view>;

// Of an option's list; none is all. Throws UsageError for a name that is not `known`.
Names chosen_names(const char *option, std::string_view text, const Names &known) {
  if (text.empty()) return known;
  Names names = split(text);
  for (const std::string_view name : names) {
    if (std::ranges::find(known, name) != known.end()) continue;
    usage_error("{} names '{}'; accepted: {}", option, shortened(name), fmt::join(known, ", "));
  }
  return names;
}

bool has(const Names &names, std::string_view name) { return std::ranges::find(names, name) != names.end(); }

// In the file's order, each once.
Names strings_of(const Json &list) {
  Names names;
  for (const Json &item : list) names.push_back(item.get_ref<const std::string &>());
  return names;
}

Names ops_of(const Json &document) {
  Names names;
  for (const Json &row : document.at("cases")) {
    const auto &op = row.at("op").get_ref<const std::string &>();
    if (!has(names, op)) names.push_back(op);
  }
  return names;
}

Names shapes_of(const Json &document) {
  Names names;
  for (const Json &group : document.at("groups")) {
    for (const auto &item : group.items()) names.push_back(item.key());
  }
  return names;
}

FeatureSet features_of(const OpInfo &op, const Json &row, const std::string &asked) {
  const Json &own = row.at("features");
  if (asked == "all" || (asked.empty() && own == "all")) return op.all_features();
  if (!asked.empty()) return parse_features(op, asked).front();
  return own.empty() ? 0 : parse_features(op, fmt::format("{}", fmt::join(strings_of(own), ","))).front();
}

}  // namespace

std::string BenchCase::features_text() const { return fmt::format("{}", fmt::join(op->feature_names(features), " ")); }

std::string BenchCase::key() const { return fmt::format("{} {} {}", op->name, shape, name(dtype)); }

std::vector<BenchCase> bench_cases(std::span<const OpInfo> ops, const BenchChoice &choice) {
  const Json document = Json::parse(embedded_bench_shapes().at("bench_shapes.json"));
  const Names known = shapes_of(document);
  const Names names = chosen_names("--ops", choice.ops, ops_of(document));
  const Names shapes = chosen_names("--shapes", choice.shapes, choice.quick ? strings_of(document.at("quick")) : known);
  std::vector<BenchCase> cases;
  Names of_ops;  // the shapes that these ops have
  for (const Json &row : document.at("cases")) {
    const auto &op_name = row.at("op").get_ref<const std::string &>();
    if (!has(names, op_name)) continue;
    const OpInfo &op = find_op(ops, op_name);
    const FeatureSet features = features_of(op, row, choice.features);
    const Names only = row.contains("only") ? strings_of(row.at("only")) : known;
    for (const auto &[shape, sizes] : document.at("groups").at(row.at("group").get<std::string>()).items()) {
      if (!has(only, shape)) continue;
      if (!has(of_ops, shape)) of_ops.push_back(*std::ranges::find(known, shape));
      if (!has(shapes, shape)) continue;
      BenchCase next{shape, &op, sizes.get<SizeMap>(), dtype_from(row.at("dtype").get<std::string>()).value(),
                     features};
      const bool is_known = std::ranges::any_of(
          cases, [&](const BenchCase &other) { return other.key() == next.key() && other.features == features; });
      if (!is_known) cases.push_back(std::move(next));
    }
  }
  if (cases.empty()) {
    usage_error("--shapes is '{}', but --ops is '{}'; accepted with it: {}", choice.shapes, choice.ops,
                fmt::join(of_ops, ", "));
  }
  return cases;
}

}  // namespace msj::cli
