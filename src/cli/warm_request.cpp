#include "cli/warm_request.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/failure.h"
#include "cli/json_text.h"
#include "cli/words.h"

namespace msj::cli {
namespace {

using nlohmann::json;

template <typename Infos>
std::string list_names(const Infos &infos) {
  std::vector<std::string_view> result;
  for (const auto &info : infos) result.push_back(info.name);
  return fmt::format("{}", fmt::join(result, ", "));
}

// "Nq, Nd, Lq, d; without others it takes Ld=256, K=65536".
std::string needed_sizes(const OpInfo &op) {
  std::vector<std::string> needed;
  std::vector<std::string> others;
  for (const SizeInfo &size : op.sizes) {
    if (size.default_value == 0)
      needed.push_back(size.name);
    else
      others.push_back(fmt::format("{}={}", size.name, size.default_value));
  }
  const std::string text = fmt::format("{}", fmt::join(needed, ", "));
  return others.empty() ? text : fmt::format("{}; without others it takes {}", text, fmt::join(others, ", "));
}

const SizeInfo &find_size(const OpInfo &op, std::string_view name, std::string_view from) {
  const auto found = std::ranges::find(op.sizes, name, &SizeInfo::name);
  if (found == op.sizes.end()) {
    usage_error("{} names '{}'; {} has {}", from, shortened(name), op.name, list_names(op.sizes));
  }
  return *found;
}

void add_size(const OpInfo &op, std::string_view name, std::optional<std::int64_t> value, std::string_view shown,
              std::string_view from, SizeMap &sizes) {
  const SizeInfo &size = find_size(op, name, from);
  if (!size.accepted.empty()) {
    if (!value || std::ranges::find(size.accepted, *value) == size.accepted.end()) {
      usage_error("{}: size {} of {} is '{}'; {} is accepted", from, name, op.name, shortened(shown),
                  fmt::join(size.accepted, ", "));
    }
  } else if (!value || *value < 1 || (size.max > 0 && *value > size.max)) {
    usage_error("{}: size {} of {} is '{}'; an integer from 1{} is accepted", from, name, op.name, shortened(shown),
                size.max > 0 ? fmt::format(" to {}", size.max) : "");
  }
  if (!sizes.emplace(name, *value).second) usage_error("{} names {} twice; once is accepted", from, name);
}

// Defaults filled in; all sizes there.
SizeMap complete(const OpInfo &op, SizeMap sizes, std::string_view from) {
  for (const SizeInfo &size : op.sizes) {
    if (sizes.contains(size.name)) continue;
    if (size.default_value == 0) {
      usage_error("{} does not name {}; {} needs {}", from, size.name, op.name, needed_sizes(op));
    }
    sizes.emplace(size.name, size.default_value);
  }
  return sizes;
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A name that comes twice was meant to be another.
void add_feature(const OpInfo &op, std::string_view name, std::string_view from, FeatureSet &set) {
  const auto found = std::ranges::find(op.features, name, &FeatureInfo::name);
  if (found == op.features.end()) {
    usage_error("{} names '{}'; {} has {} (or: all, none)", from, shortened(name), op.name, list_names(op.features));
  }
  const FeatureSet bit = FeatureSet{1} << static_cast<unsigned>(found - op.features.begin());
  if ((set & bit) != 0) usage_error("{} names {} twice; once is accepted", from, name);
  set |= bit;
}

void set_dtype(const OpInfo &op, const OperandInfo &operand, std::string_view text, std::string_view from,
               DTypeMap &dtypes) {
  const auto dtype = dtype_from(text);
  if (!dtype || std::ranges::find(operand.accepted, *dtype) == operand.accepted.end()) {
    usage_error("{}: {} of {} is '{}'; accepted: {}", from, operand.name, op.name, shortened(text),
                names(operand.accepted));
  }
  if (!dtypes.emplace(operand.name, *dtype).second) {
    usage_error("{} names {} twice; once is accepted", from, operand.name);
  }
}

// ---- manifest

constexpr std::string_view kOpField = "'op'";
constexpr std::string_view kSizesField = "'sizes'";
constexpr std::string_view kDTypeField = "'dtype'";
constexpr std::string_view kFeaturesField = "'features'";

SizeMap sizes_from(const OpInfo &op, const json &value) {
  if (value.is_string()) return parse_sizes(op, value.get<std::string>(), kSizesField);
  if (!value.is_object()) {
    usage_error("{} is {}; an object such as {{\"Nq\": 1}} is accepted", kSizesField, shown(value));
  }
  SizeMap sizes;
  for (const auto &[name, size] : value.items()) {
    add_size(op, name, size.is_number_integer() ? std::optional(size.get<std::int64_t>()) : std::nullopt, shown(size),
             kSizesField, sizes);
  }
  return complete(op, std::move(sizes), kSizesField);
}

FeatureSet set_from(const OpInfo &op, const json &names) {
  FeatureSet set = 0;
  for (const json &name : names) {
    if (!name.is_string()) usage_error("{} holds {}; names of features are accepted", kFeaturesField, shown(name));
    add_feature(op, name.get<std::string>(), kFeaturesField, set);
  }
  return set;
}

std::vector<FeatureSet> feature_sets_from(const OpInfo &op, const json &value) {
  if (value.is_string()) return parse_features(op, value.get<std::string>(), kFeaturesField);
  if (!value.is_array()) {
    usage_error("{} is {}; \"all\", \"none\", a list of names or a list of lists is accepted", kFeaturesField,
                shown(value));
  }
  const bool nested = std::ranges::any_of(value, [](const json &item) { return item.is_array(); });
  if (!nested) return {set_from(op, value)};
  std::vector<FeatureSet> sets;
  for (const json &names : value) {
    if (!names.is_array()) usage_error("{} mixes names and lists; one of them is accepted", kFeaturesField);
    const FeatureSet set = set_from(op, names);
    if (std::ranges::find(sets, set) == sets.end()) sets.push_back(set);
  }
  return sets;
}

std::string string_field(const json &item, const char *field) {
  if (!item.contains(field)) usage_error("'{}' is missing; op, sizes and dtype are needed", field);
  if (!item.at(field).is_string()) usage_error("'{}' is {}; a string is accepted", field, shown(item.at(field)));
  return item.at(field).get<std::string>();
}

WarmRequest request_from(std::span<const OpInfo> ops, const json &item) {
  if (!item.is_object()) usage_error("it is {}; an object with op, sizes, dtype and features is accepted", shown(item));
  for (const auto &[key, value] : item.items()) {
    if (key != "op" && key != "sizes" && key != "dtype" && key != "features") {
      usage_error("it has '{}'; op, sizes, dtype and features are accepted", shortened(key));
    }
  }
  const OpInfo &op = find_op(ops, string_field(item, "op"), kOpField);
  if (!item.contains("sizes")) usage_error("'sizes' is missing; {} needs {}", op.name, needed_sizes(op));
  return {&op, sizes_from(op, item.at("sizes")), parse_dtypes(op, string_field(item, "dtype"), kDTypeField),
          feature_sets_from(op, item.value("features", json("all")))};
}

}  // namespace

SizeMap parse_sizes(const OpInfo &op, std::string_view text, std::string_view from) {
  SizeMap sizes;
  for (const std::string_view part : split(text)) {
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      usage_error("{} holds '{}'; NAME=NUMBER is accepted, as in Nq=1", from, shortened(part));
    }
    const std::string_view value = part.substr(equals + 1);
    add_size(op, part.substr(0, equals), parse_integer(value), value, from, sizes);
  }
  return complete(op, std::move(sizes), from);
}

DTypeMap parse_dtypes(const OpInfo &op, std::string_view text, std::string_view from) {
  DTypeMap dtypes;
  const bool named = text.find('=') != std::string_view::npos;
  for (const OperandInfo &operand : op.operands) {
    if (named || operand.kind != OperandInfo::DTypeKind::own) continue;
    set_dtype(op, operand, text, from, dtypes);
  }
  if (!named) return dtypes;
  for (const std::string_view part : split(text)) {
    const std::size_t equals = std::min(part.find('='), part.size());
    const OperandInfo *operand = op.find_operand(part.substr(0, equals));
    if (operand == nullptr || operand->kind != OperandInfo::DTypeKind::own || equals == part.size()) {
      usage_error("{} holds '{}'; NAME or OPERAND=NAME is accepted, for operands with a dtype of their own", from,
                  shortened(part));
    }
    set_dtype(op, *operand, part.substr(equals + 1), from, dtypes);
  }
  for (const OperandInfo &operand : op.operands) {
    if (operand.kind == OperandInfo::DTypeKind::own && !dtypes.contains(operand.name)) {
      usage_error("{} does not name that of {}; accepted: {}", from, operand.name, names(operand.accepted));
    }
  }
  return dtypes;
}

std::vector<FeatureSet> parse_features(const OpInfo &op, std::string_view text, std::string_view from) {
  if (text == "none") return {0};
  if (text == "all") {
    std::vector<FeatureSet> sets;
    for (FeatureSet set = 0; set <= op.all_features(); ++set) sets.push_back(set);
    return sets;
  }
  if (text.empty()) {
    usage_error("{} is empty; all, none or names of {} are accepted", from, list_names(op.features));
  }
  FeatureSet set = 0;
  for (const std::string_view name : split(text)) add_feature(op, name, from, set);
  return {set};
}

std::vector<WarmRequest> parse_manifest(std::span<const OpInfo> ops, std::string_view text, std::string_view file) {
  const json document = parse_json_text(text, file, "the manifest");
  if (!document.is_array()) {
    failure("{}: the manifest is a JSON {}; a list of {{op, sizes, dtype, features}} is accepted", file,
            document.type_name());
  }
  std::vector<WarmRequest> requests;
  for (const json &item : document) {
    try {
      requests.push_back(request_from(ops, item));
    } catch (const UsageError &error) {
      failure("{}: item {} of the manifest: {}", file, requests.size(), error.what());
    }
  }
  return requests;
}

std::vector<WarmRequest> read_manifest(std::span<const OpInfo> ops, const std::filesystem::path &file) {
  return parse_manifest(ops, read_json_text(file, "the manifest", Pipes::read), file.native());
}

}  // namespace msj::cli
