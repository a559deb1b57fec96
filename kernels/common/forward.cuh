#pragma once
// The block of the forward ops: holds the tokens of one or more whole queries, padded to 8 tokens each, and streams
// documents past them. A query longer than block_query goes in chunks, the document streaming once per chunk (from L2).
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
//
// An op says in a class what its rows are (all static):
//   Tile, k_extent, doc_pitch, query_pitch       the tile product, and bytes of rows in shared memory
//   QueryExtras                                  what it keeps in shared memory for each column
//   RowExtras<stages>                            and for each document row of each stage
//   load_documents(args, at, stage)              one ring step's rows
//   load_queries<width>(args, group, chunk, k_begin, tile)
//   multiply(tile, rows, columns, lane)          a k block
//   prepare_queries(args, group, at, last, block, warp, lane, extras)   beside a chunk's first tile, for each k block
//   RowLoads: load(args, at, stage), store(extras)                      per-row values, a step before they are used
//   finish_rows(args, at, slot, first_row, lane, tile, extras)          a finished tile's factors
//   factored(column, best, first_active, extras)                        a query token's value
//
// Rows that lie somewhere else, by a number each, and are decoded before they are multiplied: in place of load_documents
//   ring_pitch, Tables                                  bytes of such a row in the ring, and what decoding looks up
//   RowCodes: load(args, at), store(codes)              the numbers of a step's rows, a step before their copies start
//   load_coded(args, at, codes, stage, slot, extras)
//   decode(args, at, stage, rows, tables)               all rows, between two barriers

namespace msj {

constexpr int block_doc = config::block_doc, block_query = config::block_query, stages = config::stages;
constexpr int warps = config::warps_doc * config::warps_query, threads = 32 * warps;
constexpr int warp_rows = block_doc / config::warps_doc, warp_columns = block_query / config::warps_query;
static_assert(block_query % 32 == 0 && stages >= 2);
constexpr bool resident = config::query_resident != 0;
using Group = QueryGroup<block_query>;

// k in equal blocks of at most block_k, multiples of `unit`; `single_unit`: of what one block alone is a multiple.
__host__ __device__ constexpr int k_extent_of(int unit, int single_unit) {
  const int blocks = divide_up(static_size::d, config::block_k);
  return blocks == 1 ? round_up(static_size::d, single_unit) : round_up(divide_up(static_size::d, blocks), unit);
}
__host__ __device__ constexpr int query_width_of(int k_extent) {
  return resident ? divide_up(static_size::d, k_extent) * k_extent : k_extent;
}

template <class Op, class = void>
struct RowKind {
  static constexpr bool coded = false;
  static constexpr int ring_pitch = Op::doc_pitch;
  struct RowCodes {};
  struct Small {};
};
template <class Op>
struct RowKind<Op, Void<typename Op::RowCodes>> {
  static constexpr bool coded = true;
  static constexpr int ring_pitch = Op::ring_pitch;
  using RowCodes = typename Op::RowCodes;
  struct Small {
    typename Op::Tables tables;
    int codes[2][block_doc];
  };
};

template <class Op>
struct Forward {
  using Tile = typename Op::Tile;
  using Maxima = RunningMax<Tile, feature::save_argmax>;
  static constexpr int k_extent = Op::k_extent;
  using Kind = RowKind<Op>;
  static constexpr bool coded = Kind::coded;
  static constexpr int query_bytes = block_query * Op::query_pitch, doc_bytes = block_doc * Kind::ring_pitch;

  // Shared memory: resident queries | ring | decoded rows | the roles' small arrays.
  struct Small : Kind::Small {
    float partial_value[config::warps_doc][block_query];
    int partial_index[feature::save_argmax ? config::warps_doc : 1][block_query];
    unsigned keep_rows[stages][divide_up(block_doc, 32)];  // d_mask and length, a bit per row of the stage's tile
    typename Op::QueryExtras query_extras;
    typename Op::RowExtras row_extras;
    unsigned char query_keep[feature::q_mask ? block_query : 16];
  };
  static constexpr int stage_bytes = doc_bytes + (resident ? 0 : query_bytes);
  static constexpr int ring_at = resident ? config::query_buffers * query_bytes : 0;
  static constexpr int decoded_at = ring_at + stages * stage_bytes;
  static constexpr int small_at = decoded_at + (coded ? block_doc * Op::doc_pitch : 0);
  static __device__ __forceinline__ unsigned char* shared() {
    extern __shared__ __align__(16) unsigned char bytes[];
    return bytes;
  }
  static __device__ __forceinline__ Small& small() { return *reinterpret_cast<Small*>(shared() + small_at); }

