// fused_head_forward, hopper path (sm_90a; bf16, fp16; d_out to 128): score[i, j] = sum over s of max over t of
// <Q[i, s], E[j, t]>, E = H x W^T + bias, normalized and rounded, on wgmma fed by bulk tensor copies. E never leaves
// the registers.
//
//        warps of one block                                  shared memory
//   load documents  1 warp, tensor copies ------------->  a ring: stages of tile_rows hidden states x 64 of d_model
//                                                          and, where all of W does not fit beside it, W's 64 too
//   load queries    1 warp, tensor copies ------------->  Q: all of d_out of block_query tokens, 1 or 2 buffers
//   score           2 to 4 warpgroups,              <----  wgmma reads H and W, then Q
//                   64 to 192 rows of each tile
//                   |   projected rows (accumulators) -> norm, rounding -> fragments, A of the second product
//                   |   x each block of query columns -> mask -> max over the warp's rows -> a key per token, raised
//                   v   per document: sum over s of the keys' values -> scores, argmax
//
// A document is projected once for up to span_tokens query tokens (columns, common/group.cuh). If they are one block,
// it stays in shared memory; if several, these come again with each tile (from L2) and their keys are in the workspace.
// All roles walk the same documents, tiles and blocks of columns, so nothing but barriers goes between them.
//
// Tensor maps make rows past Ld and elements past d_model and d_out zeros that cost no traffic; rows past a document's
// length are masked, and 64 rows of which none is below it are not loaded.
//
// Bits: k ascends 16 at a time in one accumulator, after the bias; squares of a norm are a chain a lane and a tree over
// four, max is exact, the sum over s is common/token_sum.cuh's. None depends on the config, the batch or a token's
// place.
#include "common/ptx.cuh"
#include "common/numeric.cuh"
#include "common/running_max.cuh"
#include "common/norm.cuh"
#include "common/group.cuh"
#include "common/token_sum.cuh"
#include "common/narrow.cuh"
#include "common/hopper/mbarrier.cuh"
#include "common/hopper/tensor_copy.cuh"
#include "common/hopper/matrix_copy.cuh"
#include "common/hopper/wgmma.cuh"
#include "common/hopper/row_max.cuh"
#include "common/hopper/fragment_wgmma.cuh"
#include "common/hopper/token_keys.cuh"

