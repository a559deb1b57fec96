// The words of an op: one declarative table that binding, specialization, tuning, the command and the docs all read.
// Tables are constant data in src/ops; this file only says what a table can say.
//
// What makes a split autotune cache impossible to write: a dtype enters the autotune key only through `DtypeRule`, and
// only a required operand may have a dtype of its own (`valid()` is checked at compile time for every table). Optional
// operands have fixed dtypes or follow a required one, present or absent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/tile_config.h"

namespace msj {

inline constexpr int kMaxRank = MSJ_MAX_RANK;
inline constexpr int kMaxOperands = 16;
inline constexpr int kMaxSizes = 12;
inline constexpr int kMaxParams = 4;
inline constexpr int kMaxFeatures = 16;
inline constexpr int kMaxTensorMaps = 4;

// Bit f is feature f of the op's table.
using FeatureSet = std::uint32_t;

// The sizes of one call or bucket, in the order of the op's table.
using Sizes = std::array<std::int64_t, kMaxSizes>;

// aligned16: base and outer strides of streamed operands are multiples of 16 bytes, inner stride 1, and bulk copies can
// express them: outer strides above 0 and below 2^40 bytes, outer sizes below 2^31.
enum class Layout : std::uint8_t { aligned16 = 0, any = 1 };
inline constexpr std::array<Layout, 2> kLayouts = {Layout::aligned16, Layout::any};
[[nodiscard]] constexpr std::string_view name(Layout layout) {
  return layout == Layout::aligned16 ? "aligned16" : "any";
}

struct SizeSpec {
  std::string_view name;  // "Nq", "d"
  bool is_static;         // rounded up by the static rule and constexpr in the kernel; else a run-time argument
  std::int64_t max;       // largest supported
  std::int64_t default_value = 0;               // where `warm --sizes` may leave it out; 0: must be named
  bool in_bucket = true;                        // takes part in the shape bucket
  std::string_view bucketed_as = {};            // whose edges it takes; empty: those of its own name
  std::span<const std::int64_t> accepted = {};  // all that is supported, each of it as it is; empty: up to max
  // Of a size that takes no part in the bucket: what the others make it in a sweep; null: default_value.
  std::int64_t (*in_sweep)(const Sizes &) = nullptr;
  [[nodiscard]] constexpr std::string_view edges_name() const { return bucketed_as.empty() ? name : bucketed_as; }
};

// What the dimensions of an operand are that are no sizes themselves but follow from sizes.
struct ExtentSpec {
  std::string_view name;  // "P"
  enum class Rule : std::uint8_t {
    packed_bits,   // bytes of `size` numbers of `bits` bits each
    power_of_two,  // 2^size: a call's extent gives the size
  } rule;
  int size;
  int bits = -1;  // a size too

