#pragma once
// The block of the hopper forward ops (sm_90a): wgmma fed by bulk tensor copies. Documents stream once, at the memory's
// rate or the tensor cores'.
//
//        warps of one block                                 shared memory
//   load queries    1 warp      tensor copies, extras --->  Q: all of d of the block's columns, 1 or 2 buffers
//   load documents  warps of each scorer --------------->  a ring per scorer: stages of 64 tokens x 128 or 256 bytes
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
// masked, its further tiles are never loaded. If the columns' state does not fit the registers, a tile is scored in
// parts, each of some of the columns, from the same stages.
//
// Bits: max is exact, the sum over s is common/token_sum.cuh's; what an op does to a product depends on its row and
// column alone. So none depends on the config, the batch or a token's place.
//
// An op says in a class what its rows are; one whose rows are D's as they lie in memory is a TensorRows:
//   element_bytes, parts                         bytes of an element; parts that a tile is scored in
//   QueryExtras, query_extra_bytes               what it keeps in shared memory for columns; at most, of each
//   RowExtras, row_extra_bytes                   and for the rows of a tile
//   Shared, shared_bytes, fill(args, shared, thread)                    and for all of a block
//   prepares                                     whether columns need more than their copies:
//   prepare_column(args, token, column, half, slot, lane)               16 columns at a time, two lanes each
//   Span, Span::read(args, document)             where a document's tokens are: at least their number, `length`
//   loaders, arrivals                            warps that fill a scorer's ring; their arrivals at a full stage
//   prefetch_maps(args), load_documents(args, walk, scorer, loader, lane)
//   Op(args), for each scorer:
//   score_document(args, document, place, queries, scorer, warp, lane, maxima)   its tiles; its first active token
//   factored(column, best, first_active, slot)   a query token's value

namespace msj {

constexpr int scorers = config::scorers;

// --- the block -------------------------------------------------------------------------------------------------------

template <class Op>
struct HopperForward {
  static constexpr int loading_warps = 1 + scorers * Op::loaders, scoring_warps = 4 * scorers;
  // setmaxnreg moves registers between whole warpgroups. A block has what it was launched with, 168 a thread of 384, 128
  // of 512: what loading warps keep and scoring warps take must be no more in all.
  static constexpr bool moves_registers = scorers > 1;
  static constexpr int loading_threads = moves_registers ? round_up(32 * loading_warps, 128) : 32 * loading_warps;
  static constexpr int threads = 128 * scorers + loading_threads;
  static constexpr int loading_registers = loading_threads > 128 ? 64 : 56;
  static constexpr int scoring_registers = loading_threads > 128 ? 192 : 224;
  static_assert(!moves_registers || loading_threads * loading_registers + 128 * scorers * scoring_registers <=
                                        threads * (65536 / threads / 8 * 8));

  static constexpr int k_block = row_bytes / Op::element_bytes, k_step = step_bytes / Op::element_bytes;
  static constexpr int k_blocks = divide_up(static_size::d, k_block), query_bytes = k_blocks * query_block_bytes;

  // What ops/hopper_geometry.cpp works out too: the ring has as many boxes of 8 KB as fit, with every feature on.
  static constexpr int small_reserve =
      round_up(scorers * 4 * block_query * 8 + query_buffers * (block_query * (1 + Op::query_extra_bytes) + 24) +
                   scorers * (config::ring * (24 + tile_rows * Op::row_extra_bytes) + 8) + Op::shared_bytes + 64,
               128);
  static constexpr int block_bytes = round_up(228 * 1024 / config::min_blocks - 1024 - 127, 128);
  static constexpr int fitting_boxes =
      (block_bytes - query_buffers * query_bytes - small_reserve) / (scorers * box_bytes);
  static constexpr int boxes = fitting_boxes < config::ring ? fitting_boxes : config::ring;
  static constexpr int stage_boxes = k_blocks % 2 == 0 && boxes >= 8 ? 2 : 1;  // k blocks of a stage
  static constexpr int stages = boxes / stage_boxes, stage_bytes = stage_boxes * box_bytes;
  static constexpr int tile_stages = k_blocks / stage_boxes;
  // Steps of 32 bytes in a stage: past d there are only zeros.
  static constexpr int stage_steps = tile_stages == 1 ? divide_up(static_size::d, k_step) : stage_boxes * 4;

