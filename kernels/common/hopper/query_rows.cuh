#pragma once
// The block of the hopper forward ops for many query tokens (sm_90a): queries on M, documents on N. forward.cuh's block,
// documents on M, keeps a running max for every column in registers; here a thread keeps two, so that four scorers fit a
// multiprocessor, and the argmax costs a search in those tiles alone that raise a max.
//
//        warps of one block                                  shared memory
//   load documents  1 warp      tensor copies, mask bits -->  a ring: stages of 64 tokens x 128 or 256 bytes
//   make rows       2 warps     what an op wants of rows -->  beside the stage
//   score           2 or 4 warpgroups, 64 query tokens  <---  wgmma reads documents (B), and queries (A) that do not fit
//                   each                                      the registers
//                   |   accumulators 64 query tokens (M) x 64 document tokens (N) -> factor, mask -> running max
//                   |   per document: over 4 lanes -------->  maxima of the block's query tokens, 2 buffers
//   queries, sums   1 warp      tensor copies, extras ----->  Q: all of d of the block's query tokens, 1 or 2 buffers
//                               maxima -> query factor, mask -> sum over s -> scores, argmax
//
// Which query tokens and documents, in which order, is passes.cuh's: all warpgroups have the same document. Bits: as in
// forward.cuh.
//
// An op says in a class, most of it a TensorRows:
//   element_bytes, resident_steps                bytes of an element; k steps (32 bytes) of A that stay in registers
//   QueryExtras, query_extra_bytes, prepares, prepare_column(...)       as in forward.cuh
//   RowExtras, row_extra_bytes                   what it keeps in shared memory for the rows of a tile
//   makes_rows                                   whether two warps fill them, from each stage of a tile:
//   RowMaker, add(documents, maker, lane), store(args, document, first_t, extras, maker, lane)
//   reads_extras                                 whether `scale` reads them
//   Op(args), for each scorer:
//   multiply_tile(tile, queries, place, lane)    a tile's products
//   scale(tile, extras, lane)                    and the factors of its document tokens
//   factored(column, best, first_active, slot)   a query token's value

namespace msj {

// Masked and absent document tokens are -inf, whatever their values are, NaN too. low, high: a bit for each column;
// lowest: the address of a -inf, as sums of what the compiler knows become selects, and so do equal sums.
template <class Tile>
__device__ __forceinline__ void mask_columns(Tile& tile, unsigned low, unsigned high, unsigned lowest, int lane) {
  unsigned words[2] = {low >> lane % 4 * 2, high >> lane % 4 * 2};  // from the lane's first column on
  ptx::hold(words);  // else the compiler keeps a bit of its own for each column
  const float value = __uint_as_float(ptx::load_shared_4(lowest));
#pragma unroll
  for (int j = 0; j < Tile::columns; ++j)
    asm("{ .reg .pred kept; setp.ne.u32 kept, %2, 0;\n"
        "@!kept add.f32 %0, %3, %4;\n"
        "@!kept sub.f32 %1, %3, %4; }"
        : "+f"(tile.at(0, j)), "+f"(tile.at(1, j))
        : "r"(words[j / 8] & 1u << (j / 2 % 4 * 8 + j % 2)), "f"(value), "f"(1.0f + j));
}

// A thread's two query tokens: the running max over its document tokens, and the lowest that has it.
//
// Comparisons, selects and bits share a pipe of half the rate of multiply-add: it would be busier than the tensor cores.
// Predicated sums move values instead, and the index is found among pairs first.
template <class Tile, bool with_index>
struct QueryMax {
  static constexpr int pairs = Tile::columns / 2;

  Best<with_index> best[Tile::rows];

  __device__ __forceinline__ void reset() {
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i) best[i] = {-infinity, -1};
  }

