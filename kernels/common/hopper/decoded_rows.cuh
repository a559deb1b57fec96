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
//   Source(args, base, chunk, lane): centroids, enter(base, chunk, lane),
//     copy(slot, code, present, lane)              a tile's rows into it, of the present ones
//   put_odd_rows(args, source, slot, code, present, lane)  NaN for those that aren't; what of a row copies can't take
//   wait()                                         for what copies and fill_queries read
//   fill_queries(args, base, group, chunk, target, warp, lane)                Q as B, by a team
//   infinite_columns(base, chunk)                  query tokens whose maxima are to be made again
//   start(tile, slot, lane)                        the accumulators' first values
//   has_tail(args)                                 whether copies can't take all of a row
//   begin_rows(a, slot, lane), add_weights(a, pair)    A: what is there before the weights, and with them
//   redo(...)                                      what redo_infinite_columns says

namespace msj {

constexpr int row_bytes = 128, step_bytes = 32;
constexpr int team = 4, teams = config::teams, warps = team * teams, threads = 32 * warps, ring = config::ring;

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

  static __device__ __forceinline__ int first_row(int warp) { return warp % team * rows; }  // of a team's tile

  // --- shared memory -------------------------------------------------------------------------------------------------

  // The documents of a block's teams: the n-th of each.
  struct Documents {
    long long first, step;
    // Neighbouring blocks have the same document and other queries. There are blocks for every group.
    __device__ __forceinline__ Documents(const Args& args, unsigned groups) {
      step = (long long)(gridDim.x / groups) * teams, first = (long long)(blockIdx.x / groups) * teams;
      if (first >= step) first = args.size_Nd;  // what is left over of the blocks
    }
    __device__ __forceinline__ long long nth(int n, int warp) const { return first + warp / team + n * step; }
  };

  // What a block's teams have in common and seldom need: not in registers.
  struct Common {
    Group group;
    Documents documents;
    typename Op::Base base;
  };
  struct Small {
    typename Weights::Shared weights;
    alignas(16) TeamMaxima<Op::columns, team, warps> maxima;
    alignas(16) unsigned char common[64];
  };
  static_assert(sizeof(Common) <= sizeof(Small::common));

  // A warp's slot: the op's; then rows' words, in pieces of 16 bytes that lie so that neither 8 lanes that copy meet in
  // a bank, nor those that read; then their factors, and the document's last token.
  static constexpr int words_pitch = lane_words * 16, pieces = lane_words, lane_pieces = divide_up(pieces, 2);
  static constexpr int words_at = Op::slot_bytes, factors_at = words_at + rows * words_pitch;
  static constexpr int last_at = factors_at + rows * 4, slot_bytes = round_up(last_at + 4, 128);
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

  // Row `token` of what lies `stride` bytes apart: two multiply-adds, of the stride's lower and upper half.
  static __device__ __forceinline__ const char* at(const char* first, int token, long long stride) {
    const unsigned lower = unsigned(stride), upper = unsigned((unsigned long long)stride >> 32);
    auto address = reinterpret_cast<unsigned long long>(first);
    asm("{ .reg .b32 lo, hi;\n"
        "mad.wide.u32 %0, %1, %2, %0;\n"
        "mov.b64 {lo, hi}, %0;\n"
        "mad.lo.u32 hi, %1, %3, hi;\n"
        "mov.b64 %0, {lo, hi}; }"
        : "+l"(address)
        : "r"(token), "r"(lower), "r"(upper));
    return reinterpret_cast<const char*>(address);
  }

  // Who copies what of a tile: words and the factor of row lane % 16, of the words pieces lane / 16, 2 + lane / 16;
  // what the op keeps by code of rows g and g + 8, whose codes are two lanes'.
  struct Share {
    int row, piece, whole;  // whole: pieces of a row that are whole ones, from this lane's first on
    bool is_odd;            // some of a row is no whole piece
    __device__ __forceinline__ Share(const Args& args, int lane) : row(lane % rows), piece(int(unsigned(lane) / rows)) {
      const int bytes = residual_bytes(int(args.size_d));
      whole = min(bytes / 16, pieces) - piece;
      is_odd = bytes < pieces * 16 || Op::has_tail(args);
    }
  };

