// dense_forward, hopper path (sm_90a; bf16, fp16): score[i, j] = sum over s of max over t of <Q[i, s], D[j, t]>, on
// wgmma fed by bulk tensor copies. Documents stream once, at the memory's rate or the tensor cores'.
//
//        warps of one block                                 shared memory
//   load queries    1 warp      tensor copies, norms ---->  Q: all of d of the block's columns, 1 or 2 buffers
//   load documents  1 warp per scorer, tensor copies ---->  a ring per scorer: stages of 64 tokens x 64 or 128 of d
//   score           1 or 2 warpgroups,                <---  wgmma reads both
//                   a document each
//                   |   accumulators 64 tokens (M) x block_query columns (N) -> factor, mask -> running max (registers)
//                   |   per document: shuffles -> 4 partial maxima a column (shared)
//                   v                 -> query factor, mask -> sum over s -> scores, argmax
//
// Columns are the tokens of whole queries (common/group.cuh); a longer query goes in chunks, its document again with
// each (from L2). A pass is one chunk for one document of each scorer; all roles walk the same passes, so nothing but
// barriers goes between them. Warps meet in the rings' and queries' barriers alone: no barrier of the block.
//
// Tensor maps make rows past Ld and elements past d zeros that cost no traffic; rows past a document's length are
// masked, its further tiles are never loaded. If the columns' state does not fit the registers (argmax at 256), a tile
// is scored in two parts, each of half the columns, from the same stages.
//
// Bits: k ascends 16 at a time in one accumulator, max is exact, the sum over s is common/token_sum.cuh's; squares of
// a norm are two chains, of the halves of each 64 of d. None depends on the config, the batch or a token's place.
#include "common/ptx.cuh"
#include "common/numeric.cuh"
#include "common/running_max.cuh"
#include "common/norm.cuh"
#include "common/group.cuh"
#include "common/token_sum.cuh"
#include "common/hopper/mbarrier.cuh"
#include "common/hopper/tensor_copy.cuh"
#include "common/hopper/wgmma.cuh"

namespace msj {

constexpr DType type = dtype::q;
using Element = Numeric<type>::Storage;
constexpr int block_query = config::block_query, scorers = config::scorers, query_buffers = config::query_buffers;
using Group = QueryGroup<block_query>;

constexpr int tile_rows = 64, k_block = 64, row_bytes = 128, box_bytes = tile_rows * row_bytes;
constexpr int k_blocks = divide_up(static_size::d, k_block);
constexpr int query_block_bytes = block_query * row_bytes, query_bytes = k_blocks * query_block_bytes;
constexpr int loading_warps = scorers + 1, scoring_warps = 4 * scorers;
// setmaxnreg moves registers between whole warpgroups.
constexpr bool moves_registers = scorers > 1;
constexpr int threads = 128 * scorers + (moves_registers ? 128 : 32 * loading_warps);

// What ops/hopper_geometry.cpp works out too: the ring has as many boxes of 8 KB as fit, with every feature on.
constexpr int small_reserve = round_up(scorers * 4 * block_query * 8 + query_buffers * (block_query * 9 + 24) +
                                           scorers * (config::ring * 24 + 8) + 64,
                                       128);
constexpr int block_bytes = round_up(228 * 1024 / config::min_blocks - 1024 - 127, 128);
constexpr int fitting_boxes = (block_bytes - query_buffers * query_bytes - small_reserve) / (scorers * box_bytes);
constexpr int boxes = fitting_boxes < config::ring ? fitting_boxes : config::ring;
constexpr int stage_boxes = k_blocks % 2 == 0 && boxes >= 8 ? 2 : 1;  // k blocks of a stage
constexpr int stages = boxes / stage_boxes, stage_bytes = stage_boxes * box_bytes;
constexpr int tile_stages = k_blocks / stage_boxes;
// Steps of 16 in a stage: past d there are only zeros.
constexpr int stage_steps = tile_stages == 1 ? divide_up(static_size::d, 16) : stage_boxes * 4;

constexpr int parts = feature::save_argmax && block_query == 256 ? 2 : 1, part_columns = block_query / parts;
static_assert(parts == 1 || stages > tile_stages);
using Tile = WarpgroupTile<part_columns>;
using Maxima = RunningMax<Tile, feature::save_argmax>;

struct Small {
  unsigned long long full[scorers][stages], free[scorers][stages];
  unsigned long long query_full[query_buffers], query_ready[query_buffers], query_free[query_buffers];
  double carried[scorers];  // a long query's sum over its chunks so far
  float partial_value[scorers][4][block_query];
  int partial_index[feature::save_argmax ? scorers : 1][4][block_query];
  unsigned keep_rows[scorers][stages][2];  // d_mask and length, a bit per row of the tile that ends in the stage
  RowFactor query_factor[query_buffers][feature::normalize ? block_query : 1];
  unsigned char query_keep[query_buffers][feature::q_mask ? block_query : 8];
};
static_assert(sizeof(Small) <= small_reserve);

constexpr int ring_at = query_buffers * query_bytes, small_at = ring_at + scorers * stages * stage_bytes;
__device__ __forceinline__ unsigned char* shared() {
  extern __shared__ __align__(1024) unsigned char bytes[];
  return bytes;
}
__device__ __forceinline__ Small& small() { return *reinterpret_cast<Small*>(shared() + small_at); }
__device__ __forceinline__ unsigned query_address(int slot) {
  return ptx::shared_address(shared()) + slot * query_bytes;
}
__device__ __forceinline__ unsigned stage_address(int scorer, int slot) {
  return ptx::shared_address(shared()) + ring_at + (scorer * stages + slot) * stage_bytes;
}

// --- the walk --------------------------------------------------------------------------------------------------------

struct Pass {
  unsigned group, first_document;  // scorer s has document first_document + s, if there is one
  int chunk;
};

// Block b takes query groups b % lanes, + lanes, ... and documents from b / lanes, a stride of the grid apart;
// neighbouring blocks share documents in L2. `lanes` is what the launch geometry used. Tensor maps count below 2^31.
struct Walk {
  unsigned groups, lanes, first, step, documents;
  int chunks;