namespace msj {

constexpr DType type = dtype::q;
using Element = Numeric<type>::Storage;
constexpr int block_query = config::block_query, query_buffers = config::query_buffers;
constexpr int scorers = config::scorers, row_blocks = config::row_blocks;
constexpr int span_tokens = 65536;
using Span = QueryGroup<span_tokens>;

constexpr int block_rows = 64, k_block = 64, row_bytes = 128, box_bytes = block_rows * row_bytes;
constexpr int scorer_rows = row_blocks * block_rows, tile_rows = scorers * scorer_rows;
constexpr int d_out = static_size::d_out, out_steps = divide_up(d_out, 16);
constexpr int out_columns = d_out <= 32 ? 32 : d_out <= 64 ? 64 : 128;  // N of the projection
static_assert(d_out <= out_columns);
constexpr int query_block_bytes = block_query * row_bytes, query_bytes = divide_up(d_out, k_block) * query_block_bytes;
constexpr int w_block_bytes = out_columns * row_bytes;
constexpr int w_bytes = divide_up(static_size::d_model, k_block) * w_block_bytes, h_bytes = tile_rows * row_bytes;
constexpr int scoring_warps = 4 * scorers, threads = 128 * (scorers + 1);  // setmaxnreg moves between warpgroups

// What ops/fused_head_hopper_geometry.cpp works out too: the ring has as many stages as fit, with every feature on; W
// stays in shared memory if the ring is then no shorter than it has to be.
constexpr int small_reserve =
    round_up(2 * 8 * block_query + 4 * out_columns + 16 * (config::ring + query_buffers) + 32 * scorers + 80, 128);
constexpr int room = 227 * 1024 - query_buffers * query_bytes - small_reserve;
constexpr bool w_stays = room - w_bytes >= 3 * h_bytes;
constexpr int stage_bytes = h_bytes + (w_stays ? 0 : w_block_bytes);
constexpr int fitting_stages = (room - (w_stays ? w_bytes : 0)) / stage_bytes;
constexpr int stages = fitting_stages < config::ring ? fitting_stages : config::ring;

// Registers of a thread: what launch bounds leave on average, moved to the scoring warpgroups.
constexpr int loading_registers = scorers == 2 ? 40 : 32;
constexpr int scoring_registers = scorers == 2 ? 232 : scorers == 3 ? 160 : 112;
static_assert(128 * loading_registers + 128 * scorers * scoring_registers <= threads * (65536 / threads / 8 * 8));

using Projected = WarpgroupTile<out_columns>;
using Scores = WarpgroupTile<block_query>;
using Maxima = RowMax<Scores, feature::save_argmax>;
using Keys = TokenKeys<feature::save_argmax>;

// How query tokens are divided, the same for every span: in shared memory, where it takes no registers.
struct Plan {
  unsigned spans;
  int chunks;  // of a query longer than a span
  int blocks;  // of columns
  bool stays;  // one block of one chunk is loaded once for all documents
};

struct Small {
  unsigned long long full[stages], free[stages], query_full[query_buffers], query_free[query_buffers], w_full;
  double carried;  // a long query's sum over its chunks so far
  Keys::Key key[2][block_query];
  float bias[out_columns];
  unsigned first_active[3];
  unsigned keep_rows[scoring_warps][2];  // d_mask and length, a bit per row of the warp's tile, 16 for each row block
  Plan plan;
};
static_assert(sizeof(Small) <= small_reserve);

constexpr int ring_at = query_buffers * query_bytes, w_at = ring_at + stages * stage_bytes;
constexpr int small_at = w_at + (w_stays ? w_bytes : 0);
__device__ __forceinline__ unsigned char* shared() {
  extern __shared__ __align__(1024) unsigned char bytes[];
  return bytes;
}
__device__ __forceinline__ Small& small() { return *reinterpret_cast<Small*>(shared() + small_at); }
__device__ __forceinline__ unsigned query_address(int slot) {
  return ptx::shared_address(shared()) + slot * query_bytes;
}
__device__ __forceinline__ unsigned stage_address(int slot) {
  return ptx::shared_address(shared()) + ring_at + slot * stage_bytes;
}
__device__ __forceinline__ unsigned w_address(int slot, int k) {
  return w_stays ? ptx::shared_address(shared()) + w_at + k * w_block_bytes : stage_address(slot) + h_bytes;
}

// --- the walk --------------------------------------------------------------------------------------------------------

__device__ __forceinline__ Plan plan_of(const Args& args) {
  const Span largest(args, 0);
  Plan plan;
  plan.spans = unsigned(Span::count(args));
  plan.chunks = largest.chunks;
  plan.blocks = divide_up(largest.chunks > 1 ? span_tokens : largest.queries * largest.padded, block_query);
  plan.stays = plan.chunks == 1 && plan.blocks == 1;
  return plan;
}

struct Document {
  unsigned span, index;  // with the query tokens of this span
  int chunk, length;
};

// Block b takes documents b, b + gridDim.x, ... for each span of query tokens, once for each chunk of a query that is
// longer than the span: enter(span), visit(document) for each, leave(). Tensor maps count below 2^31.
// `ahead`: lengths are read a document ahead, for those whom everybody waits for.
template <bool ahead, class Enter, class Visit, class Leave>
__device__ __forceinline__ void walk(const Args& args, Enter enter, Visit visit, Leave leave) {
  const auto read_length = [&](unsigned document) {
    if (document >= args.size_Nd) return 0;
    const auto* lengths = static_cast<const int*>(args.d_lengths.data);
    return lengths ? lengths[document * args.d_lengths.stride[0]] : int(args.size_Ld);
  };
#pragma unroll 1
  for (unsigned span = 0; span < small().plan.spans; ++span) {
    enter(span);
    int next = ahead ? read_length(blockIdx.x) : 0;
#pragma unroll 1
    for (unsigned document = blockIdx.x; document < args.size_Nd; document += gridDim.x) {
      const int read = ahead ? next : read_length(document);
      const int length = args.size_Lq == 0 ? 0 : min(max(read, 0), int(args.size_Ld));
      if constexpr (ahead) next = read_length(document + gridDim.x);
#pragma unroll 1
      for (int chunk = 0; chunk < small().plan.chunks; ++chunk) visit(Document{span, document, chunk, length});
    }
    leave();
  }
}

__device__ __forceinline__ int model_blocks(const Args& args) { return divide_up(int(args.size_d_model), k_block); }

// --- load ------------------------------------------------------------------------------------------------------------

// One lane: the ring's stages, and before them all of W where it stays.
__device__ __forceinline__ void load_documents(const Args& args) {
  const int k_blocks = model_blocks(args);
  if constexpr (w_stays) {
    const unsigned full = ptx::shared_address(&small().w_full);
    ptx::barrier_arrive_expect(full, k_blocks * w_block_bytes);
#pragma unroll 1
    for (int k = 0; k < k_blocks; ++k) ptx::copy_box(w_address(0, k), args.map_w, k * k_block, 0, full);
  }
  RingPlace<stages> place;
  const auto load = [&](const Document& document) {
#pragma unroll 1
    for (int first_t = 0; first_t < document.length; first_t += tile_rows) {
      const int boxes = min(divide_up(document.length - first_t, block_rows), tile_rows / block_rows);
#pragma unroll 1
      for (int k = 0; k < k_blocks; ++k) {
        const unsigned full = ptx::shared_address(&small().full[place.slot]), stage = stage_address(place.slot);
        ptx::barrier_wait(ptx::shared_address(&small().free[place.slot]), place.parity ^ 1);
        ptx::barrier_arrive_expect(full, boxes * box_bytes + (w_stays ? 0 : w_block_bytes));
        if constexpr (!w_stays) ptx::copy_box(w_address(place.slot, k), args.map_w, k * k_block, 0, full);
#pragma unroll 1
        for (int box = 0; box < boxes; ++box)
          ptx::copy_box(stage + box * box_bytes, args.map_h, k * k_block, first_t + box * block_rows,
                        int(document.index), full);
        place.advance();
      }
    }
  };
  walk<true>(
      args, [](unsigned) {}, load, [] {});
}

// One warp: blocks of query columns, a box of 8 tokens x 64 of d_out a copy.
__device__ __forceinline__ void load_queries(const Args& args, int lane) {
  RingPlace<query_buffers> place;
  const auto load_block = [&](unsigned index, int chunk, int block) {
    constexpr int k_blocks = divide_up(d_out, k_block);
    const Span span(args, index);
    const int first = block * block_query;
    const int left = (span.chunks > 1 ? int(args.size_Lq) - chunk * span_tokens : span.queries * span.padded) - first;
    const int eights = args.size_Lq == 0 ? 0 : divide_up(min(max(left, 0), block_query), 8);
    const unsigned full = ptx::shared_address(&small().query_full[place.slot]);
    ptx::barrier_wait(ptx::shared_address(&small().query_free[place.slot]), place.parity ^ 1);
    if (lane == 0) ptx::barrier_arrive_expect(full, eights * k_blocks * 8 * row_bytes);
    __syncwarp();
#pragma unroll 1
    for (int index = lane; index < eights * k_blocks; index += 32) {
      const int eight = index / k_blocks, k = index % k_blocks;
      const Span::Token token = span.token(args, chunk, first + eight * 8);
      ptx::copy_box(query_address(place.slot) + k * query_block_bytes + eight * 8 * row_bytes, args.map_q, k * k_block,
                    token.s, int(token.query), full);
    }
    place.advance();
  };
  walk<false>(
      args,
      [&](unsigned span) {
        if (small().plan.stays) load_block(span, 0, 0);
      },
      [&](const Document& document) {
        if (small().plan.stays) return;
#pragma unroll 1
        for (int first_t = 0; first_t < document.length; first_t += tile_rows)
#pragma unroll 1
          for (int block = 0; block < small().plan.blocks; ++block) load_block(document.span, document.chunk, block);
      },
      [] {});
}

// --- project ---------------------------------------------------------------------------------------------------------

// This warp is done with what a barrier guards.
__device__ __forceinline__ void release(unsigned long long& barrier, int lane) {
  ptx::barrier_arrive_warp(ptx::shared_address(&barrier), lane);
}

// E of a warpgroup's rows as fragments: 4 words for each 16 of d_out.
struct Fragments {
  unsigned word[row_blocks][out_columns / 16][4];
};

// The bias, or zeros, for the products to add to. Loaded for each row: to copy it takes registers that are not there.
__device__ __forceinline__ void start_rows(Projected (&tile)[row_blocks], int lane) {
#pragma unroll
  for (int block = 0; block < row_blocks; ++block) {
    tile[block].clear();
    if constexpr (feature::bias) {
#pragma unroll
      for (int j = 0; j < Projected::columns; j += 2)
#pragma unroll
        for (int i = 0; i < Projected::rows; ++i) {
          unsigned bias[2];
          ptx::load_shared_8(bias, ptx::shared_address(&small().bias[Projected::column(j, lane)]));
          tile[block].at(i, j) = __uint_as_float(bias[0]);
          tile[block].at(i, j + 1) = __uint_as_float(bias[1]);
        }
    }
    ptx::hold(tile[block].value);
  }
}

// H x W^T + bias, all of d_model. A stage is free when the next one's products have been issued.
__device__ __forceinline__ void multiply_rows(Projected (&tile)[row_blocks], int k_blocks, RingPlace<stages>& place,
                                              int scorer, int lane) {
  int previous = 0;
  start_rows(tile, lane);
#pragma unroll 1
  for (int k = 0; k < k_blocks; ++k) {
    const unsigned rows = stage_address(place.slot) + scorer * row_blocks * box_bytes, w = w_address(place.slot, k);
    ptx::barrier_wait(ptx::shared_address(&small().full[place.slot]), place.parity);
    ptx::products_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step)
#pragma unroll
      for (int block = 0; block < row_blocks; ++block)
        ptx::multiply_64<type, type, out_columns>(tile[block].value,
                                                  ptx::matrix_descriptor(rows, block * box_bytes + step * 32),
                                                  ptx::matrix_descriptor(w, step * 32), true);
    ptx::products_commit();
    if (k > 0) {
      ptx::products_wait<1>();
      release(small().free[previous], lane);
    }
    previous = place.slot;
    place.advance();
  }
  ptx::products_wait<0>();
#pragma unroll
  for (int block = 0; block < row_blocks; ++block) ptx::hold(tile[block].value);
  release(small().free[previous], lane);
}