  [[nodiscard]] constexpr std::int64_t of(const Sizes &sizes) const {
    const std::int64_t n = sizes[static_cast<std::size_t>(size)];
    if (rule == Rule::power_of_two) return std::int64_t{1} << (n < 0 ? 0 : n > 62 ? 62 : n);
    return (n * sizes[static_cast<std::size_t>(bits)] + 7) / 8;
  }
};
// In OperandSpec::dims: the index of an extent.
[[nodiscard]] constexpr int extent(int index) { return kMaxSizes + index; }

struct DtypeRule {
  enum class Kind : std::uint8_t {
    own,      // the operand's own dtype, one of `accepted`: required operands only
    follows,  // that of operand `follows`; what is passed must equal it, or be one of `accepted`: then the kernel reads
              // which at run time (Args::dtype_<operand>), so that neither a key nor a specialization knows of it
    fixed,    // `canonical`, whatever of `accepted` is passed
  };
  Kind kind;
  DType canonical;                  // of `fixed`
  std::span<const DType> accepted;  // of `own` and `fixed`; of `follows`: the others that may be passed
  int follows = -1;
};

// What a sweep's input holds, where dtype and place don't tell.
enum class Content : std::uint8_t {
  as_dtype,  // numbers, masks, lengths
  codes,     // 0 to below size `content_size`
  starts,    // of documents of Ld tokens, apart from one another, in a dimension of size `content_size`
};

struct OperandSpec {
  std::string_view name;           // "q_mask": the API's, the command's and the kernel's name
  int rank;                        // largest accepted rank
  std::array<int, kMaxRank> dims;  // of each dimension the index of a size, or extent(index)
  DtypeRule dtype;
  bool optional = false;
  bool is_result = false;
  bool streamed = false;       // decides the layout class
  std::string_view doc = {};   // one line for help texts
  int scaled_by = -1;          // the operand of its scales: the command then quantizes what it is given as wider floats
  bool may_be_single = false;  // rank 1, shape [1] is accepted too: one value for all, with strides of 0 to the kernel
  int together_with = -1;      // the optional operand without which it is not, and that is not without it
  Content content = Content::as_dtype;
  int content_size = -1;
};

// Whether the kernel is told at run time which of two dtypes was passed.
[[nodiscard]] constexpr bool has_run_time_dtype(const OperandSpec &operand) {
  return operand.dtype.kind == DtypeRule::Kind::follows && !operand.dtype.accepted.empty();
}

struct FeatureSpec {
  std::string_view name;
  enum class Source : std::uint8_t { presence, flag, rank } source;
  int operand = -1;  // its presence; or its full rank, of one that may be single
  std::uint64_t flag = 0;
  std::string_view doc = {};  // of a flag, one line for help texts
};

struct NamedValue {
  std::string_view name;  // "zero"
  std::int64_t value;
};

struct ParamSpec {
  std::string_view name;  // "empty_doc"
  std::int32_t id;
  bool is_double;
  std::int64_t default_int = 0;
  std::int64_t min_int = 0;
  std::int64_t max_int = 0;
  std::span<const NamedValue> values = {};  // what the command calls them; empty: numbers
  int size = -1;                            // the size that it gives, of which no operand tells; -1: none
  std::string_view doc = {};                // one line for help texts
};

// What a device or an architecture offers to a config.
struct DeviceLimits {
  int compute_capability = 0;      // 90 for 9.0
  int shared_bytes_per_block = 0;  // opt-in limit
  int shared_bytes_per_sm = 0;
  int registers_per_sm = 65536;
  int sm_count = 0;  // 0 where no device is there (ahead-of-time compiles)
  std::int64_t l2_bytes = 0;
  bool tensor_maps = false;  // its driver encodes them (compute capability 9.0 and newer)
};

// Everything that admissibility may look at: never a caller's raw sizes, features or buffers.
struct ConfigQuery {
  const TileConfig &config;
  const Sizes &bucket_sizes;      // static sizes as the kernel sees them, other sizes the bucket's edges (kMore: above)
  std::span<const DType> dtypes;  // canonical tuple, in operand order
  Layout layout;
  DeviceLimits limits;
};

struct KernelLaunch {
  int entry = 0;  // index in PathSpec::entries
  std::int64_t grid = 0;
  int threads = 0;
  int shared_bytes = 0;
  // May begin while the launch before it ends: the kernel itself waits for what that one writes.
  bool overlaps_previous = false;
};

inline constexpr int kMaxLaunches = 4;
struct LaunchList {
  std::array<KernelLaunch, kMaxLaunches> launches{};
  int count = 0;
  std::int64_t rounds = 1;  // how often all of them are launched, with Args::round from 0 on
  void add(const KernelLaunch &launch) { launches[static_cast<std::size_t>(count++)] = launch; }
};

struct GeometryQuery {
  const TileConfig &config;
  const Sizes &sizes;         // the call's own
  const Sizes &static_sizes;  // static sizes as compiled
  std::span<const DType> dtypes;
  int sm_count;
  FeatureSet features = 0;  // for what they add or leave out beside the kernel: a launch, a workspace
};

// What one bulk copy of an operand moves, and how it then lies in shared memory.
struct TensorBox {
  std::array<std::uint32_t, kMaxRank> extent{};  // along each dimension of the operand, 1 to 256 elements
  int swizzle_bytes = 0;                         // 0, 32, 64 or 128: the innermost extent is at most that
};

struct TensorBoxQuery {
  const TileConfig &config;
  const Sizes &static_sizes;
  std::span<const DType> dtypes;
};

// An operand that a path reads through a tensor map, which the kernel finds as Args::map_<operand>. The map covers the
// tensor as it is passed, and is empty where that has no element. Such a path takes layout class aligned16 alone.
struct TensorMapSpec {
  int operand;  // a streamed one
  TensorBox (*box)(const TensorBoxQuery &);
};

// One way to compute an op: kernels/<op>.<path>.cu.
struct PathSpec {
  std::string_view name;                       // "portable"
  std::span<const std::string_view> tunables;  // every candidate of this path names each of them
  std::span<const std::string_view> entries;   // kernels of the translation unit
  int min_compute_capability;
  int max_compute_capability;
  // "" if every feature set can run the config, else one sentence why not.
  std::string (*admission)(const ConfigQuery &);
  // Kernels to launch, in order. count 0: nothing to do.
  LaunchList (*geometry)(const GeometryQuery &);
  // Bytes of workspace of this config with these sizes; null: none.
  std::size_t (*workspace)(const GeometryQuery &) = nullptr;
  // What is worth knowing of it on an architecture of this compute capability, logged once; null or "": nothing.
  std::string_view (*note)(int compute_capability) = nullptr;
  std::span<const TensorMapSpec> tensor_maps = {};
};

struct OpSpec {
  msj_op id;
  std::string_view name;
  std::string_view doc;
  int tuning_epoch;  // raise it to void the entries of this op
  std::span<const SizeSpec> sizes;
  std::span<const OperandSpec> operands;
  std::span<const FeatureSpec> features;
  std::span<const ParamSpec> params;
  std::span<const PathSpec> paths;
  FeatureSet representative_features;      // of sweeps
  double (*multiply_adds)(const Sizes &);  // of the work, for the sweep's cut and the roofline
  // Sizes that the sweep cuts, in order, until the problem fits (Nd, Nq, Ld, Lq).
  std::span<const int> cut_order;
  std::span<const ExtentSpec> extents = {};
  bool in_rounds = false;  // kernels have Args::round; a path's launch list may have several