  __device__ __forceinline__ explicit Walk(const Args& args) {
    groups = unsigned(Group::count(args));
    lanes = min(groups, gridDim.x);
    first = blockIdx.x / lanes * scorers;
    step = gridDim.x / lanes * scorers;
    documents = unsigned(args.size_Nd);
    chunks = Group(args, 0).chunks;
  }

  template <class Visit>
  __device__ __forceinline__ void visit(Visit visit) const {
    if (first >= step) return;
#pragma unroll 1
    for (unsigned group = blockIdx.x % lanes; group < groups; group += lanes) {
#pragma unroll 1
      for (unsigned document = first; document < documents; document += step) {
#pragma unroll 1
        for (int chunk = 0; chunk < chunks; ++chunk) visit(Pass{group, document, chunk});
      }
    }
  }

  // A group's next documents, the first ones after the last.
  __device__ __forceinline__ unsigned after(const Pass& pass) const {
    return pass.first_document + step < documents ? pass.first_document + step : first;
  }
  // Whether the pass is the first or the last that uses the columns in shared memory.
  __device__ __forceinline__ bool is_first_use(const Pass& pass) const {
    return chunks > 1 || pass.first_document == first;
  }
  __device__ __forceinline__ bool is_last_use(const Pass& pass) const {
    return chunks > 1 || pass.first_document + step >= documents;
  }
};

// Lengths of one scorer's documents, read a document ahead so that nobody waits for them.
struct Lengths {
  int next, now = 0;

  __device__ __forceinline__ Lengths(const Args& args, unsigned first_document) : next(read(args, first_document)) {}

  // Of the pass's document; 0 where there is none, or no query token to score. `following` is the one after it.
  __device__ __forceinline__ int of(const Args& args, const Pass& pass, unsigned following) {
    if (pass.chunk == 0) {
      now = args.size_Lq == 0 ? 0 : min(max(next, 0), int(args.size_Ld));
      next = read(args, following);
    }
    return now;
  }

