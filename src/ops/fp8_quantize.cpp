#include "ops/fp8_quantize.h"

#include <algorithm>

#include "ops/table_words.h"

namespace msj::ops {

namespace {

enum Size : int { N, L, d };

constexpr std::array<SizeSpec, 3> kSizes = {{
    {.name = "N", .is_static = false, .max = kMaxCount, .bucketed_as = "Nd"},
    {.name = "L", .is_static = false, .max = kMaxTokens, .bucketed_as = "Ld"},
    {.name = "d", .is_static = true, .max = kMaxWidth},
}};

// In the order of the header's enumerators.
constexpr std::array<OperandSpec, MSJ_FP8_QUANTIZE_OPERANDS> kOperands = {{
    {.name = "x", .rank = 3, .dims = {N, L, d}, .dtype = kOwnMatrix, .streamed = true, .doc = "token vectors"},
    {.name = "quantized",
     .rank = 3,
     .dims = {N, L, d},
     .dtype = kOwnFp8,
     .is_result = true,
     .doc = "x / scale, rounded and saturated"},
    {.name = "scales",
     .rank = 2,
     .dims = {N, L},
     .dtype = kFloat32,
     .is_result = true,
     .doc = "of each token, or one for all",
     .may_be_single = true},
}};

constexpr std::array<FeatureSpec, 1> kFeatures = {{
    {"per_token", FeatureSpec::Source::rank, MSJ_FP8_QUANTIZE_SCALES},
}};
static_assert(valid(kOperands, kFeatures));

// Of the work per element: a maximum and a division.
double multiply_adds(const Sizes &sizes) {
  return 2 * static_cast<double>(sizes[N]) * static_cast<double>(sizes[L]) * static_cast<double>(sizes[d]);
}

// ---- portable path -----------------------------------------------------------------------------------------------

constexpr std::array<std::string_view, 2> kTunables = {"warps", "blocks_per_multiprocessor"};
constexpr std::array<std::string_view, 2> kEntries = {"fp8_quantize", "fp8_quantize_maxima"};

constexpr std::int64_t kMostPartials = 4096;  // blocks that each leave a maximum in the workspace

std::string portable_admission(const ConfigQuery &query) {
  const int warps = query.config.at("warps");
  if (warps < 1 || warps > 32) return "warps is " + std::to_string(warps) + "; 1 to 32 are possible";
  if (query.config.at("blocks_per_multiprocessor") < 1) return "blocks_per_multiprocessor starts at 1";
  return {};
}

// A warp per token, at most as many blocks as run at once.
std::int64_t grid_of(const GeometryQuery &query) {
  const std::int64_t warps = query.config.at("warps");
  const std::int64_t resident = std::int64_t{query.config.at("blocks_per_multiprocessor")} * query.sm_count;
  const std::int64_t tokens = query.sizes[N] * query.sizes[L];  // of a result that exists: no overflow
  return std::clamp<std::int64_t>((tokens + warps - 1) / warps, 1, std::min(resident, kMostPartials));
}

LaunchList portable_geometry(const GeometryQuery &query) {
  const KernelLaunch quantize = {.entry = 0, .grid = grid_of(query), .threads = 32 * query.config.at("warps")};
  LaunchList list;
  if ((query.features & 1U) == 0) {  // one scale for all: the maximum first
    KernelLaunch maxima = quantize;
    maxima.entry = 1;
    list.add(maxima);
  }
  list.add(quantize);
  return list;
}

std::size_t portable_workspace(const GeometryQuery &query) {
  return (query.features & 1U) == 0 ? static_cast<std::size_t>(kMostPartials) * sizeof(float) : 0;
}

constexpr std::array<PathSpec, 1> kPaths = {{
    {.name = "portable",
     .tunables = kTunables,
     .entries = kEntries,
     .min_compute_capability = 80,
     .max_compute_capability = 999,
     .admission = portable_admission,
     .geometry = portable_geometry,
     .workspace = portable_workspace},
}};

static_assert(valid(kSizes, {}, kPaths));

constexpr std::array<int, 2> kCutOrder = {N, L};

}  // namespace

const OpSpec &fp8_quantize_spec() {
  static constexpr OpSpec spec = {
      .id = MSJ_FP8_QUANTIZE,
      .name = "fp8_quantize",
      .doc = "fp8 token vectors and their scales",
      .tuning_epoch = 1,
      .sizes = kSizes,
      .operands = kOperands,
      .features = kFeatures,
      .params = {},
      .paths = kPaths,
      .representative_features = 1,  // per token
      .multiply_adds = multiply_adds,
      .cut_order = kCutOrder,
  };
  return spec;
}

}  // namespace msj::ops