  // first_t: the document token of the tile's first column.
  __device__ __forceinline__ void update(Tile& tile, int first_t, int lane) {
    float pair[Tile::rows][pairs], largest[Tile::rows];
    bool raises = false;
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i) {
#pragma unroll
      for (int k = 0; k < pairs; ++k) pair[i][k] = ptx::max_nan(tile.at(i, 2 * k), tile.at(i, 2 * k + 1));
      largest[i] = max_of(pair[i]);
      if constexpr (with_index) {
        largest[i] += 0.0f;  // a zero has one sign: ties are told by bits when lanes merge
        raises = raises || is_above(largest[i], best[i].value);
      }
    }
    if (with_index && __any_sync(all_lanes, raises)) {
#pragma unroll
      for (int i = 0; i < Tile::rows; ++i) {
        const int column = find(tile, i, pair[i], largest[i]);
        if (is_above(largest[i], best[i].value)) best[i].index = first_t + Tile::column(0, lane) + column;
      }
    }
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i) best[i].value = ptx::max_nan(best[i].value, largest[i]);
  }

  // Over the four lanes that share rows.
  __device__ __forceinline__ void reduce() {
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i) {
      best[i].merge(best[i].from_lane(1));
      best[i].merge(best[i].from_lane(2));
    }
  }

 private:
  // NaN is above all numbers, and nothing above a NaN.
  static __device__ __forceinline__ bool is_above(float later, float earlier) {
    return !(later <= earlier) && earlier == earlier;
  }

  static __device__ __forceinline__ float max_of(const float (&values)[pairs]) {
    float most[pairs];
#pragma unroll
    for (int k = 0; k < pairs; ++k) most[k] = values[k];
#pragma unroll
    for (int count = pairs / 2; count > 0; count /= 2)
#pragma unroll
      for (int k = 0; k < count; ++k) most[k] = ptx::max_nan(most[k], most[k + count]);
    return most[0];
  }

  // The lane's lowest column of row i whose value is `largest`, less its first one. Zero times a finite value and the
  // column's bits, as a float too small to be normal, is the column's bits.
  static __device__ __forceinline__ int find(Tile& tile, int i, const float (&pair)[pairs], float largest) {
    float bits = 0.0f, first = largest;
#pragma unroll
    for (int k = pairs - 1; k >= 0; --k)
      asm("{ .reg .pred found; setp.eq.f32 found, %2, %3;\n"
          "@found fma.rn.f32 %0, %2, 0f00000000, %5;\n"
          "@found add.f32 %1, %4, 0f00000000; }"
          : "+f"(bits), "+f"(first)
          : "f"(pair[k]), "f"(largest), "f"(tile.at(i, 2 * k)), "f"(__int_as_float(Tile::column(2 * k, 0))));
    int column = __float_as_int(bits) + (first == largest ? 0 : 1);
    if (__any_sync(all_lanes, largest * 0.0f != 0.0f)) {  // not finite
#pragma unroll
      for (int j = Tile::columns - 1; j >= 0; --j) {
        const float value = tile.at(i, j);
        if (value == largest || value != value) column = Tile::column(j, 0);
      }
    }
    return column;
  }
};

template <class Op>
struct QueryRowsForward {
  static constexpr int scorers = block_query / 64, scoring_warps = 4 * scorers, makers = 2, buffers = 2;
  static constexpr int together = 4;  // queries that the summing warp sums at a time
  static constexpr int threads = 128 * scorers + 128;
  // setmaxnreg: what loading warps keep and scoring warps take must be no more than the block was launched with.
  static constexpr int loading_registers = 64, scoring_registers = scorers == 4 ? 104 : 208;
  static_assert(128 * loading_registers + 128 * scorers * scoring_registers <= threads * (65536 / threads / 8 * 8));

  static constexpr int k_block = row_bytes / Op::element_bytes, k_step = step_bytes / Op::element_bytes;
  static constexpr int k_blocks = divide_up(static_size::d, k_block), query_bytes = k_blocks * query_block_bytes;

