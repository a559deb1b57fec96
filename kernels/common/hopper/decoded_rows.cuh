#pragma once
// The block of residual_forward's hopper paths whose rows are decoded in registers (sm_90a): a warpgroup makes A of its
// products itself. Decoded rows are never in shared memory.
//
//   a team: 4 warps, one document, 64 tokens at a time; a warp 16 of them
//
//   codes ---> what the op keeps by code --+ cp.async   a ring of the warp, `ring` tiles
//              residual words, norms ------+ ---------> (slots)
//                                                       |
//       A: rows of 16 bits (registers)  <---- looked up and decoded
//       B: Q (shared)  ----> wgmma, 64 query tokens at a time ---> factor ---> running max (registers)
//                                     a document's end: over lanes, over the team -> sum over s -> scores
//
// Nobody waits for another warp but products for the four of a team, and a team at a document's end. Lane 4 g + c has a
// quarter of rows g and g + 8 (common/row_quarters.cuh). Past a document's last token it is the last one again, which
// changes no maximum. `teams` of a block share what weights are looked up in and, of a query that fits, Q.
//
// An op says in a class:
//   columns, by_nibbles                            query tokens of a group; whether weights are a NibbleWeights'
//   Order                                          of Q's features (common/row_quarters.cuh)
//   Groups(args): first, count                     the query groups of this launch
//   Base(args, groups, chunks, group)              what it knows of this block's group
//   slot_bytes                                     what it has in a warp's slot
//   Source(args, base, chunk): centroids, copy(slot, code, present, lane)    copies of a tile into it
//   wait()                                         for what copies and fill_queries read
//   fill_queries(args, base, group, chunk, target, warp, lane)                Q as B, by a team
//   infinite_columns(base, chunk)                  query tokens whose maxima are to be made again
//   start(tile, slot, lane)                        the accumulators' first values
//   begin_rows(a, slot, lane), add_weights(a, pair)    A: what is there before the weights, and with them
//   redo(...)                                      what redo_infinite_columns says

namespace msj {

constexpr int row_bytes = 128, step_bytes = 32;
constexpr int team = 4, teams = config::teams, warps = team * teams, threads = 32 * warps, ring = config::ring;

// NaN, to be copied as the factor of a row whose code is no centroid's.
__device__ const unsigned no_number = 0x7fffffffu;

// What a lane decodes with, and its table in shared memory.
template <bool by_nibbles>
struct DecodingWeights {
  struct Shared {
    __device__ __forceinline__ bool fill(const Args&, int) { return false; }
  };
  NibbleWeights weights;
  __device__ __forceinline__ DecodingWeights(const Args& args, const Shared&, int) : weights(args) {}
  __device__ __forceinline__ bool is_special() const { return weights.is_special; }
  template <int words>
  __device__ __forceinline__ void four(unsigned (&pair)[2], const unsigned (&word)[words], int step) const {
    weights.four(pair, word[step / NibbleWeights::word_steps], step % NibbleWeights::word_steps);
  }
};
template <>
struct DecodingWeights<false> {
  using Shared = FieldWeights;
  FieldWeights::Lookup weights;
  __device__ __forceinline__ DecodingWeights(const Args&, const Shared& shared, int lane) : weights(shared, lane) {}
  __device__ __forceinline__ bool is_special() const { return false; }
  template <int words>
  __device__ __forceinline__ void four(unsigned (&pair)[2], const unsigned (&word)[words], int step) const {
    weights.quad(pair, word, step);
  }
};

template <class Op>
struct DecodedRows {
  static constexpr int rows = 16, tile_rows = rows * team;  // document tokens of a warp's tile, of a team's
  static constexpr int lane_words = quarter_words<static_size::d>, steps = quarter_steps<static_size::d>;
  static_assert(lane_words <= 4 && steps <= 8 && steps % 2 == 0);

  using Group = QueryGroup<Op::columns>;
  static constexpr int part_columns = Op::columns < 64 ? Op::columns : 64, parts = Op::columns / part_columns;
  // Two parts' products at a time, where indices leave registers to them.
  static constexpr int together = parts > 1 && !feature::save_argmax ? 2 : 1;
  using Tile = WarpgroupTile<part_columns>;
  using Maxima = RunningMax<Tile, feature::save_argmax>;
  using Weights = DecodingWeights<Op::by_nibbles>;