  static constexpr int parts = Op::parts, part_columns = block_query / parts;
  static_assert(parts == 1 || stages > tile_stages);
  using Walk = msj::Walk<scorers>;  // scorer s has document first_document + s, if there is one
  using Tile = WarpgroupTile<part_columns>;
  using Maxima = RowMax<Tile, feature::save_argmax>;
  using Place = RingPlace<stages>;

  struct Small {
    unsigned long long full[scorers][stages], free[scorers][stages];
    unsigned long long query_full[query_buffers], query_ready[query_buffers], query_free[query_buffers];
    double carried[scorers];  // a long query's sum over its chunks so far
    float partial_value[scorers][4][block_query];
    int partial_index[feature::save_argmax ? scorers : 1][4][block_query];
    unsigned keep_rows[scorers][stages][2];  // d_mask and length, a bit per row of the tile that ends in the stage
    typename Op::QueryExtras query_extras[query_buffers];
    typename Op::RowExtras row_extras[scorers][stages];  // of that tile too
    unsigned char query_keep[query_buffers][feature::q_mask ? block_query : 8];
    typename Op::Shared shared;
  };
  static_assert(sizeof(Small) <= small_reserve);

  static constexpr int ring_at = query_buffers * query_bytes, small_at = ring_at + scorers * stages * stage_bytes;
  static __device__ __forceinline__ unsigned char* shared() {
    extern __shared__ __align__(1024) unsigned char bytes[];
    return bytes;
  }
  static __device__ __forceinline__ Small& small() { return *reinterpret_cast<Small*>(shared() + small_at); }
  static __device__ __forceinline__ unsigned query_address(int slot) {
    return ptx::shared_address(shared()) + slot * query_bytes;
  }
  static __device__ __forceinline__ unsigned stage_address(int scorer, int slot) {
    return ptx::shared_address(shared()) + ring_at + (scorer * stages + slot) * stage_bytes;
  }

  // --- load ----------------------------------------------------------------------------------------------------------

  // One warp: the columns of each pass that needs others than the pass before.
  static __device__ __forceinline__ void load_queries(const Args& args, const Walk& walk, int lane) {
    RingPlace<query_buffers> place;
    walk.visit([&](const Pass& pass) {
      if (!walk.is_first_use(pass)) return;
      const Columns columns(args, pass.group, pass.chunk);
      const unsigned full = ptx::shared_address(&small().query_full[place.slot]);
      ptx::barrier_wait(ptx::shared_address(&small().query_free[place.slot]), place.parity ^ 1);
      columns.copy(args, place.slot, full, lane);
      if constexpr (prepares) {
        ptx::barrier_wait(full, place.parity);
        columns.prepare(args, place.slot, lane);
        ptx::barrier_arrive_warp(ptx::shared_address(&small().query_ready[place.slot]), lane);
      }
      place.advance();
    });
  }
  using Columns = QueryColumns<HopperForward, Op>;
  static constexpr bool prepares = Columns::prepares;

  static __device__ __forceinline__ unsigned full_barrier(int scorer, int slot) {
    return ptx::shared_address(&small().full[scorer][slot]);
  }
  static __device__ __forceinline__ void wait_free(int scorer, const Place& place) {
    ptx::barrier_wait(ptx::shared_address(&small().free[scorer][place.slot]), place.parity ^ 1);
  }

  // --- score ---------------------------------------------------------------------------------------------------------

  static __device__ __forceinline__ void wait_full(int scorer, const Place& place) {
    ptx::barrier_wait(full_barrier(scorer, place.slot), place.parity);
  }

  // This warp is done with the stage.
  static __device__ __forceinline__ void release(int scorer, int slot, int lane) {
    ptx::barrier_arrive_warp(ptx::shared_address(&small().free[scorer][slot]), lane);
  }

  // The first active token of a document that had `first_active` before the tile at first_t.
  static __device__ __forceinline__ int first_active_after(int first_active, int first_t, const unsigned* words) {
    if (!feature::d_mask) return 0;
    if (first_active < 0 && words[0] != 0) return first_t + __ffs(words[0]) - 1;
    if (first_active < 0 && words[1] != 0) return first_t + 31 + __ffs(words[1]);
    return first_active;
  }

  // Rows of the warp's 16 that are active tokens.
  static __device__ __forceinline__ KeepRows<16> keep_of(const unsigned* words, int warp, int present) {
    KeepRows<16> keep;
    if constexpr (feature::d_mask) keep.read(words, warp * 16);
    else keep.set_first(present);
    return keep;
  }

