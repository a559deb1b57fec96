// fused_head_forward, portable path: score[i, j] = sum over s of max over t of <Q[i, s], E[j, t]>, E = H x W^T + bias,
// normalized and rounded, on mma.sync (bf16, fp16) or FMA units (fp32), sm_80 and newer. E never leaves the block.
//
//                    W: out_width x block_k                    Q: block_query packed tokens x score_k
//                   +----------------------+                  +---------------+
//   H: block_doc    | projected tile, all  |   bias, norm,  E | scores, 32    |   mask, max over t (shuffles),
//      x block_k    | of d_out: registers  |  ------------->  | tokens a warp |   then one lane per token (TokenMax)
//                   +----------------------+   rounding       +---------------+
//                                              (shared memory)
//
// Per tile of document tokens: d_model in k blocks (for each, W's rows in out_blocks parts), then passes over all query
// tokens (each in score_blocks parts of d_out). H, W and Q come through one ring of `stages`, one barrier a step, which
// runs on across tiles and documents. A document is projected once for up to span_tokens query tokens.
//
// Bits: k ascends in one accumulator, squares and the sum over s are fixed trees, max is exact; none depends on the
// config, the batch or a token's place in the block.
#include "common/ptx.cuh"
#include "common/numeric.cuh"
#include "common/tile_load.cuh"
#include "common/mma_tile.cuh"
#include "common/fma_tile.cuh"
#include "common/running_max.cuh"
#include "common/norm.cuh"
#include "common/walk.cuh"
#include "common/group.cuh"
#include "common/token_sum.cuh"
#include "common/narrow.cuh"
#include "common/row_squares.cuh"
#include "common/token_max.cuh"

namespace msj {

constexpr DType type = dtype::q;
using Element = Numeric<type>::Storage;
constexpr int element_bytes = sizeof(Element);

constexpr int block_doc = config::block_doc, block_query = config::block_query, stages = config::stages;
constexpr int block_k = config::block_k, d_out = static_size::d_out;
constexpr int warps = config::warps_doc * config::warps_out, threads = 32 * warps;

// The projection: warps_doc x warps_out warps share each part of W's rows.
constexpr int out_blocks = divide_up(d_out, config::block_out);
constexpr int out_width = round_up(divide_up(d_out, out_blocks), 16 * config::warps_out);
constexpr int warp_rows = block_doc / config::warps_doc, warp_columns = out_width / config::warps_out;

// The scores: 32 query tokens a warp, so that after the shuffles each lane owns one; its rows are a share of the tile.
constexpr int score_blocks = divide_up(d_out, 64), score_k = round_up(divide_up(d_out, score_blocks), 16);
constexpr int score_warps_query = block_query / 32;
constexpr int shares = warps / score_warps_query < block_doc / 16 ? warps / score_warps_query : block_doc / 16;
constexpr int share_rows = block_doc / shares;
static_assert(block_query % 32 == 0 && shares >= 1 && block_doc % shares == 0 && stages >= 2);

constexpr int span_tokens = 65536;
using Span = QueryGroup<span_tokens>;

template <bool float32, int rows, int columns, int width, int pitch_a, int pitch_b>
struct ChooseTile {
  using Tile = MmaTile<type, rows, columns, width, pitch_a, pitch_b>;
};
template <int rows, int columns, int width, int pitch_a, int pitch_b>
struct ChooseTile<true, rows, columns, width, pitch_a, pitch_b> {
  using Tile = FmaTile<type, rows, columns, width, pitch_a, pitch_b>;
};

struct Rows {
  const Element* first;
  long long stride;
  int present;
  __device__ __forceinline__ const Element* operator()(int row) const {
    return row < present ? first + row * stride : nullptr;
  }
};

struct FusedHead {
  static constexpr int k_pitch = row_pitch(block_k, element_bytes), score_pitch = row_pitch(score_k, element_bytes);
  static constexpr int e_pitch = row_pitch(score_blocks * score_k, element_bytes);
  using Projected = ChooseTile<type == DType::f32, warp_rows, warp_columns, block_k, k_pitch, k_pitch>::Tile;
  using Scores = ChooseTile<type == DType::f32, share_rows, 32, score_k, e_pitch, score_pitch>::Tile;
  using Maxima = RunningMax<Scores, feature::save_argmax>;
  using Token = Best<feature::save_argmax>;

