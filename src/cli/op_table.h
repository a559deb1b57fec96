// The ops as msj_describe() tells them: all that the command knows of an op, so that a new one needs no change here.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/dtype.h"

namespace msj::cli {

struct SizeInfo {
  std::string name;  // "Nq", "d"
  bool is_static = false;
  std::int64_t max = 0;                     // 0: no limit told
  std::int64_t default_value = 0;           // 0: must be named
  std::vector<std::int64_t> accepted = {};  // empty: up to max
};

// A dimension that follows from sizes: 2^size, or the bytes of `size` numbers of `bits` bits.
struct ExtentInfo {
  std::string name;
  std::string size;
  std::string bits;  // "": a power of two
};

struct OperandInfo {
  enum class DTypeKind : std::uint8_t { own, follows, fixed };

  std::string name;  // "q_mask"; on the command line --q-mask
  std::size_t index = 0;
  std::vector<std::string> dims;  // names of sizes or extents, as many as the largest rank
  bool optional = false;
  bool is_result = false;
  DTypeKind kind = DTypeKind::fixed;
  DType canonical = DType::f32;  // of a fixed dtype
  std::vector<DType> accepted;
  std::string follows;         // name of an operand with a dtype of its own
  std::vector<DType> others;   // what may be passed instead of the leader's dtype
  std::string scaled_by;       // name of the operand of its scales; "": none
  bool may_be_single = false;  // shape [1], one value for all, is accepted too
  std::string doc;
};

struct FeatureInfo {
  enum class Source : std::uint8_t { presence, flag, rank };

  std::string name;
  Source source = Source::flag;
  std::string operand;  // of presence and rank
  std::uint64_t flag = 0;
  std::string doc;
};

struct ValueName {
  std::string name;  // "zero"
  std::int64_t value = 0;
};

struct ParamInfo {
  std::string name;  // "empty_doc"
  std::int32_t id = 0;
  bool is_double = false;
  std::int64_t default_int = 0;
  std::int64_t min = 0;
  std::int64_t max = 0;
  std::vector<ValueName> values;  // named; empty: numbers
  std::string size;               // that it gives; "": none
  std::string doc;
};

// Bit f is feature f of the op.
using FeatureSet = std::uint32_t;

struct OpInfo {
  std::string name;
  msj_op id = 0;
  std::string doc;
  std::vector<SizeInfo> sizes;
  std::vector<OperandInfo> operands;
  std::vector<FeatureInfo> features;
  FeatureSet representative_features = 0;  // that sweeps are done with
  std::vector<ParamInfo> params;
  std::vector<ExtentInfo> extents;

  [[nodiscard]] const OperandInfo *find_operand(std::string_view operand) const;  // null: none
  [[nodiscard]] const ExtentInfo *find_extent(std::string_view dim) const;        // null: a size
  // The elements of a dimension, of sizes by their names.
  template <typename Sizes>
  [[nodiscard]] std::int64_t dim_size(const Sizes &sizes, std::string_view dim) const {
    const auto size = [&](std::string_view name) { return sizes.find(name)->second; };
    const ExtentInfo *extent = find_extent(dim);
    if (extent == nullptr) return size(dim);
    if (extent->bits.empty()) return std::int64_t{1} << size(extent->size);
    return (size(extent->size) * size(extent->bits) + 7) / 8;
  }
  [[nodiscard]] FeatureSet all_features() const { return (FeatureSet{1} << features.size()) - 1; }
  [[nodiscard]] std::vector<std::string> feature_names(FeatureSet set) const;
  // The dtypes that the op's operands with a dtype of their own accept, each once.
  [[nodiscard]] std::vector<DType> matrix_dtypes() const;
};

// From JSON of the schema "maxsim-jit/ops/1". Throws Failure where it is something else.
[[nodiscard]] std::vector<OpInfo> parse_ops(std::string_view json);
// Throws UsageError that lists the ops; `from` is the option or field that named it.
[[nodiscard]] const OpInfo &find_op(std::span<const OpInfo> ops, std::string_view name, std::string_view from = "--op");

// "q_mask" → "--q-mask"
[[nodiscard]] std::string option_name(std::string_view name);

// What --dtype accepts: "bf16, f16, f32", or, where ops differ, "bf16, f16, f32 (dense_forward); …".
[[nodiscard]] std::string matrix_dtype_names(std::span<const OpInfo> ops);

// "bf16, f16, f32"
[[nodiscard]] std::string names(std::span<const DType> dtypes);

}  // namespace msj::cli
