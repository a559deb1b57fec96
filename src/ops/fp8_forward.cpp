#include "ops/fp8_forward.h"

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
constexpr std::array<OperandSpec, MSJ_FP8_FORWARD_OPERANDS> kOperands = {{
    {.name = "q",
     .rank = 3,
     .dims = {Nq, Lq, d},
     .dtype = kOwnFp8,
     .streamed = true,
     .doc = "query tokens",
     .scaled_by = MSJ_FP8_FORWARD_SCALE_Q},
    {.name = "d",
     .rank = 3,
     .dims = {Nd, Ld, d},
     .dtype = kOwnFp8,
     .streamed = true,
     .doc = "document tokens",
     .scaled_by = MSJ_FP8_FORWARD_SCALE_D},
    {.name = "q_mask", .rank = 2, .dims = {Nq, Lq}, .dtype = kMask, .optional = true, .doc = "nonzero keeps"},
    {.name = "d_mask", .rank = 2, .dims = {Nd, Ld}, .dtype = kMask, .optional = true, .doc = "nonzero keeps"},
    {.name = "d_lengths",
     .rank = 1,
     .dims = {Nd},
     .dtype = kInt32,
     .optional = true,
     .doc = "tokens past it do not exist"},
    {.name = "scale_q",
     .rank = 2,
     .dims = {Nq, Lq},
     .dtype = kFloat32,
     .optional = true,
     .doc = "of each query token, or one for all",
     .may_be_single = true},
    {.name = "scale_d",
     .rank = 2,
     .dims = {Nd, Ld},
     .dtype = kFloat32,
     .optional = true,
     .doc = "of each document token, or one for all",
     .may_be_single = true},
    {.name = "scores", .rank = 2, .dims = {Nq, Nd}, .dtype = kFloat32, .is_result = true, .doc = "the scores"},
    {.name = "argmax",
     .rank = 3,
     .dims = {Nq, Nd, Lq},
     .dtype = kInt32,
     .optional = true,
     .is_result = true,
     .doc = "the document token of each query token's maximum"},
}};

constexpr std::array<FeatureSpec, 5> kFeatures = {{
    {"q_mask", FeatureSpec::Source::presence, MSJ_FP8_FORWARD_Q_MASK},
    {"d_mask", FeatureSpec::Source::presence, MSJ_FP8_FORWARD_D_MASK},
    {"scale_q_per_token", FeatureSpec::Source::rank, MSJ_FP8_FORWARD_SCALE_Q},
    {"scale_d_per_token", FeatureSpec::Source::rank, MSJ_FP8_FORWARD_SCALE_D},
    {"save_argmax", FeatureSpec::Source::presence, MSJ_FP8_FORWARD_ARGMAX},
}};
static_assert(valid(kOperands, kFeatures));

constexpr std::array<ParamSpec, 1> kParams = {kEmptyDoc};

double multiply_adds(const Sizes &sizes) {
  return static_cast<double>(sizes[Nq]) * static_cast<double>(sizes[Nd]) * static_cast<double>(sizes[Lq]) *
         static_cast<double>(sizes[Ld]) * static_cast<double>(sizes[d]);
}

// ---- portable path -----------------------------------------------------------------------------------------------

constexpr std::array<std::string_view, 1> kEntries = {"fp8_forward"};

// Whichever way the architecture multiplies: queries as fp16, fragments of 128 k.
constexpr ForwardRows kRows = {.document_bytes = 1,
                               .query_bytes = 2,
                               .k_unit = 32,
                               .single_k_unit = 32,
                               .query_extras = 4,
                               .row_extras = 4,
                               .fragments_per_16_rows = 24,
                               .fragments = 4};

std::string portable_admission(const ConfigQuery &query) {
  return forward_admission(forward_tile(query.config), kRows, static_cast<int>(query.bucket_sizes[d]),
                           query.limits.shared_bytes_per_block);
}

LaunchList portable_geometry(const GeometryQuery &query) {
  return forward_launch(forward_tile(query.config), kRows, {query.sizes[Nq], query.sizes[Nd], query.sizes[Lq]},
                        static_cast<int>(query.static_sizes[d]), query.sm_count);
}

// As the kernel chooses by target_arch.
std::string_view portable_note(int compute_capability) {
  if (compute_capability == 89 || compute_capability == 120) return {};
  return "it has no fp8 mma.sync, so tiles are converted to fp16 (exactly) and multiplied as such";
}

// ---- hopper path ---------------------------------------------------------------------------------------------------

constexpr std::array<TensorMapSpec, 2> kTensorMaps = {
    {{MSJ_FP8_FORWARD_Q, hopper_query_box}, {MSJ_FP8_FORWARD_D, hopper_document_box}}};

constexpr HopperRows kHopperRows = {
    .element_bytes = 1, .query_extra_bytes = 4, .row_extra_bytes = 4, .separate_sums = true};

std::string hopper_path_admission(const ConfigQuery &query) {
  return hopper_admission(hopper_tile(query.config), kHopperRows, static_cast<int>(query.bucket_sizes[d]),
                          query.limits.shared_bytes_per_block);
}

LaunchList hopper_geometry(const GeometryQuery &query) {
  return hopper_launch(hopper_tile(query.config), kHopperRows, {query.sizes[Nq], query.sizes[Nd], query.sizes[Lq]},
                       static_cast<int>(query.static_sizes[d]), query.sm_count);
}

// ---- hopper_queries path -------------------------------------------------------------------------------------------

constexpr HopperRows kQueryRows = {.element_bytes = 1, .query_extra_bytes = 4, .row_extra_bytes = 4};

std::string query_rows_path_admission(const ConfigQuery &query) {
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
     .geometry = portable_geometry,
     .note = portable_note},
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

const OpSpec &fp8_forward_spec() {
  static constexpr OpSpec spec = {
      .id = MSJ_FP8_FORWARD,
      .name = "fp8_forward",
      .doc = "MaxSim of fp8 token vectors with scales",
      // 2: the hopper path came; 3: swept with a mask and scales; 4: hopper_queries came, swept with argmax
      .tuning_epoch = 4,
      .sizes = kSizes,
      .operands = kOperands,
      .features = kFeatures,
      .params = kParams,
      .paths = kPaths,
      // All that costs beside the products; without the mask other configs win, which cost up to 25 % more with it.
      .representative_features = 1U << 1 | 1U << 2 | 1U << 3 | 1U << 4,  // d_mask, both scales per token, save_argmax
      .multiply_adds = multiply_adds,
      .cut_order = kCutOrder,
  };
  return spec;
}

}  // namespace msj::ops