  // Shared memory: ring | E | the roles' small arrays.
  struct Small {
    float bias[feature::bias ? out_blocks * out_width : 1];
    RowSquares<feature::normalize ? block_doc : 1, d_out> squares;
    float max_value[shares][block_query];
    int max_index[feature::save_argmax ? shares : 1][block_query];
    unsigned keep_rows[divide_up(block_doc, 32)];  // d_mask and length, a bit per row of the tile
  };
  static constexpr int w_at = block_doc * k_pitch, projection_bytes = w_at + out_width * k_pitch;
  static constexpr int query_bytes = block_query * score_pitch;
  static constexpr int stage_bytes = projection_bytes > query_bytes ? projection_bytes : query_bytes;
  static constexpr int e_at = stages * stage_bytes, e_bytes = block_doc * e_pitch, small_at = e_at + e_bytes;
  static __device__ __forceinline__ unsigned char* shared() {
    extern __shared__ __align__(16) unsigned char bytes[];
    return bytes;
  }
  static __device__ __forceinline__ Small& small() { return *reinterpret_cast<Small*>(shared() + small_at); }

  // What a block does with one span of query tokens.
  struct Work {
    Walk walk;  // its k_blocks: the ring steps of a tile
    int projection_steps, passes;
    TokenMax<feature::save_argmax> maxima;
  };
  struct Ring {
    Cursor loads;
    int slot = 1;         // the first copies come stages - 1 steps before they are used
    bool filled = false;  // these steps have been made
  };

  // --- load ----------------------------------------------------------------------------------------------------------

  // A k block of the tile's hidden states and of some of W's rows.
  static __device__ __forceinline__ void load_projection(const Args& args, const Cursor& at, unsigned stage) {
    using LoadH = TileLoader<type, block_doc, block_k, k_pitch, threads, aligned16>;
    using LoadW = TileLoader<type, out_width, block_k, k_pitch, threads, aligned16>;
    const int k_begin = at.k_block / out_blocks * block_k, first_out = at.k_block % out_blocks * out_width;
    const int d_model = int(args.size_d_model), first_t = at.tile * block_doc;
    const Rows h{static_cast<const Element*>(args.h.data) + at.document * args.h.stride[0] + first_t * args.h.stride[1],
                 args.h.stride[1], at.length - first_t};
    const Rows w{static_cast<const Element*>(args.w.data) + first_out * args.w.stride[0], args.w.stride[0],
                 int(args.size_d_out) - first_out};
    if (LoadH::streams(d_model)) {
      LoadH::stream(stage, h.first, h.stride, h.present, k_begin, d_model, threadIdx.x);
      LoadW::stream(stage + w_at, w.first, w.stride, w.present, k_begin, d_model, threadIdx.x);
    } else {
      LoadH::gather(stage, h, k_begin, d_model, args.h.stride[2], threadIdx.x);
      LoadW::gather(stage + w_at, w, k_begin, d_model, args.w.stride[1], threadIdx.x);
    }
  }

  // Part `step % score_blocks` of d_out of a pass's query tokens. Whole queries without padding are evenly spaced rows.
  static __device__ __forceinline__ void load_queries(const Args& args, const Span& span, int chunk, int step,
                                                      unsigned stage) {
    using Loader = TileLoader<type, block_query, score_k, score_pitch, threads, aligned16>;
    const int first = step / score_blocks * block_query, k_begin = step % score_blocks * score_k;
    const int d = int(args.size_d_out);
    const QueryRow<Element, span_tokens> row{args, span, chunk};
    const bool one = span.queries == 1;
    if (Loader::streams(d) &&
        (one || (span.padded == int(args.size_Lq) && args.q.stride[0] == span.padded * args.q.stride[1]))) {
      const int present = one ? int(args.size_Lq) - chunk * span_tokens : span.queries * span.padded;
      Loader::stream(stage, row.first_of_chunk() + first * args.q.stride[1], args.q.stride[1], present - first, k_begin,
                     d, threadIdx.x);
    } else {
      Loader::gather(
          stage, [&](int column) { return row(first + column); }, k_begin, d, args.q.stride[2], threadIdx.x);
    }
  }