  // What ops/query_rows_geometry.cpp works out too: as many boxes of 8 KB as fit, with every feature on.
  static constexpr int small_reserve =
      round_up(buffers * (block_query * 8 + 24) + query_buffers * (block_query * (1 + Op::query_extra_bytes) + 16) +
                   config::ring * (48 + tile_rows * Op::row_extra_bytes) + 128,
               128);
  static constexpr int block_bytes = 227 * 1024;
  static constexpr int fitting_boxes = (block_bytes - query_buffers * query_bytes - small_reserve) / box_bytes;
  static constexpr int boxes = fitting_boxes < config::ring ? fitting_boxes : config::ring;
  static constexpr int stage_boxes = k_blocks % 2 == 0 && boxes >= 8 ? 2 : 1;  // k blocks of a stage
  static constexpr int stages = boxes / stage_boxes, stage_bytes = stage_boxes * box_bytes;
  static constexpr int tile_stages = k_blocks / stage_boxes;
  // Steps of 32 bytes in a stage: past d there are only zeros.
  static constexpr int stage_steps = tile_stages == 1 ? divide_up(static_size::d, k_step) : stage_boxes * 4;

  using Walk = msj::Walk<1>;
  using Columns = QueryColumns<QueryRowsForward, Op>;
  using Tile = WarpgroupTile<tile_rows>;
  using Place = RingPlace<stages>;

  struct Small {
    unsigned long long full[stages], ready[stages], free[stages];
    unsigned long long query_full[query_buffers], query_free[query_buffers];
    unsigned long long maxima_full[buffers], maxima_free[buffers];
    int first_active[buffers];
    float lowest;  // -inf
    float value[buffers][block_query];
    int index[feature::save_argmax ? buffers : 1][block_query];
    unsigned keep_rows[1][stages][2];  // d_mask and length, a bit per token of the tile that ends in the stage
    typename Op::RowExtras row_extras[1][stages];  // of that tile too
    typename Op::QueryExtras query_extras[query_buffers];
    unsigned char query_keep[query_buffers][feature::q_mask ? block_query : 8];
  };
  static_assert(sizeof(Small) <= small_reserve);

  static constexpr int ring_at = query_buffers * query_bytes, small_at = ring_at + stages * stage_bytes;
  static __device__ __forceinline__ unsigned char* shared() {
    extern __shared__ __align__(1024) unsigned char bytes[];
    return bytes;
  }
  static __device__ __forceinline__ Small& small() { return *reinterpret_cast<Small*>(shared() + small_at); }
  static __device__ __forceinline__ unsigned query_address(int slot) {
    return ptx::shared_address(shared()) + slot * query_bytes;
  }
  // The scorers have one ring.
  static __device__ __forceinline__ unsigned stage_address(int, int slot) {
    return ptx::shared_address(shared()) + ring_at + slot * stage_bytes;
  }
  static __device__ __forceinline__ unsigned full_barrier(int, int slot) {
    return ptx::shared_address(&small().full[slot]);
  }
  static __device__ __forceinline__ void wait_free(int, const Place& place) {
    ptx::barrier_wait(ptx::shared_address(&small().free[place.slot]), place.parity ^ 1);
  }
  static __device__ __forceinline__ void wait_full(const Place& place) {
    ptx::barrier_wait(full_barrier(0, place.slot), place.parity);
  }
  static __device__ __forceinline__ void release(int slot, int lane) {
    ptx::barrier_arrive_warp(ptx::shared_address(&small().free[slot]), lane);
  }

  // --- make rows -----------------------------------------------------------------------------------------------------

  // One warp: what the op wants of its share of each tile's rows.
  static __device__ __forceinline__ void make_rows(const Args& args, const Walk& walk, int maker, int lane) {
    Place place;
    Spans<typename Op::Span> spans(args, walk.first);
    walk.visit([&](const Pass& pass) {
      const Document document{pass.first_document, spans.of(args, pass, walk.after(pass)).length};
#pragma unroll 1
      for (int first_t = 0; first_t < document.length; first_t += tile_rows) {
        typename Op::RowMaker rows;
#pragma unroll 1
        for (int stage = 0; stage < tile_stages; ++stage) {
          wait_full(place);
          rows.add(stage_address(0, place.slot), maker, lane);
          if (stage + 1 == tile_stages)
            rows.store(args, document, first_t, small().row_extras[0][place.slot], maker, lane);
          ptx::barrier_arrive_warp(ptx::shared_address(&small().ready[place.slot]), lane);
          release(place.slot, lane);
          place.advance();
        }
      }
    });
  }