  [[nodiscard]] int feature_count() const { return static_cast<int>(features.size()); }
  [[nodiscard]] FeatureSet all_features() const { return (FeatureSet{1} << features.size()) - 1; }
};

// "d_mask" → its index, or -1. For anything with a name.
template <typename Spec>
[[nodiscard]] constexpr int find_named(std::span<const Spec> specs, std::string_view wanted) {
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].name == wanted) return static_cast<int>(i);
  }
  return -1;
}

[[nodiscard]] inline const ExtentSpec *extent_at(const OpSpec &op, int dim) {
  return dim < kMaxSizes ? nullptr : &op.extents[static_cast<std::size_t>(dim - kMaxSizes)];
}

// The elements of an operand's dimension, and its name: "N", "P".
[[nodiscard]] inline std::int64_t dim_size(const OpSpec &op, const Sizes &sizes, int dim) {
  const ExtentSpec *extent = extent_at(op, dim);
  return extent != nullptr ? extent->of(sizes) : sizes[static_cast<std::size_t>(dim)];
}
[[nodiscard]] inline std::string_view dim_name(const OpSpec &op, int dim) {
  const ExtentSpec *extent = extent_at(op, dim);
  return extent != nullptr ? extent->name : op.sizes[static_cast<std::size_t>(dim)].name;
}

// The path that a config names. The config is one of the op's.
[[nodiscard]] inline const PathSpec &path_of(const OpSpec &op, const TileConfig &config) {
  return op.paths[static_cast<std::size_t>(find_named(op.paths, std::string_view(config.path)))];
}

// The rules that a table must keep; every table is checked with static_assert(valid(...)).
[[nodiscard]] constexpr bool valid(std::span<const SizeSpec> sizes, std::span<const ParamSpec> params,
                                   std::span<const PathSpec> paths) {
  for (const PathSpec &path : paths) {
    if (path.entries.empty() || path.entries.size() > kMaxLaunches) return false;
    if (path.admission == nullptr || path.geometry == nullptr) return false;
    if (path.tensor_maps.size() > kMaxTensorMaps) return false;
  }
  return sizes.size() <= kMaxSizes && params.size() <= kMaxParams && !paths.empty();
}
[[nodiscard]] constexpr bool valid(std::span<const OperandSpec> operands, std::span<const FeatureSpec> features) {
  if (operands.size() > kMaxOperands || features.size() > kMaxFeatures) return false;
  for (const OperandSpec &operand : operands) {
    if (operand.rank < 1 || operand.rank > kMaxRank) return false;
    if (operand.dtype.kind == DtypeRule::Kind::own && operand.optional) return false;
    if (operand.dtype.kind == DtypeRule::Kind::follows) {
      const int leader = operand.dtype.follows;
      if (leader < 0 || leader >= static_cast<int>(operands.size())) return false;
      if (operands[static_cast<std::size_t>(leader)].dtype.kind != DtypeRule::Kind::own) return false;
    }
    if (operand.streamed && operand.optional) return false;  // else presence could change the layout class
    if (operand.may_be_single && (operand.streamed || operand.rank < 2)) return false;
  }
  for (const FeatureSpec &feature : features) {
    const bool from_operand = feature.source != FeatureSpec::Source::flag;
    if (from_operand != (feature.operand >= 0) || from_operand == (feature.flag != 0)) return false;
    if (feature.source == FeatureSpec::Source::rank &&
        !operands[static_cast<std::size_t>(feature.operand)].may_be_single) {
      return false;
    }
  }
  return true;
}

// {"q_mask", "normalize"}, in the table's order.
[[nodiscard]] std::vector<std::string> feature_names(const OpSpec &op, FeatureSet features);

}  // namespace msj