  // --- shared memory -------------------------------------------------------------------------------------------------

  // What a block's teams have in common and seldom need: not in registers.
  struct Common {
    Group group;
    typename Op::Base base;
  };
  struct Small {
    typename Weights::Shared weights;
    alignas(16) TeamMaxima<Op::columns, team, warps> maxima;
    alignas(16) unsigned char common[64];
  };
  static_assert(sizeof(Common) <= sizeof(Small::common));

  // A warp's slot: the op's; then words of rows g and g + 8, in as few planes of all lanes as one copy's pieces take;
  // then their factors, and the document's length.
  static constexpr int piece_words = lane_words == 3 ? 1 : lane_words, pieces = lane_words / piece_words;
  static constexpr int words_at = Op::slot_bytes, plane_bytes = 32 * piece_words * 4;
  static constexpr int factors_at = words_at + 2 * pieces * plane_bytes, length_at = factors_at + 2 * 32 * 4;
  static constexpr int slot_bytes = length_at + 16;
  static constexpr int query_block_bytes = Op::columns * row_bytes;
  static constexpr int query_bytes = divide_up(steps, 4) * query_block_bytes;
  static constexpr int ring_at = round_up(int(sizeof(Small)), 128);
  static constexpr int queries_at = round_up(ring_at + warps * ring * slot_bytes, 1024);

  static __device__ __forceinline__ unsigned char* shared() {
    extern __shared__ __align__(1024) unsigned char bytes[];
    return bytes;
  }
  static __device__ __forceinline__ Small& small() { return *reinterpret_cast<Small*>(shared()); }
  static __device__ __forceinline__ Common& common() { return *reinterpret_cast<Common*>(small().common); }

  // A slot of the warp's ring, as its first byte.
  struct Slot {
    unsigned first, address;
    __device__ __forceinline__ explicit Slot(int warp)
        : first(ptx::shared_address(shared()) + ring_at + warp * ring * slot_bytes), address(first) {}
    __device__ __forceinline__ void advance() {
      address += slot_bytes;
      if (address == first + ring * slot_bytes) address = first;
    }
  };

  // --- load ----------------------------------------------------------------------------------------------------------

  // Row `token` of what lies `stride` bytes apart.
  static __device__ __forceinline__ const char* at(const void* first, int token, long long stride) {
    return static_cast<const char*>(first) + (unsigned long long)unsigned(token) * (unsigned long long)stride;
  }

  // A tile whose codes are on their way: the next one that is copied. Tokens t ... of a document, for a chunk of query
  // tokens. This lane's rows are g and g + 8.
  struct Ahead {
    long long document, step, next_first;
    int t, length, chunk, next_length;  // an empty document has one tile, of no token
    bool is_inside;                     // else it is one token, of which nothing is read
    const char *codes, *norms, *bits;   // of the document's first token, of its row this lane's quarter
    int token[2], code[2];              // of the document; < 0: nothing is to be read

    __device__ __forceinline__ Ahead(const Args& args, long long first_document, long long step, int row, int quarter)
        : document(first_document), step(step), chunk(0) {
      read_span(args, document);
      enter(args, quarter);
      read_codes(args, row);
    }
    // True: to another chunk.
    __device__ __forceinline__ bool advance(const Args& args, int chunks, int row, int quarter) {
      bool is_other = false;
      t += tile_rows;
      if (t >= length) {
        t = 0;
        is_other = chunks > 1;
        if (++chunk == chunks) {
          chunk = 0, document += step;
          enter(args, quarter);
        }
      }
      read_codes(args, row);
      return is_other;
    }

