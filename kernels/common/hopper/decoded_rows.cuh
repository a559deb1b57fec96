#pragma once
// The block of residual_forward's hopper paths for few query tokens (sm_90a): a warpgroup decodes the rows that it
// scores in registers, as A of its products. Decoded rows are never in shared memory.
//
//   a team: 4 warps, one document, 64 tokens at a time; a warp 16 of them
//
//   codes ---> what the op keeps by code --+ cp.async   a ring of the warp, `ring` tiles:
//              residual words, norms ------+ ---------> each lane's own pieces
//                                                       |
//       A: rows of 16 bits (registers)  <---- looked up and decoded
//       B: Q, 32 query tokens (shared)  ----> wgmma ---> factor ---> running max (registers)
//                                                                    a document's end: over lanes, over the team
//                                                                    -> sum over s -> scores
//
// Nobody waits for another warp but products for the four of a team, and a team at a document's end. Lane 4 g + c has a
// quarter of rows g and g + 8 (common/row_quarters.cuh). Past a document's last token it is the last one again, which
// changes no maximum. `teams` of a block share the table of weights and, of a query that fits, Q.
//
// An op says in a class:
//   Groups(args): first, count                     the query groups of this launch
//   Base(args, groups, chunks, group)              what it knows of this block's group
//   slot_bytes                                     what it has in a warp's slot
//   Source(args, base, chunk, lane): centroids, copy(slot, code, present, lane)    copies of a tile into it
//   fill_queries(args, base, group, chunk, target, warp, lane)                Q as B, by a team
//   infinite_columns(base, chunk)                  query tokens whose maxima are to be made again
//   start(tile, slot, lane)                        the accumulators' first values
//   begin_rows(a, slot, lane), add_weights(a, pair)    A: what is there before the weights, and with them
//   redo(...)                                      what redo_infinite_columns says

namespace msj {

constexpr int row_bytes = 128, step_bytes = 32;
constexpr int team = 4, teams = config::teams, warps = team * teams, threads = 32 * warps, ring = config::ring;

template <class Op>
struct DecodedRows {
  static constexpr int rows = 16, tile_rows = rows * team;  // document tokens of a warp's tile, of a team's
  static constexpr int lane_words = quarter_words<static_size::d>, steps = quarter_steps<static_size::d>;
  static_assert(lane_words <= 4 && steps <= 8 && steps % 2 == 0);

  using Tile = WarpgroupTile<columns>;
  using Maxima = RunningMax<Tile, feature::save_argmax>;

  // --- shared memory -------------------------------------------------------------------------------------------------

  // What a block's teams have in common and seldom need: not in registers.
  struct Common {
    Walk walk;
    Group group;
    typename Op::Base base;
  };
  struct Small {
    FieldWeights weights;
    TeamMaxima<columns, team, warps> maxima;
    alignas(Common) unsigned char common[sizeof(Common)];
  };
  static_assert(sizeof(Common) <= 144);  // of the 160 bytes that ops/decoded_rows_geometry.cpp counts

  // A warp's slot: the op's, then words of rows g and g + 8, as few planes of all lanes as pieces that one copy takes,
  // then their factors.
  static constexpr int piece_words = lane_words == 3 ? 1 : lane_words, pieces = lane_words / piece_words;
  static constexpr int words_at = Op::slot_bytes, plane_bytes = 32 * piece_words * 4;
  static constexpr int factors_at = words_at + 2 * pieces * plane_bytes, slot_bytes = factors_at + 2 * 32 * 4;
  static constexpr int query_bytes = divide_up(steps, 4) * columns * row_bytes;
  static constexpr int ring_at = round_up(int(sizeof(Small)), 128);
  static constexpr int queries_at = round_up(ring_at + warps * ring * slot_bytes, 1024);

  static __device__ __forceinline__ unsigned char* shared() {
    extern __shared__ __align__(1024) unsigned char bytes[];
    return bytes;
  }
  static __device__ __forceinline__ Small& small() { return *reinterpret_cast<Small*>(shared()); }
  static __device__ __forceinline__ Common& common() { return *reinterpret_cast<Common*>(small().common); }

  // --- where a team is -----------------------------------------------------------------------------------------------

  // Tokens t ... of a document, for a chunk of query tokens. An empty document has one tile, of no token; one that is
  // not inside the index one token, of which nothing is read.
  struct Place {
    long long document, first, next_first;
    int t, length, chunk, next_length;
    bool is_inside;