  // --- reduce and store ----------------------------------------------------------------------------------------------

  static __device__ __forceinline__ Best<feature::save_argmax> best_of(int scorer, int column) {
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
  static __device__ __forceinline__ void finish_pass(const Args& args, const Op& op, const Pass& pass,
                                                     unsigned document, int first_active, int slot, int scorer,
                                                     int warp, int lane, Maxima (&maxima)[parts]) {
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
          [&](int column, Best<feature::save_argmax>& best) { return op.factored(column, best, first_active, slot); },
          [slot](int column) { return small().query_keep[slot][column] != 0; });
      __syncwarp();  // all lanes have read what was carried
      if (lane != 0) continue;
      if (pass.chunk + 1 < group.chunks) small().carried[scorer] = total;
      else
        static_cast<float*>(args.scores.data)[(group.first_query + query) * args.scores.stride[0] +
                                              document * args.scores.stride[1]] = float(total);
    }
  }

  // One warpgroup.
  static __device__ __forceinline__ void score(const Args& args, const Walk& walk, int scorer, int warp, int lane) {
    const Op op(args);
    Place place;
    RingPlace<query_buffers> queries;
    Spans<typename Op::Span> spans(args, walk.first + scorer);
    walk.visit([&](const Pass& pass) {
      const Document document{pass.first_document + scorer, spans.of(args, pass, walk.after(pass) + scorer).length};
      const bool is_first_use = walk.is_first_use(pass);
      if (is_first_use) ptx::barrier_wait(ptx::shared_address(&small().query_full[queries.slot]), queries.parity);
      if (document.index < args.size_Nd) {
        Maxima maxima[parts];
#pragma unroll
        for (int part = 0; part < parts; ++part) maxima[part].reset();
        const int first_active = op.score_document(args, document, place, query_address(queries.slot), scorer, warp,
                                                   lane, maxima);
        if (prepares && is_first_use)
          ptx::barrier_wait(ptx::shared_address(&small().query_ready[queries.slot]), queries.parity);
        int own = lane;
        ptx::hold(own);  // or what follows from it is worked out before the walk, and spilled
        finish_pass(args, op, pass, document.index, first_active, queries.slot, scorer, warp, own, maxima);
      }
      if (walk.is_last_use(pass)) {
        ptx::barrier_arrive_warp(ptx::shared_address(&small().query_free[queries.slot]), lane);
        queries.advance();
      }
    });
  }

  // --- the block -----------------------------------------------------------------------------------------------------

  static __device__ __forceinline__ void init_barriers() {
    const auto init = [](unsigned long long& barrier, int arrivals) {
      ptx::barrier_init(ptx::shared_address(&barrier), arrivals);
    };
    for (int scorer = 0; scorer < scorers; ++scorer)
      for (int stage = 0; stage < stages; ++stage) {
        init(small().full[scorer][stage], Op::arrivals);
        init(small().free[scorer][stage], 4 * ptx::arriving_lanes);  // the scorer's warps
      }
    for (int slot = 0; slot < query_buffers; ++slot) {
      init(small().query_full[slot], 1);
      init(small().query_ready[slot], ptx::arriving_lanes);
      init(small().query_free[slot], scoring_warps * ptx::arriving_lanes);
    }
    ptx::barrier_init_done();
  }

  static __device__ __forceinline__ void run(const Args& args) {
    const int lane = threadIdx.x % 32, warp = __shfl_sync(all_lanes, threadIdx.x / 32, 0);  // known to be uniform
    if (threadIdx.x == 0) {
      ptx::prefetch_map(args.map_q);
      Op::prefetch_maps(args);
      init_barriers();
    }
    Op::fill(args, small().shared, threadIdx.x);
    __syncthreads();
    const Walk walk(args);
    if (warp >= scoring_warps) {
      if constexpr (moves_registers) ptx::give_registers<loading_registers>();
      const int loader = warp - scoring_warps - 1;  // -1: of the queries
      if (loader < 0) load_queries(args, walk, lane);
      else if (loader < scorers * Op::loaders)
        Op::load_documents(args, walk, loader / Op::loaders, loader % Op::loaders, lane);
    } else {
      if constexpr (moves_registers) ptx::take_registers<scoring_registers>();
      score(args, walk, warp / 4, warp % 4, lane);
    }
  }
};

}  // namespace msj