  // --- score ---------------------------------------------------------------------------------------------------------

  // A of a scorer's 64 query tokens: its first k steps, and where the others lie. From shared memory alone it would take
  // as many bytes as B: all that shared memory has.
  struct Queries {
    unsigned fragment[Op::resident_steps > 0 ? Op::resident_steps : 1][4];
    unsigned address;

    __device__ __forceinline__ void load(int slot, int scorer, int warp, int lane) {
      address = query_address(slot) + scorer * box_bytes;
      const int row = warp * 16 + lane % 16;
#pragma unroll
      for (int step = 0; step < Op::resident_steps; ++step)
        ptx::load_matrices(fragment[step], address + step / 4 * query_block_bytes + row * row_bytes +
                                               ((step % 4 * 2 + lane / 16) ^ row % 8) * 16);
    }
    __device__ __forceinline__ unsigned long long descriptor(int step) const {
      return ptx::matrix_descriptor(address + step / 4 * query_block_bytes, step % 4 * step_bytes);
    }
  };

  // Adds the products of step `step` of the tile, that is step `at` of the documents' stage.
  template <DType query_type, DType document_type>
  static __device__ __forceinline__ void multiply_step(Tile& tile, Queries& queries, int step, unsigned documents,
                                                       int at, bool adds) {
    const unsigned long long b = ptx::matrix_descriptor(documents, at / 4 * box_bytes + at % 4 * step_bytes);
    if (step < Op::resident_steps)  // known when the loop over steps is unrolled
      ptx::multiply_64<query_type, document_type, tile_rows>(tile.value, queries.fragment[step], b, adds);
    else ptx::multiply_64<query_type, document_type, tile_rows>(tile.value, queries.descriptor(step), b, adds);
  }

  // The first active token of a document that had `first_active` before the tile at first_t.
  static __device__ __forceinline__ int first_active_after(int first_active, int first_t, unsigned low, unsigned high) {
    if (!feature::d_mask) return 0;
    if (first_active < 0 && low != 0) return first_t + __ffs(low) - 1;
    if (first_active < 0 && high != 0) return first_t + 31 + __ffs(high);
    return first_active;
  }

  static __device__ __forceinline__ unsigned first_bits(int count) {
    return count >= 32 ? 0xffffffffu : count <= 0 ? 0u : (1u << count) - 1;
  }

  // The end of a pass: the warp's maxima to the warp that sums.
  static __device__ __forceinline__ void publish(QueryMax<Tile, feature::save_argmax>& maxima, int first_active,
                                                 const RingPlace<buffers>& result, int scorer, int warp, int lane) {
    maxima.reduce();
    ptx::barrier_wait(ptx::shared_address(&small().maxima_free[result.slot]), result.parity ^ 1);
    int own = lane;
    ptx::hold(own);  // or what follows from it is worked out before the walk, and spilled
    if (own % 4 == 0) {
#pragma unroll
      for (int i = 0; i < Tile::rows; ++i) {
        const int row = scorer * 64 + warp * 16 + Tile::row(i, own);
        small().value[result.slot][row] = maxima.best[i].value;
        if constexpr (feature::save_argmax) small().index[result.slot][row] = maxima.best[i].index;
      }
    }
    if (scorer == 0 && warp == 0 && lane == 0) small().first_active[result.slot] = first_active;
    ptx::barrier_arrive_warp(ptx::shared_address(&small().maxima_full[result.slot]), lane);
  }

