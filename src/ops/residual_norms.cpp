#include "ops/residual_norms.h"

#include <algorithm>

#include "ops/residual_words.h"

namespace msj::ops {

namespace {

enum Size : int { N, Nd, K, d, nbits };
constexpr int P = extent(0);
constexpr int levels = extent(1);

constexpr std::array<SizeSpec, 5> kSizes = {{
    {.name = "N", .is_static = false, .max = kMaxCount, .bucketed_as = "Nd"},
    {.name = "Nd", .is_static = false, .max = kMaxCount, .default_value = 1, .in_bucket = false},
    {.name = "K", .is_static = false, .max = kMaxCentroids, .default_value = kDefaultCentroids, .in_bucket = false},
    {.name = "d", .is_static = true, .max = kMaxWidth},
    {.name = "nbits", .is_static = true, .max = 8, .accepted = kNbits},
}};
constexpr std::array<ExtentSpec, 2> kExtents = residual_extents(d, nbits);

// In the order of the header's enumerators.
constexpr std::array<OperandSpec, MSJ_RESIDUAL_NORMS_OPERANDS> kOperands = {{
    codes_operand(N, K),
    residuals_operand(N, P),
    {.name = "centroids", .rank = 2, .dims = {K, d}, .dtype = kOwnMatrix, .streamed = true, .doc = "centroids"},
    {.name = "bucket_weights",
     .rank = 1,
     .dims = {levels},
     .dtype = like(MSJ_RESIDUAL_NORMS_CENTROIDS),
     .doc = "what an index of nbits bits adds to a feature"},
    {.name = "d_starts",
     .rank = 1,
     .dims = {Nd},
     .dtype = kInt64,
     .optional = true,
     .doc = "the first token of each document",
     .together_with = MSJ_RESIDUAL_NORMS_D_LENGTHS,
     .content = Content::starts,
     .content_size = N},
    {.name = "d_lengths",
     .rank = 1,
     .dims = {Nd},
     .dtype = kInt32,
     .optional = true,
     .doc = "the tokens of each document",
     .together_with = MSJ_RESIDUAL_NORMS_D_STARTS},
    {.name = "inv_norms", .rank = 1, .dims = {N}, .dtype = kFloat32, .is_result = true, .doc = "1 / max(norm, 1e-12)"},
}};

constexpr std::array<FeatureSpec, 1> kFeatures = {{
    {"lsb_first", FeatureSpec::Source::flag, -1, MSJ_FLAG_LSB_FIRST, kLsbFirstDoc},
}};
static_assert(valid(kOperands, kFeatures));

double multiply_adds(const Sizes &sizes) { return static_cast<double>(sizes[N]) * static_cast<double>(sizes[d]); }

// ---- portable path -----------------------------------------------------------------------------------------------

constexpr std::array<std::string_view, 2> kTunables = {"warps", "blocks_per_multiprocessor"};
constexpr std::array<std::string_view, 1> kEntries = {"residual_norms"};
constexpr std::int64_t kTokensOfWarp = 4;

std::string portable_admission(const ConfigQuery &query) {
  const int warps = query.config.at("warps");
  if (warps < 1 || warps > 32) return "warps is " + std::to_string(warps) + "; 1 to 32 are possible";
  if (query.config.at("blocks_per_multiprocessor") < 1) return "blocks_per_multiprocessor starts at 1";
  return {};
}

// Blocks loop over tokens or over documents: never more than run at once, or than there are tokens for.
LaunchList portable_geometry(const GeometryQuery &query) {
  const std::int64_t warps = query.config.at("warps");
  const std::int64_t resident = std::int64_t{query.config.at("blocks_per_multiprocessor")} * query.sm_count;
  const std::int64_t tokens = kTokensOfWarp * warps;
  LaunchList list;
  list.add({.entry = 0,
            .grid = std::clamp<std::int64_t>((query.sizes[N] + tokens - 1) / tokens, 1, resident),
            .threads = static_cast<int>(32 * warps)});
  return list;
}

constexpr std::array<PathSpec, 1> kPaths = {{
    {.name = "portable",
     .tunables = kTunables,
     .entries = kEntries,
     .min_compute_capability = 80,
     .max_compute_capability = 999,
     .admission = portable_admission,
     .geometry = portable_geometry},
}};

static_assert(valid(kSizes, {}, kPaths));

constexpr std::array<int, 1> kCutOrder = {N};

}  // namespace

const OpSpec &residual_norms_spec() {
  static constexpr OpSpec spec = {
      .id = MSJ_RESIDUAL_NORMS,
      .name = "residual_norms",
      .doc = "what normalizes the rows of an index of centroid codes and residual bits",
      .tuning_epoch = 1,
      .sizes = kSizes,
      .operands = kOperands,
      .features = kFeatures,
      .params = {},
      .paths = kPaths,
      .representative_features = 0,
      .multiply_adds = multiply_adds,
      .cut_order = kCutOrder,
      .extents = kExtents,
  };
  return spec;
}

}  // namespace msj::ops