// Columns at and past d_out become 0: an infinite hidden state times the zeros loaded for them is NaN.
__device__ __forceinline__ void clear_columns(Projected (&tile)[row_blocks], int first, int lane) {
  const int mine = first - Projected::column(0, lane);
#pragma unroll
  for (int j = 0; j < Projected::columns; ++j)
#pragma unroll
    for (int block = 0; block < row_blocks; ++block)
#pragma unroll
      for (int i = 0; i < Projected::rows; ++i)
        if (Projected::column(j, 0) >= mine) tile[block].at(i, j) = 0.0f;
}

// Multiplies each row by 1 / max(norm, 1e-12). Rows whose squares overflow are scaled down first and summed again.
__device__ __forceinline__ void normalize_projected(Projected (&tile)[row_blocks]) {
  bool scaled = false, finished;
#pragma unroll 1
  do {
    float squares[row_blocks][Projected::rows];
    bool overflows = false;
#pragma unroll
    for (int block = 0; block < row_blocks; ++block)
#pragma unroll
      for (int i = 0; i < Projected::rows; ++i) {
        float sum = 0.0f;
#pragma unroll
        for (int j = 0; j < Projected::columns; ++j) sum = fmaf(tile[block].at(i, j), tile[block].at(i, j), sum);
        squares[block][i] = lanes_sum<4>(sum);
        overflows |= squares[block][i] == infinity;
      }
    finished = scaled || !__any_sync(all_lanes, overflows);
#pragma unroll
    for (int block = 0; block < row_blocks; ++block)
#pragma unroll
      for (int i = 0; i < Projected::rows; ++i) {
        const float factor = finished                        ? inverse_norm(squares[block][i])
                             : squares[block][i] == infinity ? norm_scale
                                                             : 1.0f;
#pragma unroll
        for (int j = 0; j < Projected::columns; ++j) tile[block].at(i, j) *= factor;
      }
    scaled = true;
  } while (!finished);
}

