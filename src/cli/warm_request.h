// What `warm` is asked to prepare: an op at some sizes and dtypes, and feature sets; from options or from a manifest.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/op_table.h"

namespace msj::cli {

using SizeMap = std::map<std::string, std::int64_t, std::less<>>;
// One for each operand with a dtype of its own, by name.
using DTypeMap = std::map<std::string, DType, std::less<>>;

struct WarmRequest {
  const OpInfo *op = nullptr;
  SizeMap sizes;
  DTypeMap dtypes;
  std::vector<FeatureSet> feature_sets;
};

// What is wrong throws UsageError, whose sentence begins with `from`: the option, or the field of a manifest.

// "Nq=1,Nd=1000,…": every size of the op, but for those with a default.
[[nodiscard]] SizeMap parse_sizes(const OpInfo &op, std::string_view text, std::string_view from = "--sizes");
// "bf16" for all matrices, or "q=fp8_e4m3,d=fp8_e5m2".
[[nodiscard]] DTypeMap parse_dtypes(const OpInfo &op, std::string_view text, std::string_view from = "--dtype");
// "all": every subset of the op's features; "none": the empty set; "a,b": that set.
[[nodiscard]] std::vector<FeatureSet> parse_features(const OpInfo &op, std::string_view text,
                                                     std::string_view from = "--features");

// A JSON list of {"op", "sizes", "dtype", "features"}. "dtype" and "features" are as above; "features" may also be a
// list of names (one set) or a list of such lists, and is "all" where it is left out. Throws Failure that names the
// file and the item.
[[nodiscard]] std::vector<WarmRequest> read_manifest(std::span<const OpInfo> ops, const std::filesystem::path &file);

// The same for a text in memory; `file` is for messages.
[[nodiscard]] std::vector<WarmRequest> parse_manifest(std::span<const OpInfo> ops, std::string_view text,
                                                      std::string_view file);

}  // namespace msj::cli