  // One ring step's rows.
  static __device__ __forceinline__ void load_step(const Args& args, const Span& span, const Work& work, Cursor& loads,
                                                   int slot) {
    const unsigned stage = ptx::shared_address(shared()) + slot * stage_bytes;
    if (!loads.done(work.walk)) {
      if (loads.k_block < work.projection_steps) load_projection(args, loads, stage);
      else load_queries(args, span, loads.chunk, loads.k_block - work.projection_steps, stage);
      loads.advance(work.walk);
    }
    ptx::commit_copies();
  }

  // The stage of the next step: its copies have landed, and every warp is done with the step before, whose stage is the
  // next to fill.
  static __device__ __forceinline__ unsigned next_stage(const Args& args, const Span& span, const Work& work,
                                                        Ring& ring) {
    ptx::wait_copies<stages - 2>();
    __syncthreads();
    const int slot = ring.slot;
    load_step(args, span, work, ring.loads, slot == 0 ? stages - 1 : slot - 1);
    ring.slot = slot + 1 == stages ? 0 : slot + 1;
    return ptx::shared_address(shared()) + slot * stage_bytes;
  }

  // The document mask of one tile, a row per thread: read before the tile's steps, so that nobody waits for it.
  struct MaskRows {
    static constexpr int rounds = divide_up(block_doc, threads);
    bool keep[rounds];

    __device__ __forceinline__ void load(const Args& args, const Cursor& at) {
      const auto* mask = static_cast<const unsigned char*>(args.d_mask.data) + at.document * args.d_mask.stride[0];
#pragma unroll
      for (int round = 0; round < rounds; ++round) {
        const int row = threadIdx.x + round * threads, t = at.tile * block_doc + row;
        keep[round] = row < block_doc && t < at.length && mask[t * args.d_mask.stride[1]] != 0;
      }
    }

    __device__ __forceinline__ void store() const {
#pragma unroll
      for (int round = 0; round < rounds; ++round) {
        const unsigned word = __ballot_sync(all_lanes, keep[round]);
        const int row = threadIdx.x + round * threads;
        if (row % 32 == 0 && row < block_doc) small().keep_rows[row / 32] = word;
      }
    }
  };

  // --- project -------------------------------------------------------------------------------------------------------

  // A warp's share of the tile: its first row, and its first column in each part of W's rows.
  static __device__ __forceinline__ int first_row(int warp) { return warp / config::warps_out * warp_rows; }
  static __device__ __forceinline__ int first_column(int warp) { return warp % config::warps_out * warp_columns; }

  // E of a tile, to shared memory; the next step's barrier makes it visible. Steps below 0 only fill the ring.
  static __device__ __forceinline__ void project(const Args& args, const Span& span, const Work& work, Ring& ring,
                                                 const Cursor& at, int warp, int lane) {
    MaskRows mask;
    if constexpr (feature::d_mask) mask.load(args, at);
    Projected tile[out_blocks];
#pragma unroll
    for (int part = 0; part < out_blocks; ++part) tile[part].clear();
#pragma unroll 1
    for (int step = ring.filled ? 0 : 1 - stages; step < work.projection_steps; ++step) {
      const unsigned stage = next_stage(args, span, work, ring);
      if (step >= 0)
        multiply_part<0>(tile, step % out_blocks, stage + first_row(warp) * k_pitch,
                         stage + w_at + first_column(warp) * k_pitch, lane);
    }
    ring.filled = true;
    if constexpr (feature::d_mask) mask.store();
    add_bias(tile, int(args.size_d_out), warp, lane);
    if constexpr (feature::normalize)
      small().squares.normalize(tile, first_row(warp), first_column(warp), out_width, lane);
    const unsigned e = ptx::shared_address(shared()) + e_at + first_row(warp) * e_pitch;
#pragma unroll
    for (int part = 0; part < out_blocks; ++part)
#pragma unroll
      for (int j = 0; j < Projected::columns; j += 4) {
        const int column = part * out_width + first_column(warp) + j * 4;
        if (column < d_out) store_columns_16<type>(tile[part], j, e + column * element_bytes, e_pitch, lane);
      }
  }