__device__ __forceinline__ unsigned round_pair(float low, float high) {
  return type == DType::bf16 ? ptx::pair_bf16(low, high) : ptx::pair_f16(low, high);
}

// Accumulators 4j .. 4j + 3 are rows g and g + 8 of columns 8j + 2c and the next: a fragment's words in this order.
__device__ __forceinline__ void round_rows(Projected (&tile)[row_blocks], Fragments& e) {
#pragma unroll
  for (int block = 0; block < row_blocks; ++block)
#pragma unroll
    for (int step = 0; step < out_columns / 16; ++step)
#pragma unroll
      for (int word = 0; word < 4; ++word)
        e.word[block][step][word] =
            round_pair(tile[block].value[step * 8 + word * 2], tile[block].value[step * 8 + word * 2 + 1]);
}

__device__ __forceinline__ void project(const Args& args, Fragments& e, RingPlace<stages>& place, int scorer,
                                        int lane) {
  Projected tile[row_blocks];
  multiply_rows(tile, model_blocks(args), place, scorer, lane);
  if (int(args.size_d_out) < out_columns) clear_columns(tile, int(args.size_d_out), lane);
  if constexpr (feature::normalize) normalize_projected(tile);
  round_rows(tile, e);
}

// --- score -----------------------------------------------------------------------------------------------------------