    __device__ __forceinline__ Place(const Walk& walk, long long first_document) : document(first_document), chunk(0) {
      next_first = walk.read_start(document), next_length = walk.read_length(document);
      enter(walk);
    }
    __device__ __forceinline__ bool is_last_tile() const { return t + tile_rows >= length; }
    // True: to another chunk or document.
    __device__ __forceinline__ bool advance(const Walk& walk, int chunks) {
      t += tile_rows;
      if (t < length) return false;
      t = 0;
      if (++chunk < chunks) return true;
      chunk = 0, document += walk.document_step;
      enter(walk);
      return true;
    }

   private:
    __device__ __forceinline__ void enter(const Walk& walk) {
      t = 0, first = next_first, length = next_length;
      is_inside = walk.is_inside(first, length);
      if (!is_inside) length = 1;
      next_first = walk.read_start(document + walk.document_step);
      next_length = walk.read_length(document + walk.document_step);
    }
  };

  // --- load ----------------------------------------------------------------------------------------------------------

  // Row `token` of what lies `stride` bytes apart.
  static __device__ __forceinline__ const char* at(const void* first, int token, long long stride) {
    return static_cast<const char*>(first) + (unsigned long long)unsigned(token) * (unsigned long long)stride;
  }

  // A tile whose codes are on their way: the next one that is copied. This lane's rows are g and g + 8.
  struct Ahead {
    Place place;
    const char *codes, *norms, *bits;  // of the document's first token, of its row this lane's quarter
    int token[2], code[2];             // of the document; < 0: nothing is to be read

    __device__ __forceinline__ Ahead(const Args& args, const Walk& walk, long long document, int row, int quarter)
        : place(walk, document) {
      enter(args, quarter);
      read_codes(args, row);
    }
    __device__ __forceinline__ void advance(const Args& args, const Walk& walk, int chunks, int row, int quarter) {
      if (place.advance(walk, chunks)) enter(args, quarter);
      read_codes(args, row);
    }
    // Whether there are rows at all, broken ones too.
    __device__ __forceinline__ bool has_rows(const Args& args) const {
      return place.length > 0 && place.document < args.size_Nd;
    }

