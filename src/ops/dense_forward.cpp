#include "ops/dense_forward.h"

#include "ops/forward_geometry.h"
#include "ops/hopper_geometry.h"
#include "ops/query_rows_geometry.h"
#include "ops/table_words.h"

namespace msj::ops {

namespace {

enum Size : int { Nq, Nd, Lq, Ld, d };

constexpr std::array<SizeSpec, 5> kSizes = {{
    {"Nq", false, kMaxCount},
    {"Nd", false, kMaxCount},
    {"Lq", false, kMaxTokens},
    {"Ld", false, kMaxTokens},
    {"d", true, kMaxWidth},
}};

// In the order of the header's enumerators.
constexpr std::array<OperandSpec, MSJ_DENSE_FORWARD_OPERANDS> kOperands = {{
    {.name = "q", .rank = 3, .dims = {Nq, Lq, d}, .dtype = kOwnMatrix, .streamed = true, .doc = "query tokens"},
    {.name = "d",
     .rank = 3,
     .dims = {Nd, Ld, d},
     .dtype = like(MSJ_DENSE_FORWARD_Q),
     .streamed = true,
     .doc = "document tokens"},
    {.name = "q_mask", .rank = 2, .dims = {Nq, Lq}, .dtype = kMask, .optional = true, .doc = "nonzero keeps"},
    {.name = "d_mask", .rank = 2, .dims = {Nd, Ld}, .dtype = kMask, .optional = true, .doc = "nonzero keeps"},
    {.name = "d_lengths",
     .rank = 1,
     .dims = {Nd},
     .dtype = kInt32,
     .optional = true,
     .doc = "tokens past it do not exist"},
    {.name = "scores", .rank = 2, .dims = {Nq, Nd}, .dtype = kFloat32, .is_result = true, .doc = "the scores"},
    {.name = "argmax",
     .rank = 3,
     .dims = {Nq, Nd, Lq},
     .dtype = kInt32,
     .optional = true,
     .is_result = true,
     .doc = "the document token of each query token's maximum"},
}};

constexpr std::array<FeatureSpec, 4> kFeatures = {{
    {"q_mask", FeatureSpec::Source::presence, MSJ_DENSE_FORWARD_Q_MASK},
    {"d_mask", FeatureSpec::Source::presence, MSJ_DENSE_FORWARD_D_MASK},
    {"normalize", FeatureSpec::Source::flag, -1, MSJ_FLAG_NORMALIZE, kNormalizeDoc},
    {"save_argmax", FeatureSpec::Source::presence, MSJ_DENSE_FORWARD_ARGMAX},
}};
static_assert(valid(kOperands, kFeatures));

constexpr std::array<ParamSpec, 1> kParams = {kEmptyDoc};

double multiply_adds(const Sizes &sizes) {
  return static_cast<double>(sizes[Nq]) * static_cast<double>(sizes[Nd]) * static_cast<double>(sizes[Lq]) *
         static_cast<double>(sizes[Ld]) * static_cast<double>(sizes[d]);
}

// ---- portable path -----------------------------------------------------------------------------------------------

constexpr std::array<std::string_view, 1> kEntries = {"dense_forward"};

// Extras for each column: squares and a factor.
constexpr ForwardRows rows_of(std::span<const DType> dtypes) {
  if (dtypes[0] == DType::f32) {
    return {.document_bytes = 4,
            .query_bytes = 4,
            .k_unit = 32,
            .single_k_unit = 16,
            .query_extras = 24,
            .accumulators = 2,
            .fragments_per_16_rows = 8,
            .fragments = 4};
  }
  return {.document_bytes = 2,
          .query_bytes = 2,
          .k_unit = 16,
          .single_k_unit = 16,
          .query_extras = 24,
          .fragments_per_16_rows = 4,
          .fragments = 8};
}

std::string portable_admission(const ConfigQuery &query) {
  return forward_admission(forward_tile(query.config), rows_of(query.dtypes), static_cast<int>(query.bucket_sizes[d]),
                           query.limits.shared_bytes_per_block);
}

LaunchList portable_geometry(const GeometryQuery &query) {
  return forward_launch(forward_tile(query.config), rows_of(query.dtypes),
                        {query.sizes[Nq], query.sizes[Nd], query.sizes[Lq]}, static_cast<int>(query.static_sizes[d]),
                        query.sm_count);
}

// ---- hopper path ---------------------------------------------------------------------------------------------------

constexpr std::array<TensorMapSpec, 2> kTensorMaps = {
    {{MSJ_DENSE_FORWARD_Q, hopper_query_box}, {MSJ_DENSE_FORWARD_D, hopper_document_box}}};

constexpr HopperRows kHopperRows = {.element_bytes = 2, .query_extra_bytes = 8};

std::string hopper_path_admission(const ConfigQuery &query) {
  if (query.dtypes[0] == DType::f32) return "the hopper path takes bf16 and f16";
  return hopper_admission(hopper_tile(query.config), kHopperRows, static_cast<int>(query.bucket_sizes[d]),
                          query.limits.shared_bytes_per_block);
}

LaunchList hopper_geometry(const GeometryQuery &query) {
  return hopper_launch(hopper_tile(query.config), kHopperRows, {query.sizes[Nq], query.sizes[Nd], query.sizes[Lq]},
                       static_cast<int>(query.static_sizes[d]), query.sm_count);
}

// ---- hopper_queries path -------------------------------------------------------------------------------------------

constexpr HopperRows kQueryRows = {.element_bytes = 2, .query_extra_bytes = 8, .row_extra_bytes = 8};

std::string query_rows_path_admission(const ConfigQuery &query) {
  if (query.dtypes[0] == DType::f32) return "the hopper_queries path takes bf16 and f16";
  return query_rows_admission(query_rows_tile(query.config), kQueryRows, static_cast<int>(query.bucket_sizes[d]),
                              query.limits.shared_bytes_per_block);
}

LaunchList query_rows_geometry(const GeometryQuery &query) {
  return query_rows_launch(query_rows_tile(query.config), kQueryRows,
                           {query.sizes[Nq], query.sizes[Nd], query.sizes[Lq]}, static_cast<int>(query.static_sizes[d]),
                           query.sm_count);
}

constexpr std::array<PathSpec, 3> kPaths = {{
    {.name = "portable",
     .tunables = kForwardTunables,
     .entries = kEntries,
     .min_compute_capability = 80,
     .max_compute_capability = 999,
     .admission = portable_admission,
     .geometry = portable_geometry},
    {.name = "hopper",
     .tunables = kHopperTunables,
     .entries = kEntries,
     .min_compute_capability = 90,
     .max_compute_capability = 90,
     .admission = hopper_path_admission,
     .geometry = hopper_geometry,
     .tensor_maps = kTensorMaps},
    {.name = "hopper_queries",
     .tunables = kQueryRowsTunables,
     .entries = kEntries,
     .min_compute_capability = 90,
     .max_compute_capability = 90,
     .admission = query_rows_path_admission,
     .geometry = query_rows_geometry,
     .tensor_maps = kTensorMaps},
}};

static_assert(valid(kSizes, kParams, kPaths));

constexpr std::array<int, 4> kCutOrder = {Nd, Nq, Ld, Lq};

}  // namespace

const OpSpec &dense_forward_spec() {
  static constexpr OpSpec spec = {
      .id = MSJ_DENSE_FORWARD,
      .name = "dense_forward",
      .doc = "MaxSim of bf16, fp16 or fp32 token vectors",
      // 2: the hopper path came; 3: swept with norms; 4: masks are branches; 5: hopper_queries came, swept with argmax
      .tuning_epoch = 5,
      .sizes = kSizes,
      .operands = kOperands,
      .features = kFeatures,
      .params = kParams,
      .paths = kPaths,
      // Features tell the configs apart: the winner without them costs a third more with all, theirs 2 % without.
      .representative_features = 1U << 1 | 1U << 2 | 1U << 3,  // d_mask, normalize, save_argmax
      .multiply_adds = multiply_adds,
      .cut_order = kCutOrder,
  };
  return spec;
}

}  // namespace msj::ops