  // Part `wanted` of the tile. Each part's code is marked as its own: were it merged, the accumulators would become an
  // array in local memory.
  template <int part>
  static __device__ __forceinline__ void multiply_part(Projected (&tile)[out_blocks], int wanted, unsigned rows,
                                                       unsigned columns, int lane) {
    if (part + 1 == out_blocks || wanted == part) {
      tile[part].template multiply<false>(rows, columns, lane);
      if constexpr (out_blocks > 1) asm volatile("// part %0" ::"n"(part));
    } else if constexpr (part + 1 < out_blocks) {
      multiply_part<part + 1>(tile, wanted, rows, columns, lane);
    }
  }

  // Columns at and past d_out become 0: an infinite hidden state times the zeros loaded for them is NaN.
  static __device__ __forceinline__ void add_bias(Projected (&tile)[out_blocks], int limit, int warp, int lane) {
#pragma unroll
    for (int part = 0; part < out_blocks; ++part)
#pragma unroll
      for (int j = 0; j < Projected::columns; ++j) {
        const int column = part * out_width + first_column(warp) + Projected::column(j, lane);
        const float bias = feature::bias ? small().bias[column] : 0.0f;
#pragma unroll
        for (int i = 0; i < Projected::rows; ++i) {
          float& e = tile[part].at(i, j);
          e = column < limit ? feature::bias ? e + bias : e : 0.0f;
        }
      }
  }

  // --- score ---------------------------------------------------------------------------------------------------------

  // E against every query token of the span.
  static __device__ __forceinline__ void score(const Args& args, const Span& span, const Work& work, Ring& ring,
                                               const Cursor& at, int& first_active, int warp, int lane) {
    const int share = warp / score_warps_query, column = warp % score_warps_query * 32;
    const unsigned e = ptx::shared_address(shared()) + e_at + share * share_rows * e_pitch;
#pragma unroll 1
    for (int pass = 0; pass < work.passes; ++pass) {
      Scores tile;
      tile.clear();
#pragma unroll 1
      for (int part = 0; part < score_blocks; ++part) {
        const unsigned stage = next_stage(args, span, work, ring);
        if (share < shares)
          tile.template multiply<false>(e + part * score_k * element_bytes, stage + column * score_pitch, lane);
      }
      if (pass == 0) find_first_active(at, first_active);
      if (share < shares) keep_maxima(at, tile, work.maxima, share, pass * block_query + column, lane);
    }
  }

  static __device__ __forceinline__ void find_first_active(const Cursor& at, int& first_active) {
    if constexpr (feature::d_mask) {
      for (int w = 0; w < divide_up(block_doc, 32) && first_active < 0; ++w) {
        const unsigned word = small().keep_rows[w];
        if (word != 0) first_active = at.tile * block_doc + w * 32 + __ffs(word) - 1;
      }
    } else if (at.length > 0) {
      first_active = 0;
    }
  }

  // The max over a tile's active rows onto what the tiles before have left.
  static __device__ __forceinline__ void keep_maxima(const Cursor& at, Scores& tile,
                                                     const TokenMax<feature::save_argmax>& known, int share,
                                                     int first_token, int lane) {
    const int first_t = at.tile * block_doc + share * share_rows;
    KeepRows<share_rows> keep;
    if constexpr (feature::d_mask) keep.read(small().keep_rows, share * share_rows);
    else keep.set_first(at.length - first_t);
    if (!keep.every()) keep.apply(tile, lane);
    Maxima maxima;
    maxima.reset();
    maxima.update(tile, first_t, lane);
    maxima.reduce(lane, [&](int column, Token best) {
      if (at.tile > 0) best.merge(known.read(share, first_token + column));
      known.write(share, first_token + column, best);
    });
  }

  // --- reduce and store ----------------------------------------------------------------------------------------------

  // The end of a (document, chunk of a query longer than the span). The next write of maxima comes after the next
  // step's barrier.
  static __device__ __forceinline__ void finish_chunk(const Args& args, const Span& span, const Work& work,
                                                      const Cursor& at, int first_active, int warp, int lane,
                                                      double& carried) {
    __syncthreads();
#pragma unroll 1
    for (int query = warp; query < span.queries; query += warps) {
      carried = sum_tokens(
          args, span, at.document, at.chunk, query, first_active, lane, at.chunk == 0 ? 0.0 : carried,
          [&](int column) { return work.maxima.template best_of<shares>(column); },
          [](int, Token& best) { return best.value; }, [&](int column) { return keeps_query(args, span, at, column); });
      if (at.chunk + 1 == span.chunks && lane == 0)
        static_cast<float*>(args.scores.data)[(span.first_query + query) * args.scores.stride[0] +
                                              at.document * args.scores.stride[1]] = float(carried);
    }
  }