 private:
  static __device__ __forceinline__ int read(const Args& args, unsigned document) {
    if (document >= args.size_Nd) return 0;
    const auto* lengths = static_cast<const int*>(args.d_lengths.data);
    return lengths ? lengths[document * args.d_lengths.stride[0]] : int(args.size_Ld);
  }
};

// --- load ------------------------------------------------------------------------------------------------------------

// Squares of row `row` (of 16 from `first`) of a k block: this lane's half of the block's elements, row = lane % 16.
__device__ __forceinline__ float add_half_squares(float sum, unsigned block, int row, int half) {
#pragma unroll
  for (int unit = 0; unit < 4; ++unit)
    sum = add_squares<type>(sum,
                            ptx::load_shared_16(block + row * row_bytes + ((half * 4 + unit) ^ (row & 7)) * 16));
  return sum;
}

// Keeps and factors of the columns in buffer `slot`. One warp, two lanes a column.
__device__ __forceinline__ void prepare_queries(const Args& args, const Group& group, int chunk, int columns, int slot,
                                                int lane) {
#pragma unroll 1
  for (int first = 0; first < columns; first += 16) {
    const int column = first + lane % 16, half = lane / 16;
    const Group::Token token = group.token(args, chunk, column);
    if constexpr (feature::q_mask) {
      const auto* mask = static_cast<const unsigned char*>(args.q_mask.data);
      if (half == 0)
        small().query_keep[slot][column] =
            token.present && mask[token.query * args.q_mask.stride[0] + token.s * args.q_mask.stride[1]] != 0;
    }
    if constexpr (feature::normalize) {
      float squares = 0.0f;
#pragma unroll 1
      for (int k = 0; k < k_blocks; ++k)
        squares = add_half_squares(squares, query_address(slot) + k * query_block_bytes, column, half);
      squares += __shfl_xor_sync(all_lanes, squares, 16);
      RowFactor factor{1.0f, inverse_norm(squares)};
      if (Numeric<type>::squares_overflow && __any_sync(all_lanes, squares == infinity)) {
        const auto* row = static_cast<const Element*>(args.q.data) + token.query * args.q.stride[0] +
                          token.s * args.q.stride[1];
        float scaled = token.present ? scaled_squares<type>(row, args.q.stride[2], int(args.size_d), half, 2) : 0.0f;
        scaled += __shfl_xor_sync(all_lanes, scaled, 16);
        if (squares == infinity) factor = large_norm_factor(scaled);
      }
      if (half == 0) small().query_factor[slot][column] = factor;
    }
  }
}

// One warp: the columns of each pass that needs others than the pass before, a box of 8 tokens x 64 of d a copy.
__device__ __forceinline__ void load_queries(const Args& args, const Walk& walk, int lane) {
  constexpr bool prepares = feature::q_mask || feature::normalize;
  RingPlace<query_buffers> place;
  walk.visit([&](const Pass& pass) {
    if (!walk.is_first_use(pass)) return;
    const Group group(args, pass.group);
    const int left = group.chunks > 1 ? int(args.size_Lq) - pass.chunk * block_query : group.queries * group.padded;
    const int eights = args.size_Lq == 0 ? 0 : divide_up(min(left, block_query), 8);
    const unsigned full = ptx::shared_address(&small().query_full[place.slot]);
    ptx::barrier_wait(ptx::shared_address(&small().query_free[place.slot]), place.parity ^ 1);
    if (lane == 0) ptx::barrier_arrive_expect(full, eights * k_blocks * 8 * row_bytes);
    __syncwarp();
#pragma unroll 1
    for (int index = lane; index < eights * k_blocks; index += 32) {
      const int eight = index / k_blocks, k = index % k_blocks;
      const Group::Token token = group.token(args, pass.chunk, eight * 8);
      ptx::copy_box(query_address(place.slot) + k * query_block_bytes + eight * 8 * row_bytes, args.map_q, k * k_block,
                    token.s, int(token.query), full);
    }
    if constexpr (prepares) {
      ptx::barrier_wait(full, place.parity);
      prepare_queries(args, group, pass.chunk, eights * 8, place.slot, lane);
      __syncwarp();
      if (lane == 0) ptx::barrier_arrive(ptx::shared_address(&small().query_ready[place.slot]));
    }
    place.advance();
  });
}

// One warp: the stages of one scorer's documents. With a mask, a tile's last stage is full when its rows' bits are
// there too; the copies do not wait for them.
__device__ __forceinline__ void load_documents(const Args& args, const Walk& walk, int scorer, int lane) {
  RingPlace<stages> place;
  Lengths lengths(args, walk.first + scorer);
  walk.visit([&](const Pass& pass) {
    const unsigned document = pass.first_document + scorer;
    const int length = lengths.of(args, pass, walk.after(pass) + scorer);
    const auto* mask = static_cast<const unsigned char*>(args.d_mask.data) + document * args.d_mask.stride[0];
#pragma unroll 1
    for (int first_t = 0; first_t < length; first_t += tile_rows) {
#pragma unroll 1
      for (int stage = 0; stage < tile_stages; ++stage) {
        const bool with_mask = feature::d_mask && stage + 1 == tile_stages;
        bool keep[2];
        if (with_mask) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const int t = first_t + i * 32 + lane;
            keep[i] = t < length && mask[t * args.d_mask.stride[1]] != 0;
          }
        }
        const unsigned full = ptx::shared_address(&small().full[scorer][place.slot]);
        ptx::barrier_wait(ptx::shared_address(&small().free[scorer][place.slot]), place.parity ^ 1);
        if (lane == 0) {
          if (with_mask) ptx::barrier_expect(full, stage_bytes);
          else ptx::barrier_arrive_expect(full, stage_bytes);
#pragma unroll
          for (int box = 0; box < stage_boxes; ++box)
            ptx::copy_box(stage_address(scorer, place.slot) + box * box_bytes, args.map_d,
                          (stage * stage_boxes + box) * k_block, first_t, int(document), full);
        }
        if (with_mask) {
          const unsigned low = __ballot_sync(all_lanes, keep[0]), high = __ballot_sync(all_lanes, keep[1]);
          if (lane == 0) {
            small().keep_rows[scorer][place.slot][0] = low;
            small().keep_rows[scorer][place.slot][1] = high;
            ptx::barrier_arrive(full);
          }
        }
        __syncwarp();
        place.advance();
      }
    }
  });
}