  // A document's last token, or that it is not read: one without tokens, or one that is not inside the index, which is
  // scored as a token of NaN.
  static constexpr int empty = -1, outside = -2;

  // A tile whose codes are on their way: the next one that is copied. Tokens t ... of a document, for a chunk of query
  // tokens.
  struct Ahead {
    long long next_first;
    int n, t, last, chunk, next_length;
    const char *codes, *norms, *bits;  // of the document's first token, of its words this lane's first piece
    int token, code;                   // of this lane's row; < 0: nothing is to be read

    __device__ __forceinline__ Ahead(const Args& args, const Documents& documents, const Share& share, int warp)
        : n(0), chunk(0) {
      read_span(args, documents.nth(0, warp));
      enter(args, share);
      read_span(args, documents.nth(1, warp));
      read_code(args, first_row(warp) + share.row);
    }
    template <class EnterChunk>
    __device__ __forceinline__ void advance(const Args& args, int chunks, const Share& share, int warp,
                                            EnterChunk enter_chunk) {
      t += tile_rows;
      if (t > last) {
        t = 0;
        if (++chunk == chunks) {
          chunk = 0, ++n;
          enter(args, share);
          read_span(args, common().documents.nth(n + 1, warp));
        }
        if (chunks > 1) enter_chunk(chunk);
      }
      read_code(args, first_row(warp) + share.row);
    }

   private:
    // A document ahead, so that nobody waits for it.
    __device__ __forceinline__ void read_span(const Args& args, long long of) {
      next_first = 0, next_length = 0;
      if (of >= args.size_Nd) return;
      next_first = static_cast<const long long*>(args.d_starts.data)[of * args.d_starts.stride[0]];
      next_length = static_cast<const int*>(args.d_lengths.data)[of * args.d_lengths.stride[0]];
    }
    __device__ __forceinline__ void enter(const Args& args, const Share& share) {
      const long long first = next_first;
      t = 0, last = next_length == 0 ? empty : outside;
      if (next_length > 0 && first >= 0 && first <= args.size_N - next_length) last = next_length - 1;
      codes = static_cast<const char*>(args.codes.data) + first * args.codes.stride[0] * 4;
      if constexpr (feature::normalize)
        norms = static_cast<const char*>(args.d_inv_norms.data) + first * args.d_inv_norms.stride[0] * 4;
      bits = static_cast<const char*>(args.residuals.data) + first * args.residuals.stride[0] + share.piece * 16;
    }
    __device__ __forceinline__ void read_code(const Args& args, int row) {
      token = min(t + row, last), code = -1;
      if (last >= 0)
        code = ptx::load_global_4(reinterpret_cast<const int*>(at(codes, token, args.codes.stride[0] * 4)));
    }
  };

  static __device__ __forceinline__ unsigned words_place(unsigned slot, int row, int piece) {
    const int bank = pieces == 2 ? row / 4 % 2 : pieces == 4 ? row / 2 % 4 : 0;
    return slot + words_at + row * words_pitch + (piece ^ bank) * 16;
  }

  // Asks for the tile at `ahead`. Of a row whose code is no centroid's only what the op keeps by code matters: NaN.
  static __device__ __forceinline__ void copy(const Args& args, const typename Op::Source& source, const Ahead& ahead,
                                              const Share& share, unsigned slot, int lane) {
    if (lane == 0) ptx::store_shared_4(slot + last_at, unsigned(ahead.last));
    int code[2];
    bool present[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      code[i] = __shfl_sync(all_lanes, ahead.code, lane / 4 + 8 * i);
      present[i] = unsigned(code[i]) < source.centroids;
    }
    // One run of copies: the hardware wants three instructions before each.
    const bool is_read = ahead.token >= 0;
    const char* bits = at(ahead.bits, ahead.token, args.residuals.stride[0]);
#pragma unroll
    for (int j = 0; j < lane_pieces; ++j)
      ptx::copy_if<16>(words_place(slot, share.row, share.piece + 2 * j), bits + j * 32, true,
                       is_read && 2 * j < share.whole);
    if constexpr (feature::normalize)
      ptx::copy_if<4>(slot + factors_at + share.row * 4,
                      at(ahead.norms, ahead.token, args.d_inv_norms.stride[0] * 4), true, is_read && lane < rows);
    source.copy(slot, code, present, lane);
    if (share.is_odd || !present[0] || !present[1]) {  // seldom
      Op::put_odd_rows(args, source, slot, code, present, lane);
      if (ahead.last >= 0 && share.is_odd) put_odd_words(args, bits, share, slot);
    }
    ptx::commit_copies();
  }

