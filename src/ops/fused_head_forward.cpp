#include "ops/fused_head_forward.h"

#include "ops/fused_head_forward_geometry.h"
#include "ops/fused_head_hopper_geometry.h"
#include "ops/table_words.h"

namespace msj::ops {

namespace {

enum Size : int { Nq, Nd, Lq, Ld, d_out, d_model };

constexpr std::int64_t kMaxOut = 512;
constexpr std::int64_t kMaxModel = 8192;

constexpr std::array<SizeSpec, 6> kSizes = {{
    {"Nq", false, kMaxCount},
    {"Nd", false, kMaxCount},
    {"Lq", false, kMaxTokens},
    {"Ld", false, kMaxTokens},
    {"d_out", true, kMaxOut},
    {"d_model", true, kMaxModel},
}};

// In the order of the header's enumerators.
constexpr std::array<OperandSpec, MSJ_FUSED_HEAD_FORWARD_OPERANDS> kOperands = {{
    {.name = "q", .rank = 3, .dims = {Nq, Lq, d_out}, .dtype = kOwnMatrix, .streamed = true, .doc = "query tokens"},
    {.name = "h",
     .rank = 3,
     .dims = {Nd, Ld, d_model},
     .dtype = like(MSJ_FUSED_HEAD_FORWARD_Q),
     .streamed = true,
     .doc = "hidden states of the document tokens"},
    {.name = "w",
     .rank = 2,
     .dims = {d_out, d_model},
     .dtype = like(MSJ_FUSED_HEAD_FORWARD_Q),
     .streamed = true,
     .doc = "the projection's matrix"},
    {.name = "bias",
     .rank = 1,
     .dims = {d_out},
     .dtype = like(MSJ_FUSED_HEAD_FORWARD_Q, kFloat32Only),
     .optional = true,
     .doc = "added to each projected token"},
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

enum Feature : unsigned { bias, q_mask, d_mask, normalize, save_argmax };

constexpr std::array<FeatureSpec, 5> kFeatures = {{
    {"bias", FeatureSpec::Source::presence, MSJ_FUSED_HEAD_FORWARD_BIAS},
    {"q_mask", FeatureSpec::Source::presence, MSJ_FUSED_HEAD_FORWARD_Q_MASK},
    {"d_mask", FeatureSpec::Source::presence, MSJ_FUSED_HEAD_FORWARD_D_MASK},
    {"normalize", FeatureSpec::Source::flag, -1, MSJ_FLAG_NORMALIZE, kNormalizeDoc},
    {"save_argmax", FeatureSpec::Source::presence, MSJ_FUSED_HEAD_FORWARD_ARGMAX},
}};
static_assert(valid(kOperands, kFeatures));

constexpr std::array<ParamSpec, 1> kParams = {kEmptyDoc};

// The projection once, then every query token against every document token.
double multiply_adds(const Sizes &sizes) {
  const double document_tokens = static_cast<double>(sizes[Nd]) * static_cast<double>(sizes[Ld]);
  const double query_tokens = static_cast<double>(sizes[Nq]) * static_cast<double>(sizes[Lq]);
  return document_tokens * static_cast<double>(sizes[d_out]) * (static_cast<double>(sizes[d_model]) + query_tokens);
}

// ---- portable path -----------------------------------------------------------------------------------------------

constexpr std::array<std::string_view, 9> kTunables = {
    "block_doc", "block_query", "block_out", "block_k", "warps_doc", "warps_out", "stages", "min_blocks", "persistent"};
constexpr std::array<std::string_view, 1> kEntries = {"fused_head_forward"};

FusedHeadTile tile_of(const TileConfig &config) {
  return {.block_doc = config.at("block_doc"),
          .block_query = config.at("block_query"),
          .block_out = config.at("block_out"),
          .block_k = config.at("block_k"),
          .warps_doc = config.at("warps_doc"),
          .warps_out = config.at("warps_out"),
          .stages = config.at("stages"),
          .min_blocks = config.at("min_blocks"),
          .persistent = config.at("persistent")};
}

FusedHeadSizes sizes_of(const GeometryQuery &query) { return {query.sizes[Nq], query.sizes[Nd], query.sizes[Lq]}; }

std::string portable_admission(const ConfigQuery &query) {
  return fused_head_admission(tile_of(query.config), static_cast<int>(query.bucket_sizes[d_out]),
                              bytes(query.dtypes[0]), query.limits.shared_bytes_per_block);
}

LaunchList portable_geometry(const GeometryQuery &query) {
  const FusedHeadTile tile = tile_of(query.config);
  LaunchList list;
  list.add({.entry = 0,
            .grid = fused_head_grid(tile, sizes_of(query), query.sm_count),
            .threads = fused_head_threads(tile),
            .shared_bytes = static_cast<int>(
                fused_head_shared_bytes(tile, static_cast<int>(query.static_sizes[d_out]), bytes(query.dtypes[0])))});
  return list;
}

std::size_t portable_workspace(const GeometryQuery &query) {
  return static_cast<std::size_t>(fused_head_workspace_bytes(tile_of(query.config), sizes_of(query), query.sm_count,
                                                             ((query.features >> save_argmax) & 1U) != 0));
}

// ---- hopper path ---------------------------------------------------------------------------------------------------

TensorBox hopper_w_box(const TensorBoxQuery &query) {
  return fused_head_hopper_w_box(static_cast<int>(query.static_sizes[d_out]));
}

constexpr std::array<TensorMapSpec, 3> kTensorMaps = {{{MSJ_FUSED_HEAD_FORWARD_Q, fused_head_hopper_query_box},
                                                       {MSJ_FUSED_HEAD_FORWARD_H, fused_head_hopper_hidden_box},
                                                       {MSJ_FUSED_HEAD_FORWARD_W, hopper_w_box}}};

FusedHeadHopperSizes hopper_sizes(const GeometryQuery &query) {
  return {query.sizes[Nq], query.sizes[Nd], query.sizes[Lq]};
}

std::string hopper_admission(const ConfigQuery &query) {
  if (query.dtypes[0] == DType::f32) return "the hopper path takes bf16 and f16";
  return fused_head_hopper_admission(fused_head_hopper_tile(query.config), static_cast<int>(query.bucket_sizes[d_out]),
                                     static_cast<int>(query.bucket_sizes[d_model]),
                                     query.limits.shared_bytes_per_block);
}

LaunchList hopper_geometry(const GeometryQuery &query) {
  const FusedHeadHopperTile tile = fused_head_hopper_tile(query.config);
  const FusedHeadHopperMemory memory = fused_head_hopper_memory(tile, static_cast<int>(query.static_sizes[d_out]),
                                                                static_cast<int>(query.static_sizes[d_model]));
  LaunchList list;
  list.add({.entry = 0,
            .grid = fused_head_hopper_grid(hopper_sizes(query), query.sm_count),
            .threads = fused_head_hopper_threads(tile),
            .shared_bytes = static_cast<int>(memory.block_bytes)});
  return list;
}

std::size_t hopper_workspace(const GeometryQuery &query) {
  return static_cast<std::size_t>(fused_head_hopper_workspace_bytes(fused_head_hopper_tile(query.config),
                                                                    hopper_sizes(query), query.sm_count,
                                                                    ((query.features >> save_argmax) & 1U) != 0));
}

constexpr std::array<PathSpec, 2> kPaths = {{
    {.name = "portable",
     .tunables = kTunables,
     .entries = kEntries,
     .min_compute_capability = 80,
     .max_compute_capability = 999,
     .admission = portable_admission,
     .geometry = portable_geometry,
     .workspace = portable_workspace},
    {.name = "hopper",
     .tunables = kFusedHeadHopperTunables,
     .entries = kEntries,
     .min_compute_capability = 90,
     .max_compute_capability = 90,
     .admission = hopper_admission,
     .geometry = hopper_geometry,
     .workspace = hopper_workspace,
     .tensor_maps = kTensorMaps},
}};

static_assert(valid(kSizes, kParams, kPaths));

constexpr std::array<int, 4> kCutOrder = {Nd, Nq, Ld, Lq};

}  // namespace

const OpSpec &fused_head_forward_spec() {
  static constexpr OpSpec spec = {
      .id = MSJ_FUSED_HEAD_FORWARD,
      .name = "fused_head_forward",
      .doc = "MaxSim of query vectors and documents that are projected from hidden states on the way",
      .tuning_epoch = 3,  // 2: the hopper path came; 3: masks are branches
      .sizes = kSizes,
      .operands = kOperands,
      .features = kFeatures,
      .params = kParams,
      .paths = kPaths,
      .representative_features = 1U << normalize,
      .multiply_adds = multiply_adds,
      .cut_order = kCutOrder,
  };
  return spec;
}

}  // namespace msj::ops