// --- score -----------------------------------------------------------------------------------------------------------

// This warp is done with the stage.
__device__ __forceinline__ void release(int scorer, int slot, int lane) {
  __syncwarp();
  if (lane == 0) ptx::barrier_arrive(ptx::shared_address(&small().free[scorer][slot]));
}

// The products of one stage with `part_columns` of the columns.
__device__ __forceinline__ void multiply_stage(Tile& tile, unsigned documents, unsigned queries) {
#pragma unroll
  for (int step = 0; step < stage_steps; ++step)
    ptx::multiply_64<type, part_columns>(
        tile.value, ptx::matrix_descriptor(documents + step / 4 * box_bytes + step % 4 * 32),
        ptx::matrix_descriptor(queries + step / 4 * query_block_bytes + step % 4 * 32));
}

// One part of a tile: all of d. The first part waits for the stages and, to normalize, sums the squares of the warp's
// 16 rows beside the products; the last frees the stages, but for the tile's last one.
__device__ __forceinline__ void multiply_tile(Tile& tile, RingPlace<stages>& place, unsigned queries, int part,
                                              int scorer, int warp, int lane) {
  const bool is_first = part == 0, is_last = part + 1 == parts;
  float squares = 0.0f;
  int previous = 0;
  int count = tile_stages;
  if constexpr (parts > 1) ptx::hold(count);  // a loop, so that no other part's maxima move in between the products
  tile.clear();
  ptx::hold(tile.value);
#pragma unroll 1
  for (int stage = 0; stage < count; ++stage) {
    const unsigned documents = stage_address(scorer, place.slot);
    if (is_first) ptx::barrier_wait(ptx::shared_address(&small().full[scorer][place.slot]), place.parity);
    ptx::products_fence();
    multiply_stage(tile, documents,
                   queries + stage * stage_boxes * query_block_bytes + part * part_columns * row_bytes);
    ptx::products_commit();
    if (feature::normalize && is_first) {
#pragma unroll
      for (int box = 0; box < stage_boxes; ++box)
        squares = add_half_squares(squares, documents + box * box_bytes, warp * 16 + lane % 16, lane / 16);
    }
    if (is_last && stage > 0) {
      ptx::products_wait<1>();
      release(scorer, previous, lane);
    }
    previous = place.slot;
    if (stage + 1 < count) place.advance();
  }
  ptx::products_wait<0>();
  ptx::hold(tile.value);
  if (feature::normalize && is_first) {
    squares += __shfl_xor_sync(all_lanes, squares, 16);
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i) tile.squares[i] = __shfl_sync(all_lanes, squares, Tile::row(i, lane));
  }
}