  // One warpgroup.
  static __device__ __forceinline__ void score(const Args& args, const Walk& walk, int scorer, int warp, int lane) {
    const Op op(args);
    Place place;
    RingPlace<query_buffers> at_queries;
    RingPlace<buffers> result;
    Spans<typename Op::Span> spans(args, walk.first);
    Queries queries;
    walk.visit([&](const Pass& pass) {
      const Document document{pass.first_document, spans.of(args, pass, walk.after(pass)).length};
      if (walk.is_first_use(pass)) {
        ptx::barrier_wait(ptx::shared_address(&small().query_full[at_queries.slot]), at_queries.parity);
        queries.load(at_queries.slot, scorer, warp, lane);
      }
      QueryMax<Tile, feature::save_argmax> maxima;
      maxima.reset();
      int first_active = -1;
#pragma unroll 1
      for (int first_t = 0; first_t < document.length; first_t += tile_rows) {
        Tile tile;
        op.multiply_tile(tile, queries, place, lane);
        if (Op::makes_rows) ptx::barrier_wait(ptx::shared_address(&small().ready[place.slot]), place.parity);
        const int left = document.length - first_t;
        unsigned low = 0, high = 0;  // active tokens
        if constexpr (feature::d_mask) {
          low = small().keep_rows[0][place.slot][0], high = small().keep_rows[0][place.slot][1];
        }
        first_active = first_active_after(first_active, first_t, low, high);
        // Without a use for the stage after its products, it is free before they are looked at.
        constexpr bool keeps_stage = Op::reads_extras;
        if (!keeps_stage) release(place.slot, lane);
        op.scale(tile, small().row_extras[0][place.slot], lane);
        if (keeps_stage) release(place.slot, lane);
        if (feature::d_mask ? (low & high) != 0xffffffffu : left < tile_rows) {
          if (!feature::d_mask) low = first_bits(left), high = first_bits(left - 32);
          mask_columns(tile, low, high, ptx::shared_address(&small().lowest), lane);
        }
        maxima.update(tile, first_t, lane);
        place.advance();
      }
      publish(maxima, first_active, result, scorer, warp, lane);
      result.advance();
      if (walk.is_last_use(pass)) {
        ptx::barrier_arrive_warp(ptx::shared_address(&small().query_free[at_queries.slot]), lane);
        at_queries.advance();
      }
    });
  }

  // --- queries, sums -------------------------------------------------------------------------------------------------

  // The loads of query tokens, as far ahead of the sums as there are buffers.
  struct QueryLoads {
    unsigned group, document;
    int chunk = 0;
    RingPlace<query_buffers> place;

    __device__ __forceinline__ explicit QueryLoads(const Walk& walk)
        : group(blockIdx.x % walk.lanes), document(walk.first) {}

    __device__ __forceinline__ void next(const Args& args, const Walk& walk, int lane) {
      if (group >= walk.groups) return;
      const Columns columns(args, group, chunk);
      const unsigned full = ptx::shared_address(&small().query_full[place.slot]);
      ptx::barrier_wait(ptx::shared_address(&small().query_free[place.slot]), place.parity ^ 1);
      columns.copy(args, place.slot, full, lane);
      if constexpr (Columns::prepares) {
        ptx::barrier_wait(full, place.parity);
        columns.prepare(args, place.slot, lane);
        __syncwarp();  // the lanes that sum are others
      }
      place.advance();
      advance(walk);
    }

   private:
    __device__ __forceinline__ void advance(const Walk& walk) {
      if (++chunk < walk.chunks) return;
      chunk = 0;
      if (walk.chunks > 1 && (document += walk.step) < walk.documents) return;
      document = walk.first;
      group += walk.lanes;
    }
  };

  static __device__ __forceinline__ Best<feature::save_argmax> best_of(int buffer, int column) {
    return {small().value[buffer][column], feature::save_argmax ? small().index[buffer][column] : -1};
  }

