// dense_forward, portable path: score[i, j] = sum over s of max over t of <Q[i, s], D[j, t]>, on mma.sync (bf16, fp16)
// or FMA units (fp32), sm_80 and newer.
//
// A block holds the tokens of one or more whole queries ("group"; padded to 8 tokens each) and streams documents past
// them. A query longer than block_query goes in chunks, the document streaming once per chunk (from L2).
//
//              packed query tokens (block_query)
//             +--------+--------+        D tile: block_doc tokens x k_extent   cp.async ring of `stages`,
//   document  | warp 0 | warp 1 |        Q: all of d, resident                 one barrier a step
//   tokens    +--------+--------+           or k_extent at a time in the ring beside D
//  (block_doc)| warp 2 | warp 3 |
//             +--------+--------+        per tile:     accumulators -> factor, mask -> running max (registers)
//                  max over t |          per document: shuffles -> warps_doc partial maxima per token (shared)
//                             v                        -> query factor, mask -> sum over s -> scores, argmax
//
// Bits: k ascends in one accumulator, max is exact, the sum over s is a butterfly within each 32 tokens of the query
// and then ascending; none depends on the config, the batch or a token's place in the block.
#include "common/ptx.cuh"
#include "common/numeric.cuh"
#include "common/tile_load.cuh"
#include "common/mma_tile.cuh"
#include "common/fma_tile.cuh"
#include "common/running_max.cuh"
#include "common/norm.cuh"
#include "common/walk.cuh"

namespace msj {

constexpr DType type = dtype::q;
using Element = Numeric<type>::Storage;

constexpr int block_doc = config::block_doc, block_query = config::block_query, stages = config::stages;
constexpr int warps = config::warps_doc * config::warps_query, threads = 32 * warps;
constexpr int warp_rows = block_doc / config::warps_doc, warp_columns = block_query / config::warps_query;
static_assert(block_query % 32 == 0 && stages >= 2);

// k in equal blocks of at most block_k, multiples of what the tile product takes at a time.
constexpr int k_unit = sizeof(Element) == 4 ? 32 : 16;
constexpr int most_k_blocks = divide_up(static_size::d, config::block_k);
constexpr int k_extent =
    most_k_blocks == 1 ? static_size::d : round_up(divide_up(static_size::d, most_k_blocks), k_unit);

constexpr bool resident = config::query_resident != 0;
constexpr int query_width = resident ? divide_up(static_size::d, k_extent) * k_extent : k_extent;
constexpr int query_pitch = row_pitch(query_width, sizeof(Element)), doc_pitch = row_pitch(k_extent, sizeof(Element));
constexpr int query_bytes = block_query * query_pitch, doc_bytes = block_doc * doc_pitch;

// Shared memory: resident queries | ring | the roles' small arrays.
struct Small {
  float partial_value[config::warps_doc][block_query];
  int partial_index[feature::save_argmax ? config::warps_doc : 1][block_query];
  unsigned keep_rows[stages][divide_up(block_doc, 32)];  // d_mask and length, a bit per row of the stage's tile
  float query_squares[feature::normalize ? block_query : 1][4];
  RowFactor query_factor[feature::normalize ? block_query : 1];
  unsigned char query_keep[feature::q_mask ? block_query : 16];
};
constexpr int stage_bytes = doc_bytes + (resident ? 0 : query_bytes);
constexpr int ring_at = resident ? config::query_buffers * query_bytes : 0;
constexpr int small_at = ring_at + stages * stage_bytes;
extern __shared__ __align__(16) unsigned char shared[];
__device__ __forceinline__ Small& small() { return *reinterpret_cast<Small*>(shared + small_at); }

template <bool float32>
struct ChooseTile {
  using Tile = MmaTile<type, warp_rows, warp_columns, k_extent, doc_pitch, query_pitch>;
};
template <>
struct ChooseTile<true> {
  using Tile = FmaTile<type, warp_rows, warp_columns, k_extent, doc_pitch, query_pitch>;
};
using Tile = ChooseTile<type == DType::f32>::Tile;
using Maxima = RunningMax<Tile, feature::save_argmax>;

// The queries of the block. Column n of chunk c is token (c * block_query + n) % padded of query / padded.
struct Group {
  long long first_query;
  int queries, padded, chunks;