  // Pieces that are not whole: zeros past a row's bytes.
  static __device__ __forceinline__ void put_odd_words(const Args& args, const char* bits, const Share& share,
                                                       unsigned slot) {
    const int bytes = residual_bytes(int(args.size_d)) - share.piece * 16;
#pragma unroll 1
    for (int word = max(share.whole, 0) * 4; share.piece * 4 + word < pieces * 4; ++word) {
      if (word / 4 % 2 != 0) continue;  // the other lane's
      unsigned value = 0;
#pragma unroll 1
      for (int byte = word * 4; byte < min(word * 4 + 4, bytes); ++byte)
        value |= unsigned(static_cast<unsigned char>(bits[byte])) << (byte % 4 * 8);
      ptx::store_shared_4(words_place(slot, share.row, share.piece + word / 4) + word % 4 * 4, value);
    }
  }

  // --- decode --------------------------------------------------------------------------------------------------------

  // This lane's quarter of row g + 8 i.
  static __device__ __forceinline__ void read_words(unsigned (&word)[lane_words], unsigned slot, int i, int lane) {
    const int quarter = lane % 4 * lane_words;
    const unsigned place = words_place(slot, lane / 4, quarter / 4) + i * (8 * words_pitch) + quarter % 4 * 4;
    if constexpr (lane_words == 4) {
      const uint4 v = ptx::load_shared_16(place);
      word[0] = v.x, word[1] = v.y, word[2] = v.z, word[3] = v.w;
    } else if constexpr (lane_words == 2) {
      ptx::load_shared_8(word, place);
    } else {
#pragma unroll
      for (int w = 0; w < lane_words; ++w) word[w] = ptx::load_shared_4(place + w * 4);
    }
  }