// A warp's rows of one tile: row r of row block b is document token first_t + b * 64 + r. Their mask waits in shared
// memory for the scores: while the projection runs, registers are short.
struct Rows {
  int first_t;
  unsigned* keep;

  // Reads the document mask, rows of two row blocks at a time, and says the first active token.
  __device__ __forceinline__ void read_mask(const Args& args, const Document& document, unsigned first_active,
                                            int lane) const {
    const auto* mask = static_cast<const unsigned char*>(args.d_mask.data) + document.index * args.d_mask.stride[0];
#pragma unroll
    for (int pair = 0; pair < divide_up(row_blocks, 2); ++pair) {
      const int block = pair * 2 + lane / 16, t = first_t + block * block_rows + lane % 16;
      const bool kept = block < row_blocks && t < document.length && mask[t * args.d_mask.stride[1]] != 0;
      const unsigned word = __ballot_sync(all_lanes, kept);
      if (lane == 0) keep[pair] = word;
      if (kept && (word & ((1u << lane) - 1)) == 0) ptx::lower_shared(first_active, unsigned(t));
    }
    __syncwarp();
  }

  __device__ __forceinline__ KeepRows<16> of_block(int block, int length) const {
    KeepRows<16> rows;
    if constexpr (feature::d_mask) rows.word[0] = keep[block / 2] >> block % 2 * 16 & KeepRows<16>::all;
    else rows.set_first(length - first_t - block * block_rows);
    return rows;
  }
};

// E against one block of query columns: the max over the warp's rows.
__device__ __forceinline__ void score_block(const Document& document, Fragments& e, const Rows& rows, unsigned queries,
                                            Maxima& maxima, int lane) {
  constexpr int together = block_query <= 64 ? row_blocks : 1;  // row blocks whose scores fit the registers at a time
  maxima.reset();
#pragma unroll
  for (int first = 0; first < row_blocks; first += together) {
    Scores tile[together];
#pragma unroll
    for (int i = 0; i < together; ++i) {
      tile[i].clear();
      ptx::hold(tile[i].value);
    }
    ptx::products_fence();
#pragma unroll
    for (int step = 0; step < out_steps; ++step)
#pragma unroll
      for (int i = 0; i < together; ++i)
        ptx::multiply_64<type, type, block_query>(
            tile[i].value, e.word[first + i][step],
            ptx::matrix_descriptor(queries, step / 4 * query_block_bytes + step % 4 * 32), true);
    ptx::products_commit();
    ptx::products_wait<0>();
#pragma unroll
    for (int i = 0; i < together; ++i) {
      ptx::hold(tile[i].value);
#pragma unroll
      for (int step = 0; step < out_steps; ++step) ptx::hold(e.word[first + i][step]);
      maxima.update(tile[i], rows.of_block(first + i, document.length),
                    rows.first_t + (first + i) * block_rows, lane);
    }
  }
}