  // The document mask of one tile, a row per thread: read with the tile's last k block, held in registers over a step
  // so that nobody waits for it, then packed into the stage's words.
  struct MaskRows {
    static constexpr int rounds = divide_up(block_doc, threads);
    bool keep[rounds];
    int slot = -1;

    template <class A>  // of an op that has a d_mask
    __device__ __forceinline__ void load(const A& args, const Cursor& at, int stage) {
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

  // --- load ----------------------------------------------------------------------------------------------------------

  // All of d of a chunk's queries, into resident buffer `buffer`.
  static __device__ __forceinline__ void load_resident(const Args& args, const Group& group, int chunk, int buffer) {
    Op::template load_queries<query_width_of(k_extent)>(args, group, chunk, 0,
                                                        ptx::shared_address(shared()) + buffer * query_bytes);
  }

  // One ring step: a document tile's k block and, if queries are not resident, theirs.
  static __device__ __forceinline__ void load_step(const Args& args, const Group& group, const Cursor& at, int slot,
                                                   int parity) {
    const unsigned stage = ptx::shared_address(shared()) + ring_at + slot * stage_bytes;
    if constexpr (coded) Op::load_coded(args, at, small().codes[parity], stage, slot, small().row_extras);
    else Op::load_documents(args, at, stage);
    if constexpr (!resident)
      Op::template load_queries<k_extent>(args, group, at.chunk, at.k_block * k_extent, stage + doc_bytes);
  }

  // Which chunk of resident queries to bring in before step `step`, -1: none. The first comes with the first copies.
  // After that, queries longer than a chunk: at a chunk's first step its own tokens (one buffer), or the next chunk's
  // into the other buffer (two), which nobody reads any more after the step's barrier.
  static __device__ __forceinline__ int chunk_to_load(const Group& group, const Walk& walk, const Cursor& at,
                                                      int step) {
    if (!resident) return -1;
    if (step == 1 - stages) return 0;
    if (step < 0 || group.chunks == 1 || !at.first_of_chunk()) return -1;
    if (config::query_buffers == 1) return step == 0 ? -1 : at.chunk;
    if (at.chunk + 1 < group.chunks) return at.chunk + 1;
    return at.document + walk.document_step < walk.documents ? 0 : -1;
  }

  // --- score ---------------------------------------------------------------------------------------------------------

  static __device__ __forceinline__ void load_query_mask(const Args& args, const Group& group, int chunk, int warp,
                                                         int lane) {
#pragma unroll 1
    for (int first = warp * 32; first < block_query; first += threads) {
      const Group::Token token = group.token(args, chunk, first + lane);
      const auto* mask = static_cast<const unsigned char*>(args.q_mask.data);
      small().query_keep[first + lane] =
          token.present && mask[token.query * args.q_mask.stride[0] + token.s * args.q_mask.stride[1]] != 0;
    }
  }

  // A finished tile: document factors, then masked and absent rows, then the running max.
  static __device__ __forceinline__ void finish_tile(const Args& args, const Cursor& at, int slot, int first_row,
                                                     int lane, Tile& tile, Maxima& maxima, int& first_active) {
    Op::finish_rows(args, at, slot, first_row, lane, tile, small().row_extras);
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

  // --- reduce and store ----------------------------------------------------------------------------------------------

  static __device__ __forceinline__ Best<feature::save_argmax> best_of(int column) {
    const auto partial = [column](int w) -> Best<feature::save_argmax> {
      return {small().partial_value[w][column], feature::save_argmax ? small().partial_index[w][column] : -1};
    };
    Best<feature::save_argmax> best = partial(0);
#pragma unroll
    for (int w = 1; w < config::warps_doc; ++w) best.merge(partial(w));
    return best;
  }

  // The end of a (document, chunk): maxima over lanes, then over warps, then sums. Not more than one barrier, because
  // the next write of the partial maxima comes after the next ring step's.
  static __device__ __forceinline__ void finish_chunk(const Args& args, const Group& group, const Cursor& at, int warp,
                                                      int lane, Maxima& maxima, int first_active, double& carried) {
    const int warp_doc = warp / config::warps_query, first_column = warp % config::warps_query * warp_columns;
    maxima.reduce(lane, [&](int column, Best<feature::save_argmax> best) {
      small().partial_value[warp_doc][first_column + column] = best.value;
      if constexpr (feature::save_argmax) small().partial_index[warp_doc][first_column + column] = best.index;
    });
    __syncthreads();
    for (int query = warp; query < group.queries; query += warps) {
      const double total = sum_tokens(
          args, group, at.document, at.chunk, query, first_active, lane, at.chunk == 0 ? 0.0 : carried,
          [](int column) { return best_of(column); },
          [&](int column, Best<feature::save_argmax>& best) {
            return Op::factored(column, best, first_active, small().query_extras);
          },
          [](int column) { return small().query_keep[column] != 0; });
      carried = total;
      if (at.chunk + 1 == group.chunks && lane == 0)
        static_cast<float*>(args.scores.data)[(group.first_query + query) * args.scores.stride[0] +
                                              at.document * args.scores.stride[1]] = float(total);
    }
  }

  // --- the block -----------------------------------------------------------------------------------------------------

  // Steps below 0 only fill the ring.
  static __device__ __forceinline__ void score_group(const Args& args, const Group& group, const Walk& walk,
                                                     long long first_document) {
    const int lane = threadIdx.x % 32, warp = __shfl_sync(all_lanes, threadIdx.x / 32, 0);  // known to be uniform
    const int first_row = warp / config::warps_query * warp_rows;
    const int first_column = warp % config::warps_query * warp_columns;
    const unsigned base = ptx::shared_address(shared());
    Tile tile;
    Maxima maxima;
    MaskRows mask_rows;
    typename Op::RowLoads row_loads;
    double carried = 0.0;
    int first_active = -1, buffer = 0, slot = 0, since_chunk = stages;
    bool first_chunk = true;
    Cursor loads, at;
    loads.start(walk, first_document);
    at = loads;
    Cursor finds = loads;  // whose rows' numbers are on their way
    typename Kind::RowCodes row_codes;
    int parity = 0;
    if constexpr (coded) {
      row_codes.load(args, finds);
      row_codes.store(small().codes[0]);
    }

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
      } else if constexpr (coded) {
        __syncthreads();
      }
      if constexpr (coded) {
        finds.advance(walk);
        row_codes.load(args, finds);
      }
      const int chunk = chunk_to_load(group, walk, at, step);
      if (chunk >= 0) {
        load_resident(args, group, chunk, step <= 0 || config::query_buffers == 1 ? (step == 0) : buffer ^ 1);
        if (step > 0 && config::query_buffers == 1) {
          ptx::commit_copies();
          ptx::wait_copies<0>();
          __syncthreads();
        }
      }
      const int free_slot = step < 0 ? step + stages - 1 : slot == 0 ? stages - 1 : slot - 1;
      if (!loads.done(walk)) {
        load_step(args, group, loads, free_slot, parity);
        if (loads.last_of_tile(walk)) {
          if constexpr (feature::d_mask) mask_rows.load(args, loads, free_slot);
          row_loads.load(args, loads, free_slot);
        }
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
        unsigned rows = stage;
        if constexpr (coded) {
          rows = base + decoded_at;
          Op::decode(args, at, stage, rows, small().tables);
          __syncthreads();
        }
        const unsigned queries =
            resident ? base + buffer * query_bytes + at.k_block * Op::query_k_block_bytes : stage + doc_bytes;
        if (at.tile == 0 && (first_chunk || group.chunks > 1)) {
          if (feature::q_mask && at.k_block == 0) load_query_mask(args, group, at.chunk, warp, lane);
          Op::prepare_queries(args, group, at, at.last_of_tile(walk), queries, warp, lane, small().query_extras);
        }
        if (at.k_block == 0) tile.clear();
        Op::multiply(tile, rows + first_row * Op::doc_pitch, queries + first_column * Op::query_pitch, lane);
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
      row_loads.store(small().row_extras);
      if constexpr (coded) row_codes.store(small().codes[parity ^= 1]);
    }
    ptx::wait_copies<0>();
    __syncthreads();
  }

  // Block b takes query groups b % lanes, + lanes, ... and documents b / lanes, + gridDim.x / lanes, ...; neighbouring
  // blocks share a document in L2. `lanes` is what the launch geometry used.
  static __device__ __forceinline__ void run(const Args& args) {
    const long long groups = Group::count(args);
    const unsigned lanes = unsigned(groups < gridDim.x ? groups : gridDim.x);
    if constexpr (coded) small().tables.fill(args, threads);  // seen after a step's first barrier
    Walk walk;
    walk.set_documents(args);
    walk.document_step = gridDim.x / lanes;
    walk.tile_rows = block_doc;
    walk.k_blocks = max(divide_up(int(args.size_d), k_extent), 1);
#pragma unroll 1
    for (long long group = blockIdx.x % lanes; group < groups; group += lanes) {
      const Group queries(args, group);
      walk.chunks = queries.chunks;
      if (blockIdx.x / lanes < walk.document_step) score_group(args, queries, walk, blockIdx.x / lanes);
    }
  }
};

// Rows without factors.
struct NoRowLoads {
  __device__ __forceinline__ void load(const Args&, const Cursor&, int) {}
  template <class Extras>
  __device__ __forceinline__ void store(Extras&) {}
};
struct NoExtras {};

}  // namespace msj