  // A of rows g and g + 8. special: some weight is no number, so that those past d have to be made zeros.
  static __device__ __forceinline__ void decode(const Args& args, unsigned (&a)[steps][4], unsigned slot,
                                                const Weights& weights, bool special, int lane) {
    Op::begin_rows(a, slot, lane);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      unsigned word[lane_words];
      read_words(word, slot, i, lane);
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

  static __device__ __forceinline__ void multiply(Tile& tile, const unsigned (&a)[steps][4], unsigned place, int part) {
    int once = 1;
    if constexpr (parts > 1) ptx::hold(once);  // a loop, so that no other part's maxima move in between the products
#pragma unroll 1
    for (; once > 0; --once) {
      ptx::products_fence();
#pragma unroll
      for (int s = 0; s < steps; ++s) {
        const int offset = part * (part_columns * row_bytes) + s / 4 * query_block_bytes + s % 4 * step_bytes;
        ptx::multiply_64<type, type, part_columns>(tile.value, a[s], ptx::descriptor_at(place, offset), true);
      }
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
    const unsigned place = ptx::uniform(ptx::matrix_place(queries));
    unsigned a[steps][4];
    Tile tile[together];
    Op::start(tile[0], slot, lane);
    decode(args, a, slot, weights, special, lane);
    float factor[2] = {1.0f, 1.0f};
#pragma unroll
    for (int i = 0; i < 2; ++i)
      if constexpr (feature::normalize)
        factor[i] = __uint_as_float(ptx::load_shared_4(slot + factors_at + i * 32 + lane / 4 * 4));
    multiply(tile[0], a, place, 0);
#pragma unroll
    for (int part = 0; part < parts; ++part) {
      Tile& done = tile[part % together];
      if (together > 1 && part + 1 < parts) {
        Op::start(tile[(part + 1) % together], slot, lane);
        multiply(tile[(part + 1) % together], a, place, part + 1);
        ptx::products_wait<1>();
      } else {
        ptx::products_wait<0>();
      }
      ptx::hold(done.value);
      if constexpr (feature::normalize) scale(done, factor);
      maxima[part].update(done, t, lane);
      if (together == 1 && part + 1 < parts) {
        Op::start(done, slot, lane);
        multiply(done, a, place, part + 1);
      }
    }
  }

  static __device__ __forceinline__ void finish_chunk(const Args& args, int n, int chunks, int chunk, int last,
                                                      unsigned infinite_columns, Maxima (&maxima)[parts], int warp,
                                                      int lane) {
    ptx::hold(lane), ptx::hold(n);  // or addresses are worked out before the loop, and spilled
    __builtin_assume(lane >= 0 && lane < 32);
    const long long document = common().documents.nth(n, warp);
    const int buffer = (n * chunks + chunk) & 1;
#pragma unroll
    for (int part = 0; part < parts; ++part)
      maxima[part].reduce(lane, [=](int column, Best<feature::save_argmax> best) {
        small().maxima.put(buffer, warp, part * part_columns + column, best);
      });
    if (infinite_columns != 0 && last >= 0) {
      __syncwarp();
      Op::redo(args, common().group, document, last + 1, chunk, infinite_columns, warp % team, lane,
               [=](int column, Best<feature::save_argmax> best) { small().maxima.put(buffer, warp, column, best); });
    }
    ptx::named_barrier(1 + warp / team, 32 * team);
    small().maxima.sum(args, common().group, document, chunk, last == empty, buffer, warp, lane);
  }

  // --- a team --------------------------------------------------------------------------------------------------------

  static __device__ __forceinline__ void score_documents(const Args& args, Ahead& ahead, int chunks, bool special,
                                                         const Weights& weights, int warp, int lane) {
    const unsigned queries = ptx::shared_address(shared()) + queries_at + (chunks > 1 ? warp / team * query_bytes : 0);
    const Share share(args, lane);
    typename Op::Source source(args, common().base, 0, lane);
    unsigned infinite_columns = Op::infinite_columns(common().base, 0);
    int n = 0, chunk = 0, t = 0;
    Slot copied(warp), used(warp);
    const auto copy_next = [&] {
      copy(args, source, ahead, share, copied.address, lane);
      copied.advance();
      ahead.advance(args, chunks, share, warp,
                    [&](int next) { source.enter(common().base, next, lane); });
    };
#pragma unroll 1
    for (int i = 0; i + 1 < ring; ++i) copy_next();
    Maxima maxima[parts];
#pragma unroll 1
    while (true) {
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
      const int last = int(ptx::load_shared_4(used.address + last_at));
      if (last != empty) score_tile(args, maxima, used.address, weights, special, queries, t + first_row(warp), lane);
      used.advance();
      t += tile_rows;
      if (t <= last) continue;
      finish_chunk(args, n, chunks, chunk, last, infinite_columns, maxima, warp, lane);
      t = 0;
      if (++chunk < chunks) continue;
      chunk = 0, ++n;
      if (common().documents.nth(n, warp) >= args.size_Nd) break;
    }
  }

  static __device__ __forceinline__ void run(const Args& args) {
    int lane = threadIdx.x % 32;
    ptx::hold(lane);  // or it is made again wherever it is used
    __builtin_assume(lane >= 0 && lane < 32);
    const int warp = __shfl_sync(all_lanes, threadIdx.x / 32, 0);  // known to be uniform
    const typename Op::Groups groups(args);
    const unsigned group = blockIdx.x % groups.count;
    const Documents documents(args, groups.count);
    Ahead ahead(args, documents, Share(args, lane), warp);  // codes come while the rest is prepared
    const int chunks = Group(args, 0).chunks;
    if (threadIdx.x == 0)
      common() = {Group(args, groups.first + group), documents, typename Op::Base(args, groups, chunks, int(group))};
    __syncthreads();
    Op::wait();
    if (chunks == 1 && warp < team) {
      Op::fill_queries(args, common().base, common().group, 0, ptx::shared_address(shared()) + queries_at, warp, lane);
      ptx::products_see_writes();
    }
    const bool special = __syncthreads_or(small().weights.fill(args, threads));
    const Weights weights(args, small().weights, lane);
    if (documents.nth(0, warp) < args.size_Nd)
      score_documents(args, ahead, chunks, special || weights.is_special(), weights, warp, lane);
  }
};

}  // namespace msj