// Two sets of keys, used in turns: in shared memory, or in the workspace where there are several blocks of columns.
__device__ __forceinline__ Keys keys_of(const Args& args, unsigned turn) {
  const int tokens = small().plan.blocks * block_query;
  if (tokens == block_query) return {small().key[turn % 2]};
  return {static_cast<Keys::Key*>(args.workspace) + (2ll * blockIdx.x + turn % 2) * tokens};
}

// What a scoring warp keeps from document to document.
struct Scorer {
  int scorer, warp, lane;  // warp: of the warpgroup's four
  RingPlace<stages> place;
  RingPlace<query_buffers> queries;
  unsigned turn = 0;  // documents finished

  __device__ __forceinline__ void wait_queries() const {
    ptx::barrier_wait(ptx::shared_address(&small().query_full[queries.slot]), queries.parity);
  }
  __device__ __forceinline__ void release_queries() {
    release(small().query_free[queries.slot], lane);
    queries.advance();
  }

  // One tile of which this warpgroup has rows.
  __device__ __forceinline__ void score_tile(const Args& args, const Document& document, int first_t) {
    const Rows rows{first_t + warp * 16, small().keep_rows[scorer * 4 + warp]};
    if constexpr (feature::d_mask)
      rows.read_mask(args, document, ptx::shared_address(&small().first_active[turn % 3]), lane);
    Fragments e;
    project(args, e, place, scorer, lane);
#pragma unroll 1
    for (int block = 0; block < small().plan.blocks; ++block) {
      if (!small().plan.stays) wait_queries();
      Maxima maxima;
      score_block(document, e, rows, query_address(queries.slot), maxima, lane);
      if (!small().plan.stays) release_queries();
      const Keys keys = keys_of(args, turn);
      maxima.reduce(
          lane, [&](int column, Best<feature::save_argmax> best) { keys.raise(block * block_query + column, best); });
    }
  }

  // One tile of which it has none: only the barriers. A stage is not given back before it has come.
  __device__ __forceinline__ void skip_tile(const Args& args) {
    const int k_blocks = model_blocks(args);
#pragma unroll 1
    for (int k = 0; k < k_blocks; ++k) {
      ptx::barrier_wait(ptx::shared_address(&small().full[place.slot]), place.parity);
      release(small().free[place.slot], lane);
      place.advance();
    }
#pragma unroll 1
    for (int block = 0; block < small().plan.blocks && !small().plan.stays; ++block) {
      wait_queries();
      release_queries();
    }
  }

  __device__ __forceinline__ void score_document(const Args& args, const Document& document) {
#pragma unroll 1
    for (int first_t = 0; first_t < document.length; first_t += tile_rows) {
      const int mine = first_t + scorer * scorer_rows;
      if (mine < document.length) score_tile(args, document, mine);
      else skip_tile(args);
    }
  }

  // Sums, when all warps have raised the keys. A turn's keys are taken, and so cleared, before the turn after next
  // raises them; its first active token is cleared one turn later, and two before it is used again.
  __device__ __forceinline__ void finish_document(const Args& args, const Document& document) {
    if (small().plan.blocks > 1) ptx::fence_device();
    ptx::named_barrier(1, 128 * scorers);
    int first_active = document.length > 0 ? 0 : -1;
    if constexpr (feature::d_mask) {
      first_active = int(ptx::load_shared_4(ptx::shared_address(&small().first_active[turn % 3])));
      if (scorer == 0 && warp == 0 && lane == 0) small().first_active[(turn + 2) % 3] = ~0u;
    }
    const Span span(args, document.span);
    const Keys keys = keys_of(args, turn);
#pragma unroll 1
    for (int query = scorer * 4 + warp; query < span.queries; query += scoring_warps) {
      const double total = sum_tokens(
          args, span, document.index, document.chunk, query, first_active, lane,
          document.chunk == 0 ? 0.0 : small().carried, [&](int column) { return keys.take(column); },
          [](int, Best<feature::save_argmax>& best) { return best.value; },
          [&](int column) { return keeps_query(args, span, document.chunk, column); });
      if (document.chunk + 1 < span.chunks) small().carried = total;  // by all lanes of the one warp that reads it
      else if (lane == 0)
        static_cast<float*>(args.scores.data)[(span.first_query + query) * args.scores.stride[0] +
                                              document.index * args.scores.stride[1]] = float(total);
    }
    if (span.chunks > 1) clear_rest(args, document.chunk, keys);
    ++turn;
  }