  __device__ __forceinline__ explicit Group(const Args& args, long long group) {
    padded = max(round_up(int(args.size_Lq), 8), 8);
    chunks = divide_up(padded, block_query);
    const int fitting = max(block_query / padded, 1);
    first_query = group * fitting;
    queries = int(min((long long)fitting, args.size_Nq - first_query));
  }

  static __device__ __forceinline__ long long count(const Args& args) {
    const int fitting = max(block_query / max(round_up(int(args.size_Lq), 8), 8), 1);
    return (args.size_Nq + fitting - 1) / fitting;
  }

  struct Token {
    long long query;
    int s;
    bool present;
  };
  __device__ __forceinline__ Token token(const Args& args, int chunk, int column) const {
    const int place = chunk * block_query + column, query = chunks > 1 ? 0 : place / padded;
    const int s = place - query * padded;
    return {first_query + query, s, query < queries && s < int(args.size_Lq)};
  }
};

// --- load ------------------------------------------------------------------------------------------------------------

struct QueryRow {
  const Args& args;
  const Group& group;
  int chunk;
  __device__ __forceinline__ const Element* operator()(int column) const {
    const Group::Token token = group.token(args, chunk, column);
    if (!token.present) return nullptr;
    return static_cast<const Element*>(args.q.data) + token.query * args.q.stride[0] + token.s * args.q.stride[1];
  }
  __device__ __forceinline__ const Element* first_of_chunk() const {
    return static_cast<const Element*>(args.q.data) + group.first_query * args.q.stride[0] +
           chunk * block_query * args.q.stride[1];
  }
};

struct DocumentRow {
  const Element* first;  // of the tile's row `row`
  long long stride;
  int present;
  __device__ __forceinline__ DocumentRow(const Args& args, const Cursor& at, int row)
      : first(static_cast<const Element*>(args.d.data) + at.document * args.d.stride[0] +
              (at.tile * block_doc + row) * args.d.stride[1]),
        stride(args.d.stride[1]),
        present(at.length - at.tile * block_doc - row) {}
  __device__ __forceinline__ const Element* operator()(int row) const {
    return row < present ? first + row * stride : nullptr;
  }
};

// `width` of d, from k_begin, of a chunk's query tokens. One query's rows are evenly spaced, several queries' are not.
template <int width>
__device__ __forceinline__ void load_query_tile(const Args& args, const Group& group, int chunk, int k_begin,
                                                unsigned tile) {
  using Loader = TileLoader<type, block_query, width, query_pitch, threads, aligned16>;
  const QueryRow row{args, group, chunk};
  const int d = int(args.size_d), present = int(args.size_Lq) - chunk * block_query;
  if (group.queries == 1 && Loader::streams(d))
    Loader::stream(tile, row.first_of_chunk(), args.q.stride[1], present, k_begin, d, threadIdx.x);
  else
    Loader::gather(tile, row, k_begin, d, args.q.stride[2], threadIdx.x);
}

// All of d of a chunk's queries, into resident buffer `buffer`.
__device__ __forceinline__ void load_queries(const Args& args, const Group& group, int chunk, int buffer) {
  load_query_tile<query_width>(args, group, chunk, 0, ptx::shared_address(shared) + buffer * query_bytes);
}

// One ring step: a document tile's k block and, if queries are not resident, theirs.
__device__ __forceinline__ void load_step(const Args& args, const Group& group, const Cursor& at, int slot) {
  const unsigned stage = ptx::shared_address(shared) + ring_at + slot * stage_bytes;
  const int k_begin = at.k_block * k_extent;
  const DocumentRow rows(args, at, 0);
  using Loader = TileLoader<type, block_doc, k_extent, doc_pitch, threads, aligned16>;
  const int d = int(args.size_d);
  if (Loader::streams(d)) Loader::stream(stage, rows.first, rows.stride, rows.present, k_begin, d, threadIdx.x);
  else Loader::gather(stage, rows, k_begin, d, args.d.stride[2], threadIdx.x);
  if constexpr (!resident) load_query_tile<k_extent>(args, group, at.chunk, k_begin, stage + doc_bytes);
}

// The document mask of one tile, a row per thread: read with the tile's last k block, held in registers over a step
// so that nobody waits for it, then packed into the stage's words.
struct MaskRows {
  static constexpr int rounds = divide_up(block_doc, threads);
  bool keep[rounds];
  int slot = -1;

