// An op of these tests alone: nothing of it is in src, so what tunes it knows no op by name. Two matrices with dtypes
// of their own, two static sizes, optional operands with and without a feature, a flag, a rank, two kernel paths.
#pragma once

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/op_spec.h"
#include "support/scratch.h"
#include "tune/autotune_key.h"
#include "tune/bucket.h"
#include "tune/embedded_configs.h"

namespace msj::testing {

namespace toy {

enum Size : int { Nq, Nd, Lq, Ld, m, k };
enum Operand : int { q, d, bias, d_mask, d_lengths, scale, scores, argmax };

inline constexpr std::array<SizeSpec, 6> kSizes = {{{"Nq", false, 1 << 30},
                                                    {"Nd", false, 1 << 30},
                                                    {"Lq", false, 1 << 30},
                                                    {"Ld", false, 1 << 30},
                                                    {"m", true, 4096},
                                                    {"k", true, 8192, 16}}};
inline constexpr std::array<DType, 3> kMatrix = {DType::bf16, DType::f16, DType::f32};
inline constexpr std::array<DType, 2> kDocuments = {DType::bf16, DType::f32};
inline constexpr std::array<DType, 3> kMask = {DType::i8, DType::u8, DType::boolean};
inline constexpr std::array<DType, 1> kInt32 = {DType::i32};
inline constexpr std::array<DType, 1> kFloat32 = {DType::f32};
using Kind = DtypeRule::Kind;
inline constexpr std::array<OperandSpec, 8> kOperands = {{
    {.name = "q", .rank = 3, .dims = {Nq, Lq, m}, .dtype = {Kind::own, DType::bf16, kMatrix}, .streamed = true},
    {.name = "d", .rank = 3, .dims = {Nd, Ld, k}, .dtype = {Kind::own, DType::bf16, kDocuments}, .streamed = true},
    {.name = "bias", .rank = 1, .dims = {m}, .dtype = {Kind::follows, DType::bf16, {}, q}, .optional = true},
    {.name = "d_mask", .rank = 2, .dims = {Nd, Ld}, .dtype = {Kind::fixed, DType::i8, kMask}, .optional = true},
    {.name = "d_lengths", .rank = 1, .dims = {Nd}, .dtype = {Kind::fixed, DType::i32, kInt32}, .optional = true},
    {.name = "scale",
     .rank = 2,
     .dims = {Nd, Ld},
     .dtype = {Kind::fixed, DType::f32, kFloat32},
     .optional = true,
     .may_be_single = true},
    {.name = "scores", .rank = 2, .dims = {Nq, Nd}, .dtype = {Kind::fixed, DType::f32, kFloat32}, .is_result = true},
    {.name = "argmax",
     .rank = 3,
     .dims = {Nq, Nd, Lq},
     .dtype = {Kind::fixed, DType::i32, kInt32},
     .optional = true,
     .is_result = true},
}};
using From = FeatureSpec::Source;
inline constexpr std::array<FeatureSpec, 5> kFeatures = {{{"bias", From::presence, bias},
                                                          {"d_mask", From::presence, d_mask},
                                                          {"normalize", From::flag, -1, 1},
                                                          {"scale_per_token", From::rank, scale},
                                                          {"save_argmax", From::presence, argmax}}};
static_assert(valid(kOperands, kFeatures));

inline constexpr std::array<ParamSpec, 1> kParams = {{{"factor", 1, true, 1}}};
inline constexpr std::array<std::string_view, 2> kTunables = {"block", "stages"};
inline constexpr std::array<std::string_view, 1> kEntries = {"toy"};

inline std::string simple_admission(const ConfigQuery &query) {
  const int shared = query.config.at("block") * query.config.at("stages") * static_cast<int>(query.bucket_sizes[m]);
  if (shared <= query.limits.shared_bytes_per_block) return {};
  return fmt::format("it needs {} bytes of shared memory, {} are there", shared, query.limits.shared_bytes_per_block);
}
inline std::string fast_admission(const ConfigQuery &query) {
  return query.layout == Layout::aligned16 ? simple_admission(query) : "it loads 16 bytes at a time";
}
inline LaunchList geometry(const GeometryQuery &query) {
  LaunchList list;
  list.add({.entry = 0, .grid = query.sizes[Nd], .threads = query.config.at("block"), .shared_bytes = 1024});
  return list;
}
inline std::size_t workspace(const GeometryQuery &query) {
  return static_cast<std::size_t>(query.config.at("block")) * 256;
}
inline constexpr std::array<PathSpec, 2> kPaths = {{
    {"simple", kTunables, kEntries, 80, 999, simple_admission, geometry},
    {"fast", kTunables, kEntries, 90, 90, fast_admission, geometry, workspace},
}};

inline double multiply_adds(const Sizes &sizes) {
  double product = 1;
  for (const Size size : {Nq, Nd, Lq, Ld, m, k}) product *= static_cast<double>(sizes[size]);
  return product;
}
inline constexpr std::array<int, 4> kCutOrder = {Nd, Nq, Ld, Lq};

inline constexpr OpSpec spec(int epoch, FeatureSet representative) {
  return {.id = 77,
          .name = "toy",
          .doc = "an op of the tests",
          .tuning_epoch = epoch,
          .sizes = kSizes,
          .operands = kOperands,
          .features = kFeatures,
          .params = kParams,
          .paths = kPaths,
          .representative_features = representative,
          .multiply_adds = multiply_adds,
          .cut_order = kCutOrder};
}

}  // namespace toy

// Representative features: d_mask and save_argmax.
inline constexpr OpSpec kToy = toy::spec(1, 0b10010);
inline constexpr OpSpec kToyOfNextEpoch = toy::spec(2, 0b10010);

// Six pairs on sm_90: `fast` takes aligned16 alone, and its last candidate does not fit.
inline constexpr std::string_view kToySpace = R"({"version": 3, "candidates": [
  {"path": "simple", "tunables": {"block": 64, "stages": 2}, "layouts": ["aligned16", "any"]},
  {"path": "simple", "tunables": {"block": 128, "stages": 2}, "layouts": ["aligned16", "any"]},
  {"path": "fast", "tunables": {"block": 128, "stages": 4}, "layouts": ["aligned16"], "dtypes": ["bf16", "f16"]},
  {"path": "simple", "tunables": {"block": 32, "stages": 1}, "layouts": ["any"]},
  {"path": "fast", "tunables": {"block": 128, "stages": 100}, "layouts": ["aligned16"], "dtypes": ["bf16"]}
]})";
inline constexpr std::size_t kToyPairs = 6;