  static __device__ __forceinline__ bool keeps_query(const Args& args, const Span& span, const Cursor& at, int column) {
    const Span::Token token = span.token(args, at.chunk, column);
    const auto* mask = static_cast<const unsigned char*>(args.q_mask.data);
    return mask[token.query * args.q_mask.stride[0] + token.s * args.q_mask.stride[1]] != 0;
  }

  // --- the block -----------------------------------------------------------------------------------------------------

  // The bias in float32, and zeros where E has padding.
  static __device__ __forceinline__ void prepare(const Args& args) {
    if constexpr (feature::bias) {
#pragma unroll 1
      for (int n = threadIdx.x; n < out_blocks * out_width; n += threads) {
        const long long at = n * args.bias.stride[0];
        float bias = 0.0f;
        if (n < int(args.size_d_out))
          bias = args.dtype_bias == (long long)DType::f32
                     ? static_cast<const float*>(args.bias.data)[at]
                     : Numeric<type>::widen(static_cast<const Element*>(args.bias.data)[at]);
        small().bias[n] = bias;
      }
    }
#pragma unroll 1
    for (int at = threadIdx.x * 16; at < e_bytes; at += threads * 16)
      ptx::store_shared(ptx::shared_address(shared()) + e_at + at, make_uint4(0, 0, 0, 0));
  }

  static __device__ __forceinline__ int passes_of(const Span& span) {
    return divide_up(span.chunks > 1 ? span_tokens : span.queries * span.padded, block_query);
  }

  static __device__ __forceinline__ Work work_of(const Args& args, const Span& span) {
    Work work;
    work.projection_steps = divide_up(int(args.size_d_model), block_k) * out_blocks;
    work.passes = passes_of(span);
    work.walk.set_documents(args);
    work.walk.document_step = gridDim.x;
    work.walk.tile_rows = block_doc;
    work.walk.chunks = span.chunks;
    work.walk.k_blocks = work.projection_steps + work.passes * score_blocks;
    // The first span is the largest. One pass's maxima stay in shared memory.
    const int tokens = passes_of(Span(args, 0)) * block_query;
    if (tokens == block_query) {
      work.maxima = {small().max_value[0], small().max_index[0], block_query};
    } else {
      constexpr int values = feature::save_argmax ? 2 : 1;
      float* mine = static_cast<float*>(args.workspace) + (long long)blockIdx.x * values * shares * tokens;
      work.maxima = {mine, reinterpret_cast<int*>(mine + (long long)shares * tokens), tokens};
    }
    return work;
  }

  static __device__ __forceinline__ void score_span(const Args& args, const Span& span, const Work& work) {
    const int lane = threadIdx.x % 32, warp = __shfl_sync(all_lanes, threadIdx.x / 32, 0);  // known to be uniform
    Cursor at;
    at.start(work.walk, blockIdx.x);
    Ring ring{at};
    int first_active = -1;
    double carried = 0.0;
#pragma unroll 1
    while (!at.done(work.walk)) {
      if (at.tile == 0) first_active = -1;
      project(args, span, work, ring, at, warp, lane);
      score(args, span, work, ring, at, first_active, warp, lane);
      if (at.tile + 1 == at.tiles) finish_chunk(args, span, work, at, first_active, warp, lane, carried);
      at.k_block = work.walk.k_blocks - 1;
      at.advance(work.walk);
    }
    ptx::wait_copies<0>();
    __syncthreads();
  }

  // Block b takes documents b, b + gridDim.x, ...
  static __device__ __forceinline__ void run(const Args& args) {
    prepare(args);
    const long long spans = Span::count(args);
#pragma unroll 1
    for (long long index = 0; index < spans; ++index) {
      const Span span(args, index);
      score_span(args, span, work_of(args, span));
    }
  }
};

}  // namespace msj

extern "C" __global__ void __launch_bounds__(msj::threads, msj::config::min_blocks)
    fused_head_forward(const __grid_constant__ msj::Args args) {
  msj::FusedHead::run(args);
}