  __device__ __forceinline__ void load(const Args& args, const Cursor& at, int stage) {
    const auto* mask = static_cast<const unsigned char*>(args.d_mask.data) + at.document * args.d_mask.stride[0];
    slot = stage;
#pragma unroll
    for (int round = 0; round < rounds; ++round) {
      const int row = threadIdx.x + round * threads, t = at.tile * block_doc + row;
      keep[round] = row < block_doc && t < at.length && mask[t * args.d_mask.stride[1]] != 0;
    }
  }

  __device__ __forceinline__ void store() {
    if (slot < 0) return;
#pragma unroll
    for (int round = 0; round < rounds; ++round) {
      const unsigned word = __ballot_sync(all_lanes, keep[round]);
      const int row = threadIdx.x + round * threads;
      if (row % 32 == 0 && row < block_doc) small().keep_rows[slot][row / 32] = word;
    }
    slot = -1;
  }
};

// --- score -----------------------------------------------------------------------------------------------------------

// Four lanes a row.
__device__ __forceinline__ void finish_query_norm(const Args& args, const Group& group, int chunk, int column,
                                                  int share, float squares) {
  RowFactor factor{1.0f, inverse_norm(squares)};
  if (Numeric<type>::squares_overflow && __any_sync(all_lanes, squares == infinity)) {
    const Element* row = QueryRow{args, group, chunk}(column);
    const float scaled =
        lanes_sum<4>(row ? scaled_squares<type>(row, args.q.stride[2], int(args.size_d), share, 4) : 0.0f);
    if (squares == infinity) factor = large_norm_factor(scaled);
  }
  if (share == 0) small().query_factor[column] = factor;
}

// What the sum over s needs of each query token of a chunk: mask bytes at the chunk's first step, squares from the k
// block in shared memory while the first tile passes, factors at its last k block. Four lanes a row; a lane takes
// every fourth 16 bytes of the whole row, whatever the k block.
__device__ __forceinline__ void prepare_queries(const Args& args, const Group& group, const Walk& walk,
                                                const Cursor& at, unsigned block, int warp, int lane) {
  if (feature::q_mask && at.k_block == 0) {
#pragma unroll 1
    for (int first = warp * 32; first < block_query; first += threads) {
      const Group::Token token = group.token(args, at.chunk, first + lane);
      const auto* mask = static_cast<const unsigned char*>(args.q_mask.data);
      small().query_keep[first + lane] =
          token.present && mask[token.query * args.q_mask.stride[0] + token.s * args.q_mask.stride[1]] != 0;
    }
  }
  if constexpr (feature::normalize) {
    constexpr int units = k_extent * int(sizeof(Element)) / 16;
    const int share = lane % 4;
#pragma unroll 1
    for (int first = warp * 8; first < block_query; first += warps * 8) {
      const int column = first + lane / 4;
      float squares = at.k_block == 0 ? 0.0f : small().query_squares[column][share];
#pragma unroll 2
      for (int unit = (share - at.k_block * units) & 3; unit < units; unit += 4)
        squares = add_squares<type>(squares, ptx::load_shared_16(block + column * query_pitch + unit * 16));
      small().query_squares[column][share] = squares;
      if (at.last_of_tile(walk)) finish_query_norm(args, group, at.chunk, column, share, lanes_sum<4>(squares));
    }
  }
}

// A finished tile: document factors, then masked and absent rows, then the running max.
__device__ __forceinline__ void finish_tile(const Args& args, const Cursor& at, int slot, int first_row, int lane,
                                            Tile& tile, Maxima& maxima, int& first_active) {
  if constexpr (feature::normalize)
    normalize_rows<type>(tile, warp_rows, DocumentRow(args, at, first_row), args.d.stride[2], int(args.size_d), lane);
  KeepRows<warp_rows> keep;
  const int first_t = at.tile * block_doc;
  if constexpr (feature::d_mask) {
    const unsigned* words = small().keep_rows[slot];
    keep.read(words, first_row);
    for (int w = 0; w < divide_up(block_doc, 32) && first_active < 0; ++w)
      if (words[w] != 0) first_active = first_t + w * 32 + __ffs(words[w]) - 1;
  } else {
    keep.set_first(at.length - first_t - first_row);
    if (at.length > 0) first_active = 0;
  }
  if (!keep.every()) keep.apply(tile, lane);
  maxima.update(tile, first_t + first_row, lane);
}

// --- reduce and store ------------------------------------------------------------------------------------------------

// Sums the tokens of one query in a chunk, in groups of 32, onto `total`; writes their argmax. One warp.
__device__ __forceinline__ double sum_tokens(const Args& args, const Group& group, const Cursor& at, int query,
                                             int first_active, int lane, double total) {
  const float empty = args.param_empty_doc == 0 ? 0.0f : -infinity;
  const int first_column = query * group.padded, first_s = at.chunk * block_query;
  const int tokens = min(int(args.size_Lq) - first_s, block_query);
  int* argmax = nullptr;
  if constexpr (feature::save_argmax)
    argmax = static_cast<int*>(args.argmax.data) + (group.first_query + query) * args.argmax.stride[0] +
             at.document * args.argmax.stride[1];
#pragma unroll 2
  for (int begin = 0; begin < tokens; begin += 32) {
    const int s = begin + lane, column = first_column + s;
    float value = 0.0f;
    if (s < tokens) {
      Best<feature::save_argmax> best{small().partial_value[0][column],
                                      feature::save_argmax ? small().partial_index[0][column] : -1};
#pragma unroll
      for (int w = 1; w < config::warps_doc; ++w)
        best.merge({small().partial_value[w][column], feature::save_argmax ? small().partial_index[w][column] : -1});
      if (best.index < 0) best.index = first_active;  // all -inf, or none
      value = best.value;
      if constexpr (feature::normalize) {
        const RowFactor factor = small().query_factor[column];
        value = factor.apply(value);
        // An infinite query element: every product is NaN, the first active token's too.
        if (factor.factor != factor.factor) best.index = first_active;
      }
      if (first_active < 0) value = empty;
      if (feature::q_mask && !small().query_keep[column]) value = 0.0f, best.index = -1;
      if constexpr (feature::save_argmax) argmax[(first_s + s) * args.argmax.stride[2]] = best.index;
    }
    total += lanes_sum<32>(value);
  }
  return total;
}

// The end of a (document, chunk): maxima over lanes, then over warps, then sums. Not more than one barrier, because
// the next write of the partial maxima comes after the next ring step's.
__device__ __forceinline__ void finish_chunk(const Args& args, const Group& group, const Cursor& at, int warp, int lane,
                                             Maxima& maxima, int first_active, double& carried) {
  const int warp_doc = warp / config::warps_query, first_column = warp % config::warps_query * warp_columns;
  maxima.reduce(lane, [&](int column, Best<feature::save_argmax> best) {
    small().partial_value[warp_doc][first_column + column] = best.value;
    if constexpr (feature::save_argmax) small().partial_index[warp_doc][first_column + column] = best.index;
  });
  __syncthreads();
  for (int query = warp; query < group.queries; query += warps) {
    const double total =
        sum_tokens(args, group, at, query, first_active, lane, at.chunk == 0 ? 0.0 : carried);
    carried = total;
    if (at.chunk + 1 == group.chunks && lane == 0)
      static_cast<float*>(args.scores.data)[(group.first_query + query) * args.scores.stride[0] +
                                            at.document * args.scores.stride[1]] = float(total);
  }
}

// --- the block -------------------------------------------------------------------------------------------------------

// Which chunk of resident queries to bring in before step `step`, -1: none. The first comes with the first copies.
// After that, queries longer than a chunk: at a chunk's first step its own tokens (one buffer), or the next chunk's
// into the other buffer (two), which nobody reads any more after the step's barrier.
__device__ __forceinline__ int chunk_to_load(const Group& group, const Walk& walk, const Cursor& at, int step) {
  if (!resident) return -1;
  if (step == 1 - stages) return 0;
  if (step < 0 || group.chunks == 1 || !at.first_of_chunk()) return -1;
  if (config::query_buffers == 1) return step == 0 ? -1 : at.chunk;
  if (at.chunk + 1 < group.chunks) return at.chunk + 1;
  return at.document + walk.document_step < walk.documents ? 0 : -1;
}

// Steps below 0 only fill the ring.
__device__ __forceinline__ void score_group(const Args& args, const Group& group, const Walk& walk,
                                            long long first_document) {
  const int lane = threadIdx.x % 32, warp = __shfl_sync(all_lanes, threadIdx.x / 32, 0);  // known to be uniform
  const int first_row = warp / config::warps_query * warp_rows;
  const int first_column = warp % config::warps_query * warp_columns;
  const unsigned base = ptx::shared_address(shared);
  Tile tile;
  Maxima maxima;
  MaskRows mask_rows;
  double carried = 0.0;
  int first_active = -1, buffer = 0, slot = 0, since_chunk = stages;
  bool first_chunk = true;
  Cursor loads, at;
  loads.start(walk, first_document);
  at = loads;

#pragma unroll 1
  for (int step = 1 - stages; !at.done(walk); step = min(step + 1, 1)) {
    const bool chunk_begins = step >= 0 && at.first_of_chunk();
    if (step >= 0) {
      // This step's copies have landed (queries that were started with a chunk of few steps, too), and every warp is
      // done with the step before, whose stage is the next to fill.
      if (chunk_begins && since_chunk < stages - 1) ptx::wait_copies<0>();
      else ptx::wait_copies<stages - 2>();
      __syncthreads();
      if (chunk_begins && step > 0 && group.chunks > 1) buffer ^= config::query_buffers - 1;
    }
    const int chunk = chunk_to_load(group, walk, at, step);
    if (chunk >= 0) {
      load_queries(args, group, chunk, step <= 0 || config::query_buffers == 1 ? (step == 0) : buffer ^ 1);
      if (step > 0 && config::query_buffers == 1) {
        ptx::commit_copies();
        ptx::wait_copies<0>();
        __syncthreads();
      }
    }
    const int free_slot = step < 0 ? step + stages - 1 : slot == 0 ? stages - 1 : slot - 1;
    if (!loads.done(walk)) {
      load_step(args, group, loads, free_slot);
      if (feature::d_mask && loads.last_of_tile(walk)) mask_rows.load(args, loads, free_slot);
      loads.advance(walk);
    }
    ptx::commit_copies();

    if (step >= 0) {
      if (chunk_begins) {
        maxima.reset();
        first_active = -1;
        since_chunk = 0;
      }
      const unsigned stage = base + ring_at + slot * stage_bytes;
      const unsigned queries = resident ? base + buffer * query_bytes + at.k_block * k_extent * int(sizeof(Element))
                                        : stage + doc_bytes;
      if ((feature::q_mask || feature::normalize) && at.tile == 0 && (first_chunk || group.chunks > 1))
        prepare_queries(args, group, walk, at, queries, warp, lane);
      if (at.k_block == 0) tile.clear();
      tile.multiply<feature::normalize>(stage + first_row * doc_pitch, queries + first_column * query_pitch, lane);
      if (at.last_of_tile(walk)) finish_tile(args, at, slot, first_row, lane, tile, maxima, first_active);
      if (at.last_of_chunk(walk)) {
        finish_chunk(args, group, at, warp, lane, maxima, first_active, carried);
        first_chunk = false;
      }
      slot = slot + 1 == stages ? 0 : slot + 1;
      ++since_chunk;
      at.advance(walk);
    }
    if constexpr (feature::d_mask) mask_rows.store();
  }
  ptx::wait_copies<0>();
  __syncthreads();
}

}  // namespace msj

// Block b takes query groups b % lanes, + lanes, ... and documents b / lanes, + gridDim.x / lanes, ...; neighbouring
// blocks share a document in L2. `lanes` is what the launch geometry used.
extern "C" __global__ void __launch_bounds__(msj::threads, msj::config::min_blocks)
    dense_forward(const __grid_constant__ msj::Args args) {
  using namespace msj;
  const long long groups = Group::count(args);
  const unsigned lanes = unsigned(groups < gridDim.x ? groups : gridDim.x);
  Walk walk;
  walk.lengths = static_cast<const int*>(args.d_lengths.data);
  walk.length_stride = args.d_lengths.stride[0];
  walk.documents = args.size_Nd;
  walk.document_step = gridDim.x / lanes;
  walk.longest = int(args.size_Ld);
  walk.tile_rows = block_doc;
  walk.k_blocks = max(divide_up(int(args.size_d), k_extent), 1);
#pragma unroll 1
  for (long long group = blockIdx.x % lanes; group < groups; group += lanes) {
    const Group queries(args, group);
    walk.chunks = queries.chunks;
    if (blockIdx.x / lanes < walk.document_step) score_group(args, queries, walk, blockIdx.x / lanes);
  }
}