[[nodiscard]] inline TileConfig toy_config(const std::string &path, int block, int stages) {
  return {path, {{"block", block}, {"stages", stages}}};
}

// What configs/ would hold: the real bucket edges, the toy's space, and shipped entries if there are some.
[[nodiscard]] inline tune::ConfigTexts toy_configs(const std::string &shipped_name = {},
                                                   std::string_view shipped = {}) {
  tune::ConfigTexts configs = {{"buckets.json", tune::BucketRules::embedded()}, {"spaces/toy.json", kToySpace}};
  if (!shipped_name.empty()) configs.emplace(shipped_name, shipped);
  return configs;
}

[[nodiscard]] inline Sizes toy_sizes(std::int64_t nq, std::int64_t nd, std::int64_t lq, std::int64_t ld,
                                     std::int64_t m = 64, std::int64_t k = 32) {
  return {nq, nd, lq, ld, m, k};
}

[[nodiscard]] inline tune::AutotuneKey toy_key(const Sizes &sizes = toy_sizes(1, 100, 32, 60),
                                               const std::vector<DType> &own = {DType::bf16, DType::bf16},
                                               const OpSpec &op = kToy) {
  const auto rules = tune::BucketRules::parse(tune::BucketRules::embedded());
  return {op, rules.bucket(op, sizes), tune::DtypeTuple(op, own)};
}

// An H200 as far as tuning looks at it.
[[nodiscard]] inline DeviceLimits h200_limits() {
  return {.compute_capability = 90,
          .shared_bytes_per_block = 232448,
          .shared_bytes_per_sm = 233472,
          .registers_per_sm = 65536,
          .sm_count = 132,
          .l2_bytes = std::int64_t{50} << 20};
}

// Both paths' kernels: they compile in milliseconds, and no two candidates to the same code.
class ToyKernels {
 public:
  ToyKernels() {
    for (const PathSpec &path : toy::kPaths) write(path.name, "");
  }
  void write(std::string_view path, const std::string &line) {
    write_text(folder_ / ("toy." + std::string(path) + ".cu"),
               line +
                   "\nextern \"C\" __global__ void toy(const __grid_constant__ msj::Args args) {\n"
                   "  static_cast<float *>(args.scores.data)[blockIdx.x] = msj::config::block + "
                   "1000 * msj::config::stages;\n}\n");
  }
  [[nodiscard]] const std::string &folder() const { return folder_.path(); }

 private:
  ScratchDirectory folder_;
};

}  // namespace msj::testing