  // One warp.
  static __device__ __forceinline__ void sum(const Args& args, const Walk& walk, int lane) {
    if (walk.first >= walk.step) return;
    const Op op(args);
    QueryLoads loads(walk);
#pragma unroll 1
    for (int i = 0; i < query_buffers; ++i) loads.next(args, walk, lane);
    RingPlace<query_buffers> at_queries;
    RingPlace<buffers> result;
    double carried = 0.0;  // a long query's sum over its chunks so far
    walk.visit([&](const Pass& pass) {
      ptx::barrier_wait(ptx::shared_address(&small().maxima_full[result.slot]), result.parity);
      const Group group(args, pass.group);
      const int first_active = small().first_active[result.slot];
#pragma unroll 1
      for (int query = 0; query < group.queries; query += together) {
        double total[together] = {pass.chunk == 0 ? 0.0 : carried};  // chunks are of one query
        sum_tokens(
            args, group, pass.first_document, pass.chunk, query, first_active, lane, total,
            [&](int column) { return best_of(result.slot, column); },
            [&](int column, Best<feature::save_argmax>& best) {
              return op.factored(column, best, first_active, at_queries.slot);
            },
            [&](int column) { return small().query_keep[at_queries.slot][column] != 0; });
        carried = total[0];
        if (pass.chunk + 1 < group.chunks) continue;
        float own = 0.0f;  // lane i stores the query's that is i further
#pragma unroll
        for (int i = 0; i < together; ++i) {
          float score = float(total[i]);
          ptx::hold(score);  // or the totals go to memory, to be indexed
          own = lane == i ? score : own;
        }
        if (lane < together && query + lane < group.queries)
          static_cast<float*>(args.scores.data)[(group.first_query + query + lane) * args.scores.stride[0] +
                                                pass.first_document * args.scores.stride[1]] = own;
      }
      ptx::barrier_arrive_warp(ptx::shared_address(&small().maxima_free[result.slot]), lane);
      result.advance();
      if (walk.is_last_use(pass)) {
        at_queries.advance();
        loads.next(args, walk, lane);
      }
    });
  }

  // --- the block -----------------------------------------------------------------------------------------------------

  static __device__ __forceinline__ void init_barriers() {
    const auto init = [](unsigned long long& barrier, int warps) {
      ptx::barrier_init(ptx::shared_address(&barrier), warps * ptx::arriving_lanes);
    };
    for (int stage = 0; stage < stages; ++stage) {
      ptx::barrier_init(ptx::shared_address(&small().full[stage]), Op::arrivals);
      init(small().ready[stage], makers);
      init(small().free[stage], scoring_warps + (Op::makes_rows ? makers : 0));
    }
    for (int slot = 0; slot < query_buffers; ++slot) {
      ptx::barrier_init(ptx::shared_address(&small().query_full[slot]), 1);
      init(small().query_free[slot], scoring_warps);
    }
    for (int slot = 0; slot < buffers; ++slot) {
      init(small().maxima_full[slot], scoring_warps);
      init(small().maxima_free[slot], 1);
    }
    ptx::barrier_init_done();
  }

  static __device__ __forceinline__ void run(const Args& args) {
    const int lane = threadIdx.x % 32, warp = __shfl_sync(all_lanes, threadIdx.x / 32, 0);  // known to be uniform
    if (threadIdx.x == 0) {
      ptx::prefetch_map(args.map_q);
      Op::prefetch_maps(args);
      init_barriers();
      small().lowest = -infinity;
    }
    __syncthreads();
    const Walk walk(args);
    if (warp >= scoring_warps) {
      ptx::give_registers<loading_registers>();
      const int role = warp - scoring_warps;
      if (role == 0) sum(args, walk, lane);
      else if (role == 1) Op::load_documents(args, walk, 0, 0, lane);
      else if (Op::makes_rows) make_rows(args, walk, role - 2, lane);
    } else {
      ptx::take_registers<scoring_registers>();
      score(args, walk, warp / 4, warp % 4, lane);
    }
  }
};

}  // namespace msj