   private:
    // A document ahead, so that nobody waits for it.
    __device__ __forceinline__ void read_span(const Args& args, long long of) {
      next_first = 0, next_length = 0;
      if (of >= args.size_Nd) return;
      next_first = static_cast<const long long*>(args.d_starts.data)[of * args.d_starts.stride[0]];
      next_length = static_cast<const int*>(args.d_lengths.data)[of * args.d_lengths.stride[0]];
    }
    __device__ __forceinline__ void enter(const Args& args, int quarter) {
      const long long first = next_first;
      t = 0, length = next_length;
      is_inside = length == 0 || (length > 0 && first >= 0 && first <= args.size_N - length);
      if (!is_inside) length = 1;
      codes = static_cast<const char*>(args.codes.data) + first * args.codes.stride[0] * 4;
      if constexpr (feature::normalize)
        norms = static_cast<const char*>(args.d_inv_norms.data) + first * args.d_inv_norms.stride[0] * 4;
      bits = static_cast<const char*>(args.residuals.data) + first * args.residuals.stride[0] + quarter;
      read_span(args, document + step);
    }
    __device__ __forceinline__ void read_codes(const Args& args, int row) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        token[i] = min(t + (row + 8 * i), length - 1);
        code[i] = -1;
        if (is_inside && length > 0)
          code[i] = ptx::load_global_4(reinterpret_cast<const int*>(at(codes, token[i], args.codes.stride[0] * 4)));
      }
    }
  };

  // A lane's share of a row's bytes, of which those past the row's are 0 and not read.
  struct Quarter {
    int first, present;  // bytes
    bool is_whole;       // all of them, or none
    __device__ __forceinline__ Quarter(const Args& args, int lane) : first(lane % 4 * lane_words * 4) {
      present = residual_bytes(int(args.size_d)) - first;
      is_whole = present <= 0 || present >= lane_words * 4;
    }
  };

  // Asks for the tile at `ahead`.
  static __device__ __forceinline__ void copy(const Args& args, const typename Op::Source& source, const Ahead& ahead,
                                              const Quarter& quarter, unsigned slot, int lane) {
    if (lane == 0) ptx::store_shared_4(slot + length_at, unsigned(ahead.length));
    if (ahead.length > 0) {
      const bool has_bits = ahead.is_inside && quarter.present > 0, is_partial = has_bits && !quarter.is_whole;
      bool present[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) present[i] = unsigned(ahead.code[i]) < source.centroids;
      source.copy(slot, ahead.code, present, lane);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const char* bits = at(ahead.bits, ahead.token[i], args.residuals.stride[0]);
        const unsigned target = slot + words_at + i * pieces * plane_bytes + lane * piece_words * 4;
        if (is_partial) {
          copy_some(args, bits, quarter.present, target);
        } else {
#pragma unroll
          for (int p = 0; p < pieces; ++p)
            ptx::copy_if<piece_words * 4>(target + p * plane_bytes, bits + p * piece_words * 4, has_bits);
        }
        const unsigned factor = slot + factors_at + i * 128 + lane * 4;
        if constexpr (feature::normalize) {
          const void* norm = at(ahead.norms, ahead.token[i], args.d_inv_norms.stride[0] * 4);
          ptx::copy_4_if(factor, present[i] ? norm : &no_number, true);
        } else {
          ptx::store_shared_4(factor, present[i] ? 0x3f800000u : no_number);
        }
      }
    }
    ptx::commit_copies();
  }

  // The first `present` bytes of a quarter.
  static __device__ __forceinline__ void copy_some(const Args& args, const char* bits, int present, unsigned target) {
#pragma unroll 1
    for (int w = 0; w < lane_words; ++w) {
      unsigned word = 0;
#pragma unroll 1
      for (int byte = 0; byte < 4 && w * 4 + byte < present; ++byte)
        word |= unsigned(static_cast<unsigned char>(bits[(w * 4 + byte) * args.residuals.stride[1]])) << (8 * byte);
      ptx::store_shared_4(target + w / piece_words * plane_bytes + w % piece_words * 4, word);
    }
  }

  // --- decode --------------------------------------------------------------------------------------------------------

  static __device__ __forceinline__ void read_words(unsigned (&word)[lane_words], unsigned planes, int lane) {
    planes += lane * piece_words * 4;
    if constexpr (piece_words == 4) {
      const uint4 v = ptx::load_shared_16(planes);
      word[0] = v.x, word[1] = v.y, word[2] = v.z, word[3] = v.w;
    } else if constexpr (piece_words == 2) {
      ptx::load_shared_8(word, planes);
    } else {
#pragma unroll
      for (int w = 0; w < lane_words; ++w) word[w] = ptx::load_shared_4(planes + w * plane_bytes);
    }
  }

  // A of rows g and g + 8. special: some weight is no number, so that those past d have to be made zeros.
  static __device__ __forceinline__ void decode(const Args& args, unsigned (&a)[steps][4], unsigned slot,
                                                const Weights& weights, bool special, int lane) {
    Op::begin_rows(a, slot, lane);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      unsigned word[lane_words];
      read_words(word, slot + words_at + i * pieces * plane_bytes, lane);
#pragma unroll
      for (int s = 0; s < steps; ++s) {
        unsigned pair[2];
        weights.four(pair, word, s);
        Op::add_weights(a[s][i], pair[0]), Op::add_weights(a[s][2 + i], pair[1]);
      }
    }
    if (special) {
      const int limit = int(args.size_d) - lane % 4 * 4 * steps;
#pragma unroll
      for (int s = 0; s < steps; ++s)
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          if (Op::Order::feature(s, r / 2 * 2) >= limit) a[s][r] &= 0xffff0000u;
          if (Op::Order::feature(s, r / 2 * 2 + 1) >= limit) a[s][r] &= 0x0000ffffu;
        }
    }
  }

  // --- score ---------------------------------------------------------------------------------------------------------

  static __device__ __forceinline__ void multiply(Tile& tile, const unsigned (&a)[steps][4], unsigned queries) {
    int once = 1;
    if constexpr (parts > 1) ptx::hold(once);  // a loop, so that no other part's maxima move in between the products
#pragma unroll 1
    for (; once > 0; --once) {
      ptx::products_fence();
#pragma unroll
      for (int s = 0; s < steps; ++s)
        ptx::multiply_64<type, type, part_columns>(
            tile.value, a[s], ptx::matrix_descriptor(queries, s / 4 * query_block_bytes + s % 4 * step_bytes), true);
      ptx::products_commit();
    }
  }

  // 0 times a negative factor is +0, as ties are told by their bits.
  static __device__ __forceinline__ void scale(Tile& tile, const float (&factor)[2]) {
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i)
#pragma unroll
      for (int j = 0; j < Tile::columns; ++j) tile.at(i, j) = fmaf(tile.at(i, j), factor[i], 0.0f);
  }

  // A tile against all columns, a part of them after the other.
  static __device__ __forceinline__ void score_tile(const Args& args, Maxima (&maxima)[parts], unsigned slot,
                                                    const Weights& weights, bool special, unsigned queries, int t,
                                                    int lane) {
    unsigned a[steps][4];
    Tile tile[together];
    Op::start(tile[0], slot, lane);
    decode(args, a, slot, weights, special, lane);
    float factor[2];
#pragma unroll
    for (int i = 0; i < 2; ++i)
      factor[i] = __uint_as_float(ptx::load_shared_4(slot + factors_at + i * 128 + lane * 4));
    const bool has_factors = feature::normalize || __any_sync(all_lanes, factor[0] != 1.0f || factor[1] != 1.0f);
    multiply(tile[0], a, queries);
#pragma unroll
    for (int part = 0; part < parts; ++part) {
      Tile& done = tile[part % together];
      if (together > 1 && part + 1 < parts) {
        Op::start(tile[(part + 1) % together], slot, lane);
        multiply(tile[(part + 1) % together], a, queries + (part + 1) * part_columns * row_bytes);
        ptx::products_wait<1>();
      } else {
        ptx::products_wait<0>();
      }
      ptx::hold(done.value);
      if (has_factors) scale(done, factor);
      maxima[part].update(done, t, lane);
      if (together == 1 && part + 1 < parts) {
        Op::start(done, slot, lane);
        multiply(done, a, queries + (part + 1) * part_columns * row_bytes);
      }
    }
  }

  static __device__ __forceinline__ void finish_chunk(const Args& args, long long document, int chunk, int length,
                                                      unsigned infinite_columns, Maxima (&maxima)[parts], int buffer,
                                                      int warp, int lane) {
    ptx::hold(lane), ptx::hold(buffer);  // or addresses are worked out before the loop, and spilled
#pragma unroll
    for (int part = 0; part < parts; ++part)
      maxima[part].reduce(lane, [=](int column, Best<feature::save_argmax> best) {
        small().maxima.put(buffer, warp, part * part_columns + column, best);
      });
    if (infinite_columns != 0 && length > 0) {
      __syncwarp();
      Op::redo(args, common().group, document, length, chunk, infinite_columns, warp % team, lane,
               [=](int column, Best<feature::save_argmax> best) { small().maxima.put(buffer, warp, column, best); });
    }
    ptx::named_barrier(1 + warp / team, 32 * team);
    small().maxima.sum(args, common().group, document, chunk, length == 0, buffer, warp, lane);
  }

  // --- a team --------------------------------------------------------------------------------------------------------

  static __device__ __forceinline__ void score_documents(const Args& args, Ahead& ahead, int chunks, bool special,
                                                         const Weights& weights, int warp, int lane) {
    const int row = warp % team * rows + lane / 4;
    const unsigned queries = ptx::shared_address(shared()) + queries_at + (chunks > 1 ? warp / team * query_bytes : 0);
    const Quarter quarter(args, lane);
    typename Op::Source source(args, common().base, 0);
    unsigned infinite_columns = Op::infinite_columns(common().base, 0);
    const long long step = ahead.step;
    long long document = ahead.document;
    int chunk = 0, t = 0, buffer = 0;
    Slot copied(warp), used(warp);
    const auto copy_next = [&] {
      copy(args, source, ahead, quarter, copied.address, lane);
      copied.advance();
      if (ahead.advance(args, chunks, row, quarter.first))
        source = typename Op::Source(args, common().base, ahead.chunk);
    };
#pragma unroll 1
    for (int i = 0; i + 1 < ring; ++i) copy_next();
    Maxima maxima[parts];
#pragma unroll 1
    while (document < args.size_Nd) {
      ptx::wait_copies<ring - 2>();
      __syncwarp();  // every lane's, and no lane reads the slot that is filled now
      copy_next();
      if (t == 0) {
#pragma unroll
        for (int part = 0; part < parts; ++part) maxima[part].reset();
        if (chunks > 1) {
          ptx::named_barrier(1 + warp / team, 32 * team);
          infinite_columns = Op::infinite_columns(common().base, chunk);
          Op::fill_queries(args, common().base, common().group, chunk, queries, warp % team, lane);
          ptx::products_see_writes();
          ptx::named_barrier(1 + warp / team, 32 * team);
        }
      }
      const int length = int(ptx::load_shared_4(used.address + length_at));
      if (length > 0)
        score_tile(args, maxima, used.address, weights, special, queries, t + warp % team * rows, lane);
      used.advance();
      t += tile_rows;
      if (t < length) continue;
      finish_chunk(args, document, chunk, length, infinite_columns, maxima, buffer, warp, lane);
      buffer ^= 1, t = 0;
      if (++chunk == chunks) chunk = 0, document += step;
    }
  }

  // Neighbouring blocks have the same document and other queries. There are blocks for every group.
  static __device__ __forceinline__ void run(const Args& args) {
    int lane = threadIdx.x % 32;
    ptx::hold(lane);  // or it is made again wherever it is used
    const int warp = __shfl_sync(all_lanes, threadIdx.x / 32, 0);  // known to be uniform
    const typename Op::Groups groups(args);
    const unsigned group = blockIdx.x % groups.count;
    // Codes come while the rest is prepared.
    const long long step = (long long)(gridDim.x / groups.count) * teams;
    const long long first = (long long)(blockIdx.x / groups.count) * teams + warp / team;
    Ahead ahead(args, first < step ? first : args.size_Nd, step, warp % team * rows + lane / 4,
                Quarter(args, lane).first);
    const int chunks = Group(args, 0).chunks;
    if (threadIdx.x == 0)
      common() = {Group(args, groups.first + group), typename Op::Base(args, groups, chunks, int(group))};
    __syncthreads();
    Op::wait();
    if (chunks == 1 && warp < team) {
      Op::fill_queries(args, common().base, common().group, 0, ptx::shared_address(shared()) + queries_at, warp, lane);
      ptx::products_see_writes();
    }
    const bool special = __syncthreads_or(small().weights.fill(args, threads));
    const Weights weights(args, small().weights, lane);
    score_documents(args, ahead, chunks, special || weights.is_special(), weights, warp, lane);
  }
};

}  // namespace msj