   private:
    __device__ __forceinline__ void enter(const Args& args, int quarter) {
      codes = static_cast<const char*>(args.codes.data) + place.first * args.codes.stride[0] * 4;
      if constexpr (feature::normalize)
        norms = static_cast<const char*>(args.d_inv_norms.data) + place.first * args.d_inv_norms.stride[0] * 4;
      bits = static_cast<const char*>(args.residuals.data) + place.first * args.residuals.stride[0] + quarter;
    }
    __device__ __forceinline__ void read_codes(const Args& args, int row) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        token[i] = min(place.t + (row + 8 * i), place.length - 1);
        code[i] = -1;
        if (place.is_inside && has_rows(args))
          code[i] = ptx::load_global_4(reinterpret_cast<const int*>(at(codes, token[i], args.codes.stride[0] * 4)));
      }
    }
  };

  // A lane's share of a row's bytes, of which those past the row's are 0 and not read.
  struct Quarter {
    int first;      // byte
    int present;    // bytes
    bool is_whole;  // all of them, or none
    __device__ __forceinline__ Quarter(const Args& args, int lane) : first(lane % 4 * lane_words * 4) {
      present = residual_bytes(int(args.size_d)) - first;
      is_whole = present <= 0 || present >= lane_words * 4;
    }
  };

  // Asks for the tile at `ahead`.
  static __device__ __forceinline__ void copy(const Args& args, const typename Op::Source& source, const Ahead& ahead,
                                              const Quarter& quarter, unsigned slot, int lane) {
    if (ahead.has_rows(args)) {
      const bool has_bits = ahead.place.is_inside && quarter.present > 0;
      bool present[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) present[i] = unsigned(ahead.code[i]) < source.centroids;
      source.copy(slot, ahead.code, present, lane);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const char* bits = at(ahead.bits, ahead.token[i], args.residuals.stride[0]);
        const unsigned target = slot + words_at + i * pieces * plane_bytes + lane * piece_words * 4;
#pragma unroll
        for (int p = 0; p < pieces; ++p)
          ptx::copy_if<piece_words * 4>(target + p * plane_bytes, bits + p * piece_words * 4,
                                        has_bits && quarter.is_whole);
        const unsigned factor = slot + factors_at + i * 128 + lane * 4;
        if constexpr (feature::normalize)
          ptx::copy_4_or(factor, at(ahead.norms, ahead.token[i], args.d_inv_norms.stride[0] * 4), present[i], no_number);
        else ptx::store_shared_4(factor, present[i] ? 0x3f800000u : no_number);
      }
      if (has_bits && !quarter.is_whole) {
        ptx::wait_copies<0>();  // zeros that are on their way to the same place
#pragma unroll
        for (int i = 0; i < 2; ++i)
          copy_some(args, at(ahead.bits, ahead.token[i], args.residuals.stride[0]), quarter.present,
                    slot + words_at + i * pieces * plane_bytes + lane * piece_words * 4);
      }
    }
    ptx::commit_copies();
  }
  static constexpr unsigned no_number = 0x7fffffffu;

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
                                                const FieldWeights::Lookup& weights, bool special, int lane) {
    Op::begin_rows(a, slot, lane);
    unsigned word[2][lane_words];
#pragma unroll
    for (int i = 0; i < 2; ++i) read_words(word[i], slot + words_at + i * pieces * plane_bytes, lane);
    if constexpr (FieldWeights::features == 4) {
      // A lookup's two pairs are neighbouring registers, and so are the fragment's of rows g and g + 8: fields of two
      // features of each.
#pragma unroll
      for (int w = 0; w < lane_words; ++w) weights.cross(word[0][w], word[1][w]);
#pragma unroll
      for (int s = 0; s < steps; ++s)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          unsigned pair[2];
          weights.quad(pair, word[half], s);
          Op::add_weights(a[s][2 * half], pair[0]), Op::add_weights(a[s][2 * half + 1], pair[1]);
        }
    } else {
#pragma unroll
      for (int s = 0; s < steps; ++s)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          unsigned pair[2];
          weights.quad(pair, word[i], s);
          Op::add_weights(a[s][i], pair[0]), Op::add_weights(a[s][2 + i], pair[1]);
        }
    }
    if (special) {
      const int limit = int(args.size_d) - lane % 4 * 4 * steps;
#pragma unroll
      for (int s = 0; s < steps; ++s)
#pragma unroll
        for (int r = 0; r < 4; ++r) a[s][r] = pair_below(a[s][r], 4 * s + r / 2 * 2, limit);
    }
  }

  // --- score ---------------------------------------------------------------------------------------------------------

  static __device__ __forceinline__ void multiply(Tile& tile, unsigned (&a)[steps][4], unsigned queries) {
    ptx::products_fence();
#pragma unroll
    for (int s = 0; s < steps; ++s)
      ptx::multiply_64<type, type, columns>(
          tile.value, a[s], ptx::matrix_descriptor(queries, s / 4 * columns * row_bytes + s % 4 * step_bytes), true);
    ptx::products_commit();
    ptx::products_wait<0>();
    ptx::hold(tile.value);
  }

  // 0 times a negative factor is +0, as ties are told by their bits.
  static __device__ __forceinline__ void scale(Tile& tile, unsigned slot, int lane) {
    float factor[2];
#pragma unroll
    for (int i = 0; i < 2; ++i)
      factor[i] = __uint_as_float(ptx::load_shared_4(slot + factors_at + i * 128 + lane * 4));
    if (!feature::normalize && !__any_sync(all_lanes, factor[0] != 1.0f || factor[1] != 1.0f)) return;
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i)
#pragma unroll
      for (int j = 0; j < Tile::columns; ++j) tile.at(i, j) = fmaf(tile.at(i, j), factor[i], 0.0f);
  }

  static __device__ __forceinline__ void finish_chunk(const Args& args, const Place& at, unsigned infinite_columns,
                                                      Maxima& maxima, int buffer, int warp, int lane) {
    const Walk& walk = common().walk;
    const Group& group = common().group;
    ptx::hold(lane), ptx::hold(buffer);  // or addresses are worked out before the loop, and spilled
    const auto put = [=](int column, Best<feature::save_argmax> best) {
      small().maxima.put(buffer, warp, column, best);
    };
    maxima.reduce(lane, put);
    if (infinite_columns != 0) {
      __syncwarp();
      Op::redo(args, walk, group, at.document, at.chunk, infinite_columns, warp % team, lane, put);
    }
    ptx::named_barrier(1 + warp / team, 32 * team);
    small().maxima.sum(args, group, at.document, at.chunk, at.length == 0, buffer, warp, lane);
  }

  // --- a team --------------------------------------------------------------------------------------------------------

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

  static __device__ __forceinline__ void score_documents(const Args& args, Ahead& ahead, long long document,
                                                         bool special, int warp, int lane) {
    const Walk& walk = common().walk;
    const int chunks = walk.chunks, row = warp % team * rows + lane / 4;
    const unsigned queries = ptx::shared_address(shared()) + queries_at + (chunks > 1 ? warp / team * query_bytes : 0);
    const FieldWeights::Lookup weights(small().weights, lane);
    const Quarter quarter(args, lane);
    typename Op::Source source(args, common().base, 0, lane);
    unsigned infinite_columns = Op::infinite_columns(common().base, 0);
    Slot copied(warp), used(warp);
    const auto copy_next = [&] {
      copy(args, source, ahead, quarter, copied.address, lane);
      copied.advance();
      const int chunk = ahead.place.chunk;
      ahead.advance(args, walk, chunks, row, quarter.first);
      if (ahead.place.chunk != chunk) source = typename Op::Source(args, common().base, ahead.place.chunk, lane);
    };
#pragma unroll 1
    for (int i = 0; i + 1 < ring; ++i) copy_next();
    Place at(walk, document);
    Maxima maxima;
    int buffer = 0;
#pragma unroll 1
    while (at.document < args.size_Nd) {
      ptx::wait_copies<ring - 2>();
      __syncwarp();  // every lane's, and no lane reads the slot that is filled now
      copy_next();
      if (at.t == 0) {
        maxima.reset();
        if (chunks > 1) {
          ptx::named_barrier(1 + warp / team, 32 * team);
          infinite_columns = Op::infinite_columns(common().base, at.chunk);
          Op::fill_queries(args, common().base, common().group, at.chunk, queries, warp % team, lane);
          ptx::products_see_writes();
          ptx::named_barrier(1 + warp / team, 32 * team);
        }
      }
      if (at.length > 0) {
        Tile tile;
        unsigned a[steps][4];
        Op::start(tile, used.address, lane);
        decode(args, a, used.address, weights, special, lane);
        multiply(tile, a, queries);
        scale(tile, used.address, lane);
        maxima.update(tile, at.t + warp % team * rows, lane);
      }
      used.advance();
      if (at.is_last_tile()) {
        finish_chunk(args, at, infinite_columns, maxima, buffer, warp, lane);
        buffer ^= 1;
      }
      at.advance(walk, chunks);
    }
  }

  // Neighbouring blocks have the same document and other queries. There are blocks for every group.
  static __device__ __forceinline__ void run(const Args& args) {
    int lane = threadIdx.x % 32;
    ptx::hold(lane);  // or it is made again wherever it is used
    const int warp = __shfl_sync(all_lanes, threadIdx.x / 32, 0);  // known to be uniform
    const typename Op::Groups groups(args);
    const unsigned group = blockIdx.x % groups.count;
    if (threadIdx.x == 0) {
      const Group queries(args, groups.first + group);
      Walk walk;
      walk.set_documents(args);
      walk.document_step = (long long)(gridDim.x / groups.count) * teams;
      walk.tile_rows = tile_rows;
      walk.chunks = queries.chunks;
      walk.k_blocks = 1;
      common() = {walk, queries, typename Op::Base(args, groups, queries.chunks, int(group))};
    }
    __syncthreads();
    const Walk& walk = common().walk;
    const long long first = (long long)(blockIdx.x / groups.count) * teams + warp / team;
    // Codes come while the table is filled.
    Ahead ahead(args, walk, first, warp % team * rows + lane / 4, Quarter(args, lane).first);
    if (walk.chunks == 1 && warp < team) {
      Op::fill_queries(args, common().base, common().group, 0, ptx::shared_address(shared()) + queries_at, warp, lane);
      ptx::products_see_writes();
    }
    const bool special = __syncthreads_or(small().weights.fill(args, threads));
    if (first < walk.document_step) score_documents(args, ahead, first, special, warp, lane);
  }
};

}  // namespace msj