  // Columns past the end of a chunk hold anything, and nobody takes the keys that they raised: the next chunk may.
  __device__ __forceinline__ void clear_rest(const Args& args, int chunk, const Keys& keys) const {
    const int taken = min(int(args.size_Lq) - chunk * span_tokens, span_tokens);
#pragma unroll 1
    for (int token = taken + (scorer * 4 + warp) * 32 + lane; token < span_tokens; token += 32 * scoring_warps)
      keys.first[token] = 0;
  }

  static __device__ __forceinline__ bool keeps_query(const Args& args, const Span& span, int chunk, int column) {
    const Span::Token token = span.token(args, chunk, column);
    const auto* mask = static_cast<const unsigned char*>(args.q_mask.data);
    return mask[token.query * args.q_mask.stride[0] + token.s * args.q_mask.stride[1]] != 0;
  }
};

// One warpgroup.
__device__ __forceinline__ void score(const Args& args, int scorer, int warp, int lane) {
  if constexpr (w_stays) ptx::barrier_wait(ptx::shared_address(&small().w_full), 0);
  Scorer state{scorer, warp, lane};
  walk<false>(
      args,
      [&](unsigned) {
        if (small().plan.stays) state.wait_queries();
      },
      [&](const Document& document) {
        state.score_document(args, document);
        state.finish_document(args, document);
      },
      [&] {
        if (small().plan.stays) state.release_queries();
      });
}

// --- the block -------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void init_barriers() {
  const auto init = [](unsigned long long& barrier, int arrivals) {
    ptx::barrier_init(ptx::shared_address(&barrier), arrivals);
  };
  for (int stage = 0; stage < stages; ++stage) {
    init(small().full[stage], 1);
    init(small().free[stage], scoring_warps * ptx::arriving_lanes);
  }
  for (int slot = 0; slot < query_buffers; ++slot) {
    init(small().query_full[slot], 1);
    init(small().query_free[slot], scoring_warps * ptx::arriving_lanes);
  }
  init(small().w_full, 1);
  ptx::barrier_init_done();
}

// The bias in float32, and keys and first active tokens that say "nothing yet".
__device__ __forceinline__ void prepare(const Args& args) {
  if constexpr (feature::bias) {
    const int n = threadIdx.x;
    const long long at = n * args.bias.stride[0];
    float bias = 0.0f;
    if (n < int(args.size_d_out))
      bias = args.dtype_bias == (long long)DType::f32
                 ? static_cast<const float*>(args.bias.data)[at]
                 : Numeric<type>::widen(static_cast<const Element*>(args.bias.data)[at]);
    if (n < out_columns) small().bias[n] = bias;
  }
  if (threadIdx.x < 3) small().first_active[threadIdx.x] = ~0u;
#pragma unroll 1
  for (int turn = 0; turn < 2; ++turn) {
    const Keys keys = keys_of(args, turn);
#pragma unroll 1
    for (int token = threadIdx.x; token < small().plan.blocks * block_query; token += threads) keys.first[token] = 0;
  }
}

}  // namespace msj

extern "C" __global__ void __launch_bounds__(msj::threads, 1)
    fused_head_forward(const __grid_constant__ msj::Args args) {
  using namespace msj;
  const int lane = threadIdx.x % 32, warp = __shfl_sync(all_lanes, threadIdx.x / 32, 0);  // known to be uniform
  if (threadIdx.x == 0) {
    ptx::prefetch_map(args.map_h);
    ptx::prefetch_map(args.map_w);
    ptx::prefetch_map(args.map_q);
    init_barriers();
    small().plan = plan_of(args);
  }
  __syncthreads();
  prepare(args);
  __syncthreads();
  if (warp >= scoring_warps) {
    ptx::give_registers<loading_registers>();
    if (warp == scoring_warps && lane == 0) load_documents(args);
    else if (warp == scoring_warps + 1) load_queries(args, lane);
  } else {
    ptx::take_registers<scoring_registers>();
    score(args, warp / 4, warp % 4, lane);
  }
}