// Rows of D as they lie in memory.
struct DocumentRow {
  const Element* first;
  long long stride;
  int present;
  __device__ __forceinline__ const Element* operator()(int row) const {
    return row < present ? first + row * stride : nullptr;
  }
};

struct Document {
  unsigned index;
  int length;
};

// A finished tile: factors, then masked and absent rows, then the running max.
__device__ __forceinline__ void finish_tile(const Args& args, const Document& document, int first_t,
                                            const unsigned* keep_words, int warp, int lane, Tile& tile,
                                            Maxima& maxima) {
  const int t = first_t + warp * 16;
  if constexpr (feature::normalize) {
    const DocumentRow rows{static_cast<const Element*>(args.d.data) + document.index * args.d.stride[0] +
                               t * args.d.stride[1],
                           args.d.stride[1], document.length - t};
    normalize_rows<type>(tile, 16, rows, args.d.stride[2], int(args.size_d), lane);
  }
  KeepRows<16> keep;
  if constexpr (feature::d_mask) keep.read(keep_words, warp * 16);
  else keep.set_first(document.length - t);
  if (!keep.every()) keep.apply(tile, lane);
  maxima.update(tile, t, lane);
}

// The tiles of one document. Its first active token, -1: none.
__device__ __forceinline__ int score_document(const Args& args, const Document& document, RingPlace<stages>& place,
                                              unsigned queries, int scorer, int warp, int lane,
                                              Maxima (&maxima)[parts]) {
  int first_active = -1;
#pragma unroll
  for (int part = 0; part < parts; ++part) maxima[part].reset();
#pragma unroll 1
  for (int first_t = 0; first_t < document.length; first_t += tile_rows) {
    Tile tile;
    const RingPlace<stages> start = place;
#pragma unroll
    for (int part = 0; part < parts; ++part) {
      place = start;
      multiply_tile(tile, place, queries, part, scorer, warp, lane);
      const unsigned* words = small().keep_rows[scorer][place.slot];
      if (part == 0) {
        if (!feature::d_mask) first_active = 0;
        else if (first_active < 0 && words[0] != 0) first_active = first_t + __ffs(words[0]) - 1;
        else if (first_active < 0 && words[1] != 0) first_active = first_t + 31 + __ffs(words[1]);
      }
      // Without a use for the stage after its products, it is free before they are looked at.
      constexpr bool keeps_stage = feature::d_mask;
      if (!keeps_stage && part + 1 == parts) release(scorer, place.slot, lane);
      finish_tile(args, document, first_t, words, warp, lane, tile, maxima[part]);
      if (keeps_stage && part + 1 == parts) release(scorer, place.slot, lane);
    }
    place.advance();
  }
  return first_active;
}

// --- reduce and store ------------------------------------------------------------------------------------------------

// The query token's value with its factor.
__device__ __forceinline__ float factored(int column, Best<feature::save_argmax>& best, int first_active, int slot) {
  if constexpr (!feature::normalize) return best.value;
  const RowFactor factor = small().query_factor[slot][column];
  // An infinite query element: every product is NaN, the first active token's too.
  if (factor.factor != factor.factor) best.index = first_active;
  return factor.apply(best.value);
}

__device__ __forceinline__ Best<feature::save_argmax> best_of(int scorer, int column) {
  const auto partial = [scorer, column](int w) -> Best<feature::save_argmax> {
    return {small().partial_value[scorer][w][column],
            feature::save_argmax ? small().partial_index[scorer][w][column] : -1};
  };
  Best<feature::save_argmax> best = partial(0);
#pragma unroll
  for (int w = 1; w < 4; ++w) best.merge(partial(w));
  return best;
}

