#include "ops/residual_forward.h"

#include "ops/decoded_rows_geometry.h"
#include "ops/forward_geometry.h"
#include "ops/hopper_geometry.h"
#include "ops/residual_geometry.h"
#include "ops/residual_words.h"

namespace msj::ops {

namespace {

enum Size : int { Nq, Nd, Lq, Ld, N, K, d, nbits };
constexpr int P = extent(0);
constexpr int levels = extent(1);

constexpr std::int64_t kTypicalTokens = 256;       // of a document, where nobody says
constexpr std::int64_t kTypicalIndex = 1'000'000;  // of an index

std::int64_t index_tokens(const Sizes &sizes) { return sizes[Nd] * sizes[Ld]; }

constexpr std::array<SizeSpec, 8> kSizes = {{
    {.name = "Nq", .is_static = false, .max = kMaxCount},
    {.name = "Nd", .is_static = false, .max = kMaxCount},
    {.name = "Lq", .is_static = false, .max = kMaxTokens},
    {.name = "Ld", .is_static = false, .max = kMaxTokens, .default_value = kTypicalTokens},
    {.name = "N",
     .is_static = false,
     .max = kMaxCount,
     .default_value = kTypicalIndex,
     .in_bucket = false,
     .in_sweep = index_tokens},
    {.name = "K", .is_static = false, .max = kMaxCentroids, .default_value = kDefaultCentroids},
    {.name = "d", .is_static = true, .max = kMaxWidth},
    {.name = "nbits", .is_static = true, .max = 8, .accepted = kNbits},
}};
constexpr std::array<ExtentSpec, 2> kExtents = residual_extents(d, nbits);

// In the order of the header's enumerators.
constexpr std::array<OperandSpec, MSJ_RESIDUAL_FORWARD_OPERANDS> kOperands = {{
    {.name = "q", .rank = 3, .dims = {Nq, Lq, d}, .dtype = kOwnMatrix, .streamed = true, .doc = "query tokens"},
    codes_operand(N, K),
    residuals_operand(N, P),
    {.name = "d_starts",
     .rank = 1,
     .dims = {Nd},
     .dtype = kInt64,
     .doc = "the first token of each document",
     .content = Content::starts,
     .content_size = N},
    {.name = "d_lengths", .rank = 1, .dims = {Nd}, .dtype = kInt32, .doc = "the tokens of each document"},
    {.name = "centroids", .rank = 2, .dims = {K, d}, .dtype = kOwnMatrix, .streamed = true, .doc = "centroids"},
    {.name = "bucket_weights",
     .rank = 1,
     .dims = {levels},
     .dtype = like(MSJ_RESIDUAL_FORWARD_CENTROIDS),
     .doc = "what an index of nbits bits adds to a feature"},
    {.name = "q_mask", .rank = 2, .dims = {Nq, Lq}, .dtype = kMask, .optional = true, .doc = "nonzero keeps"},
    {.name = "d_inv_norms",
     .rank = 1,
     .dims = {N},
     .dtype = kFloat32,
     .optional = true,
     .doc = "1 / norm of each token's row, as residual_norms gives it"},
    {.name = "scores", .rank = 2, .dims = {Nq, Nd}, .dtype = kFloat32, .is_result = true, .doc = "the scores"},
    {.name = "argmax",
     .rank = 3,
     .dims = {Nq, Nd, Lq},
     .dtype = kInt32,
     .optional = true,
     .is_result = true,
     .doc = "the document token of each query token's maximum"},
}};

enum Feature : unsigned { q_mask, normalize, save_argmax, lsb_first };

constexpr std::array<FeatureSpec, 4> kFeatures = {{
    {"q_mask", FeatureSpec::Source::presence, MSJ_RESIDUAL_FORWARD_Q_MASK},
    {"normalize", FeatureSpec::Source::presence, MSJ_RESIDUAL_FORWARD_D_INV_NORMS},
    {"save_argmax", FeatureSpec::Source::presence, MSJ_RESIDUAL_FORWARD_ARGMAX},
    {"lsb_first", FeatureSpec::Source::flag, -1, MSJ_FLAG_LSB_FIRST, kLsbFirstDoc},
}};
static_assert(valid(kOperands, kFeatures));

constexpr std::array<ParamSpec, 2> kParams = {{kEmptyDoc,
                                               {.name = "Ld",
                                                .id = MSJ_PARAM_LD,
                                                .is_double = false,
                                                .default_int = kTypicalTokens,
                                                .min_int = 0,
                                                .max_int = kMaxTokens,
                                                .size = Ld,
                                                .doc = "about how long documents are, for the choice of a "
                                                       "config alone"}}};

double multiply_adds(const Sizes &sizes) {
  return static_cast<double>(sizes[Nq]) * static_cast<double>(sizes[Nd]) * static_cast<double>(sizes[Lq]) *
         static_cast<double>(sizes[Ld]) * static_cast<double>(sizes[d]);
}

// Q and centroids of one 16-bit dtype are multiplied as such, all others as float32.
bool has_half_rows(std::span<const DType> dtypes) {
  return dtypes[MSJ_RESIDUAL_FORWARD_Q] == dtypes[MSJ_RESIDUAL_FORWARD_CENTROIDS] &&
         dtypes[MSJ_RESIDUAL_FORWARD_Q] != DType::f32;
}

// ---- table path --------------------------------------------------------------------------------------------------

constexpr std::array<std::string_view, 5> kTableTunables = {"team", "teams", "min_blocks", "persistent", "kept"};
constexpr std::array<std::string_view, 2> kTableEntries = {"residual_forward_products", "residual_forward"};

TableTile table_tile(const TileConfig &config) {
  return {.team = config.at("team"),
          .teams = config.at("teams"),
          .min_blocks = config.at("min_blocks"),
          .persistent = config.at("persistent"),
          .kept = config.at("kept")};
}

TableSizes table_sizes(const Sizes &sizes) { return {sizes[Nq], sizes[Nd], sizes[Lq], sizes[K]}; }

std::string admission_of_table(const ConfigQuery &query) {
  if (!has_half_rows(query.dtypes)) return "T's rows go on with products of 16-bit rows, these are float32";
  return table_admission(table_tile(query.config), static_cast<int>(query.bucket_sizes[d]),
                         static_cast<int>(query.bucket_sizes[nbits]), query.layout, query.bucket_sizes[K],
                         query.bucket_sizes[Lq], query.limits.shared_bytes_per_block);
}

LaunchList geometry_of_table(const GeometryQuery &query) {
  return table_launch(table_blocks(table_tile(query.config), static_cast<int>(query.static_sizes[nbits])),
                      table_sizes(query.sizes), query.sm_count);
}

std::size_t workspace_of_table(const GeometryQuery &query) {
  return static_cast<std::size_t>(table_workspace_bytes(
      table_sizes(query.sizes), static_cast<int>(query.static_sizes[d]), static_cast<int>(query.static_sizes[nbits])));
}

// ---- gather path -------------------------------------------------------------------------------------------------

// Of the kernels' table of weights, by pairs of features up to 4 bits; in copies against bank conflicts.
constexpr int field_bits(int bits) { return bits == 8 ? 8 : 2 * bits; }
constexpr int weight_pairs_bytes(int bits) { return (1 << field_bits(bits)) * (bits <= 2 ? 32 : 8) * 4; }

constexpr std::array<std::string_view, 1> kGatherEntries = {"residual_forward"};

ForwardRows gathered_rows(std::span<const DType> dtypes, int bits) {
  const bool half = has_half_rows(dtypes);
  return {.document_bytes = half ? 2 : 4,
          .query_bytes = half ? 2 : 4,
          .k_unit = 32,
          .single_k_unit = 16,
          .row_extras = 8,
          .accumulators = half ? 1 : 2,
          .fragments_per_16_rows = half ? 4 : 8,
          .fragments = half ? 8 : 4,
          .coded_bytes = bytes(dtypes[MSJ_RESIDUAL_FORWARD_CENTROIDS]),
          .coded_bits = bits,
          .table_bytes = half ? weight_pairs_bytes(bits) : (1 << bits) * 4};
}

std::string admission_of_gather(const ConfigQuery &query) {
  const ForwardTile tile = forward_tile(query.config);
  const bool half = has_half_rows(query.dtypes);
  if (half != (tile.block_k > 64)) return "block_k to 64 is for float32 rows, above for 16-bit rows";
  return forward_admission(tile, gathered_rows(query.dtypes, static_cast<int>(query.bucket_sizes[nbits])),
                           static_cast<int>(query.bucket_sizes[d]), query.limits.shared_bytes_per_block);
}

LaunchList geometry_of_gather(const GeometryQuery &query) {
  return forward_launch(
      forward_tile(query.config), gathered_rows(query.dtypes, static_cast<int>(query.static_sizes[nbits])),
      {query.sizes[Nq], query.sizes[Nd], query.sizes[Lq]}, static_cast<int>(query.static_sizes[d]), query.sm_count);
}

// ---- hopper path -------------------------------------------------------------------------------------------------

constexpr std::array<std::string_view, 7> kHopperLoaderTunables = {
    "block_query", "scorers", "ring", "query_buffers", "min_blocks", "persistent", "loaders"};
constexpr std::array<TensorMapSpec, 1> kTensorMaps = {{{MSJ_RESIDUAL_FORWARD_Q, hopper_query_box}}};

HopperRows made_rows(int bits) {
  return {.element_bytes = 2, .row_extra_bytes = 4, .shared_bytes = weight_pairs_bytes(bits), .other_registers = 32};
}

std::string admission_of_hopper(const ConfigQuery &query) {
  if (!has_half_rows(query.dtypes)) return "the hopper path takes rows of 16 bits, these are float32";
  const HopperTile tile = hopper_tile(query.config);
  if (query.bucket_sizes[nbits] == 8 && tile.block_query == 128)
    return "128 columns leave loading warps no registers for 8 bits a feature";
  return hopper_admission(tile, made_rows(static_cast<int>(query.bucket_sizes[nbits])),
                          static_cast<int>(query.bucket_sizes[d]), query.limits.shared_bytes_per_block);
}

LaunchList geometry_of_hopper(const GeometryQuery &query) {
  return hopper_launch(hopper_tile(query.config), made_rows(static_cast<int>(query.static_sizes[nbits])),
                       {query.sizes[Nq], query.sizes[Nd], query.sizes[Lq]}, static_cast<int>(query.static_sizes[d]),
                       query.sm_count);
}

// ---- hopper_table and hopper_gather paths ------------------------------------------------------------------------

DecodedRows decoded_rows(Coded coded, const Sizes &static_sizes) {
  return {coded, static_cast<int>(static_sizes[d]), static_cast<int>(static_sizes[nbits])};
}

std::string decoded_rows_problem(Coded coded, const ConfigQuery &query) {
  if (!has_half_rows(query.dtypes)) return "the hopper paths take rows of 16 bits, these are float32";
  return decoded_rows_admission(decoded_rows_tile(query.config), decoded_rows(coded, query.bucket_sizes), query.layout,
                                query.bucket_sizes[Lq], query.limits.shared_bytes_per_block);
}

ScoreBlocks blocks_of_decoded_rows(Coded coded, const GeometryQuery &query) {
  return decoded_rows_blocks(decoded_rows_tile(query.config), decoded_rows(coded, query.static_sizes), query.sizes[Lq]);
}

std::string admission_of_hopper_table(const ConfigQuery &query) {
  if (std::string problem = table_problem(query.bucket_sizes[K], query.bucket_sizes[Lq]); !problem.empty())
    return problem;
  return decoded_rows_problem(Coded::table, query);
}

LaunchList geometry_of_hopper_table(const GeometryQuery &query) {
  return table_launch(blocks_of_decoded_rows(Coded::table, query), table_sizes(query.sizes), query.sm_count);
}

std::string admission_of_hopper_gather(const ConfigQuery &query) {
  return decoded_rows_problem(Coded::centroids, query);
}

LaunchList geometry_of_hopper_gather(const GeometryQuery &query) {
  const ScoreBlocks blocks = blocks_of_decoded_rows(Coded::centroids, query);
  const std::int64_t grid = hopper_grid(query.config.at("block_query"), blocks.documents, blocks.persistent,
                                        {query.sizes[Nq], query.sizes[Nd], query.sizes[Lq]}, query.sm_count);
  LaunchList list;
  if (grid == 0) return list;
  list.add(
      {.entry = 0, .grid = grid, .threads = blocks.threads, .shared_bytes = static_cast<int>(blocks.shared_bytes)});
  return list;
}

constexpr std::array<PathSpec, 5> kPaths = {{
    {.name = "table",
     .tunables = kTableTunables,
     .entries = kTableEntries,
     .min_compute_capability = 80,
     .max_compute_capability = 999,
     .admission = admission_of_table,
     .geometry = geometry_of_table,
     .workspace = workspace_of_table},
    {.name = "gather",
     .tunables = kForwardTunables,
     .entries = kGatherEntries,
     .min_compute_capability = 80,
     .max_compute_capability = 999,
     .admission = admission_of_gather,
     .geometry = geometry_of_gather},
    {.name = "hopper",
     .tunables = kHopperLoaderTunables,
     .entries = kGatherEntries,
     .min_compute_capability = 90,
     .max_compute_capability = 90,
     .admission = admission_of_hopper,
     .geometry = geometry_of_hopper,
     .tensor_maps = kTensorMaps},
    {.name = "hopper_table",
     .tunables = kHopperTableTunables,
     .entries = kTableEntries,
     .min_compute_capability = 90,
     .max_compute_capability = 90,
     .admission = admission_of_hopper_table,
     .geometry = geometry_of_hopper_table,
     .workspace = workspace_of_table},
    {.name = "hopper_gather",
     .tunables = kHopperGatherTunables,
     .entries = kGatherEntries,
     .min_compute_capability = 90,
     .max_compute_capability = 90,
     .admission = admission_of_hopper_gather,
     .geometry = geometry_of_hopper_gather},
}};

static_assert(valid(kSizes, kParams, kPaths));

constexpr std::array<int, 4> kCutOrder = {Nd, Nq, Ld, Lq};

}  // namespace

const OpSpec &residual_forward_spec() {
  static constexpr OpSpec spec = {
      .id = MSJ_RESIDUAL_FORWARD,
      .name = "residual_forward",
      .doc = "MaxSim over an index of centroid codes and residual bits, decompressed on the fly",
      .tuning_epoch = 4,  // 4: the hopper_table and hopper_gather paths came
      .sizes = kSizes,
      .operands = kOperands,
      .features = kFeatures,
      .params = kParams,
      .paths = kPaths,
      .representative_features = 1U << normalize,
      .multiply_adds = multiply_adds,
      .cut_order = kCutOrder,
      .extents = kExtents,
      .in_rounds = true,
  };
  return spec;
}

}  // namespace msj::ops