// The end of a pass: maxima over lanes, then over the scorer's warps, then sums.
__device__ __forceinline__ void finish_pass(const Args& args, const Pass& pass, unsigned document, int first_active,
                                            int slot, int scorer, int warp, int lane, Maxima (&maxima)[parts]) {
  ptx::named_barrier(1 + scorer, 128);  // the pass before has been read
#pragma unroll
  for (int part = 0; part < parts; ++part)
    maxima[part].reduce(lane, [&](int column, Best<feature::save_argmax> best) {
      small().partial_value[scorer][warp][part * part_columns + column] = best.value;
      if constexpr (feature::save_argmax)
        small().partial_index[scorer][warp][part * part_columns + column] = best.index;
    });
  ptx::named_barrier(1 + scorer, 128);
  const Group group(args, pass.group);
#pragma unroll 1
  for (int query = warp; query < group.queries; query += 4) {
    const double total = sum_tokens(
        args, group, document, pass.chunk, query, first_active, lane, pass.chunk == 0 ? 0.0 : small().carried[scorer],
        [scorer](int column) { return best_of(scorer, column); },
        [=](int column, Best<feature::save_argmax>& best) { return factored(column, best, first_active, slot); },
        [slot](int column) { return small().query_keep[slot][column] != 0; });
    if (pass.chunk + 1 < group.chunks) small().carried[scorer] = total;  // by all lanes of the one warp that reads it
    else if (lane == 0)
      static_cast<float*>(args.scores.data)[(group.first_query + query) * args.scores.stride[0] +
                                            document * args.scores.stride[1]] = float(total);
  }
}

// One warpgroup.
__device__ __forceinline__ void score(const Args& args, const Walk& walk, int scorer, int warp, int lane) {
  RingPlace<stages> place;
  RingPlace<query_buffers> queries;
  Lengths lengths(args, walk.first + scorer);
  walk.visit([&](const Pass& pass) {
    const Document document{pass.first_document + scorer, lengths.of(args, pass, walk.after(pass) + scorer)};
    const bool is_first_use = walk.is_first_use(pass);
    if (is_first_use) ptx::barrier_wait(ptx::shared_address(&small().query_full[queries.slot]), queries.parity);
    if (document.index < args.size_Nd) {
      Maxima maxima[parts];
      const int first_active =
          score_document(args, document, place, query_address(queries.slot), scorer, warp, lane, maxima);
      if ((feature::q_mask || feature::normalize) && is_first_use)
        ptx::barrier_wait(ptx::shared_address(&small().query_ready[queries.slot]), queries.parity);
      finish_pass(args, pass, document.index, first_active, queries.slot, scorer, warp, lane, maxima);
    }
    if (walk.is_last_use(pass)) {
      __syncwarp();
      if (lane == 0) ptx::barrier_arrive(ptx::shared_address(&small().query_free[queries.slot]));
      queries.advance();
    }
  });
}

// --- the block -------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void init_barriers() {
  const auto init = [](unsigned long long& barrier, int arrivals) {
    ptx::barrier_init(ptx::shared_address(&barrier), arrivals);
  };
  for (int scorer = 0; scorer < scorers; ++scorer)
    for (int stage = 0; stage < stages; ++stage) {
      init(small().full[scorer][stage], 1);
      init(small().free[scorer][stage], 4);  // the scorer's warps
    }
  for (int slot = 0; slot < query_buffers; ++slot) {
    init(small().query_full[slot], 1);
    init(small().query_ready[slot], 1);
    init(small().query_free[slot], scoring_warps);
  }
  ptx::barrier_init_done();
}

}  // namespace msj

extern "C" __global__ void __launch_bounds__(msj::threads, msj::config::min_blocks)
    dense_forward(const __grid_constant__ msj::Args args) {
  using namespace msj;
  const int lane = threadIdx.x % 32, warp = __shfl_sync(all_lanes, threadIdx.x / 32, 0);  // known to be uniform
  if (threadIdx.x == 0) {
    ptx::prefetch_map(args.map_d);
    ptx::prefetch_map(args.map_q);
    init_barriers();
  }
  __syncthreads();
  const Walk walk(args);
  if (warp >= scoring_warps) {
    if constexpr (moves_registers) ptx::give_registers<56>();
    if (warp == scoring_warps) load_queries(args, walk, lane);
    else if (warp < scoring_warps + loading_warps) load_documents(args, walk, warp - scoring_warps - 1, lane);
  } else {
    if constexpr (moves_registers) ptx::take_registers<224>();
    score(args, walk, warp / 4, warp % 4, lane);
  }
}
