// residual_forward, table path: T = centroids x Q^T is made once (residual_forward_products, common/residual_table.cuh)
// and then only looked up. For 16-bit rows, sm_80 and newer; K * 128 bytes of T for each 32 query tokens should stay in
// L2.
//
//   a tile ahead                             a warp: 32 query tokens x 16 tokens, all in registers
//
//   codes ------------> T's rows, 128 bytes each -------------------------------+
//   residual words ---> fields of bits, looked up: B --- mma.sync <--- A: Q     |
//   inverse norms ------------------------------------------ | ---------------- | --> (sum + T) factor -> running max
//                                          a document's end: over lanes, over the team -> sum over s -> scores
//
// Nothing passes through shared memory but the weights' table and maxima. Lane 4 g + c has a quarter of the bits of
// tokens g and g + 8 (common/row_quarters.cuh). `team` warps share a document, 16 tokens each; `teams` of them are a
// block, which share the table alone.
//
// Bits: T and the weights' products are two sums, each in an order that d and nbits alone decide, and added once; the
// rest is as in common/forward.cuh.
#include "common/ptx.cuh"
#include "common/numeric.cuh"
#include "common/tile_load.cuh"
#include "common/running_max.cuh"
#include "common/walk.cuh"
#include "common/group.cuh"
#include "common/token_sum.cuh"
#include "common/residual.cuh"
#include "common/row_quarters.cuh"
#include "common/residual_table.cuh"
#include "common/team_maxima.cuh"

namespace msj {

constexpr int team = config::team, warps = team * config::teams, threads = 32 * warps;
// Q as A of mma.sync, [step][columns / 16][lane] of 16 bytes, and T's columns in the order of the results, 4 side by
// side: tokens g, g + 8, g + 16, g + 24.
struct QueryFragments {
  static constexpr int columns = msj::columns;
  static __device__ __forceinline__ int feature(int step, int i) { return 4 * step + i; }
  static __device__ __forceinline__ void places(int (&at)[2], int step, int n, int lane) {
    at[0] = ((step * 2 + n / 2) * 32 + lane) * 4 + n % 2, at[1] = at[0] + 2;
  }
  static __device__ __forceinline__ void store_row(float* row, const float (&sums)[4][4], int i, int c) {
#pragma unroll
    for (int j = 0; j < 2; ++j)
      reinterpret_cast<float4*>(row)[c * 2 + j] =
          make_float4(sums[0][2 * i + j], sums[1][2 * i + j], sums[2][2 * i + j], sums[3][2 * i + j]);
  }
};
using Products = TableProducts<QueryFragments, 3>;

// --- scores ----------------------------------------------------------------------------------------------------------

// One warp's 32 query tokens x 16 tokens: query tokens g + 8 j of lane 4 g + c, tokens 2 c, 2 c + 1 and 8 more.
struct Tile {
  static constexpr int rows = 4, columns = 4;  // of one thread: tokens in ascending order, query tokens
  float sums[2][2][4];  // [16 query tokens][8 tokens]
  static __device__ __forceinline__ int row(int i, int lane) { return i / 2 * 8 + lane % 4 * 2 + i % 2; }
  static __device__ __forceinline__ int column(int j, int lane) { return j * 8 + lane / 4; }
  __device__ __forceinline__ float& at(int i, int j) { return sums[j / 2][i / 2][j % 2 * 2 + i % 2]; }
};

struct TableScores {
  static constexpr int rows = 16, round_rows = rows * team;  // document tokens of a warp's tile, of a team's

  // A row's bits: a lane has `lane_words` neighbouring words of them, in blocks that one loop turn takes.
  static constexpr int lane_words = quarter_words<static_size::d>;
  static constexpr int block_words =
      lane_words <= 4 ? lane_words : lane_words % 4 == 0 ? 4 : lane_words % 3 == 0 ? 3 : lane_words % 2 == 0 ? 2 : 1;
  static constexpr int blocks = lane_words / block_words;
  static constexpr int block_steps = block_words * 8 / nbits, steps = Prepared::steps;  // of 4 features of a lane
  static_assert(steps == blocks * block_steps);
  static constexpr int kept = blocks > 1 ? 0 : steps < config::kept ? steps : config::kept;  // A's steps in registers

  using Maxima = RunningMax<Tile, feature::save_argmax>;

  // What a block's teams have in common and seldom need: not in registers.
  struct Queue {
    Walk walk;
    Group group;
    int group_of_round;
    const float* table;  // of the group's first chunk
  };
  static_assert(sizeof(Queue) <= 144);  // of the 160 bytes that ops/residual_geometry.cpp counts
  struct Small {
    FieldWeights weights;
    TeamMaxima<columns, team, warps> maxima;
    alignas(Queue) unsigned char queue[sizeof(Queue)];
  };
  static __device__ __forceinline__ Small& small() {
    extern __shared__ __align__(128) unsigned char bytes[];
    return *reinterpret_cast<Small*>(bytes);
  }
  static __device__ __forceinline__ Queue& queue() { return *reinterpret_cast<Queue*>(small().queue); }

  // --- load ----------------------------------------------------------------------------------------------------------

  // Where a team reads: tokens t ... of a document, `left` of them and of those after them. 0 of an empty document,
  // below 0: the end. Pointers are this lane's into the tile, as if all of its rows were there.
  struct Ahead {
    const Args& args;
    const Walk& walk;
    const int member, lane;
    long long document, next_first;
    int t, left, chunk, next_length;
    bool is_readable;          // neither empty nor broken
    const int* code;           // of token lane % 16
    const float* norm;         // the same
    const unsigned char* row;  // of token g

    __device__ __forceinline__ Ahead(const Args& args, const Walk& walk, long long first_document, int member, int lane)
        : args(args), walk(walk), member(member), lane(lane), document(first_document), chunk(0) {
      next_first = walk.read_start(document), next_length = walk.read_length(document);
      enter_document();
    }

    __device__ __forceinline__ void advance() {
      // In the second round of each unit, and at the end of a document that has none after it.
      if (t % unit == round_rows || (t % unit == 0 && left <= round_rows)) prefetch();
      t += round_rows, left -= round_rows;
      if (left > 0) {
        code += round_rows * args.codes.stride[0];
        if constexpr (feature::normalize) norm += round_rows * args.d_inv_norms.stride[0];
        row += round_rows * args.residuals.stride[0];
      } else if (++chunk < walk.chunks) {
        enter(walk.read_start(document), walk.read_length(document));
      } else {
        document += walk.document_step, chunk = 0;
        enter_document();
      }
    }

    // Tokens of the warp's tile.
    __device__ __forceinline__ int present() const { return min(max(left - member * rows, 0), rows); }

   private:
    // An index comes from memory: what follows of the document, or begins the next one, is asked for early enough that a
    // tile waits for L2 at most. By now it is known where the next document lies.
    static constexpr int unit = 8 * round_rows;  // tokens asked for at a time

    __device__ __forceinline__ void prefetch() const {
      const int place = t - t % unit + unit, further = left + t - place;
      if (further > 0) {
        int own = lane;
        ptx::hold(own);  // or products with strides are worked out before the loop, and spilled
        const int here = place - t - member * rows;
        prefetch(row + (here - own / 4) * args.residuals.stride[0], code + (here - own % 16) * args.codes.stride[0],
                 feature::normalize ? norm + (here - own % 16) * args.d_inv_norms.stride[0] : nullptr, further);
      } else if (next_length > 0 && walk.is_inside(next_first, next_length)) {
        prefetch(static_cast<const unsigned char*>(args.residuals.data) + next_first * args.residuals.stride[0],
                 static_cast<const int*>(args.codes.data) + next_first * args.codes.stride[0],
                 static_cast<const float*>(args.d_inv_norms.data) + next_first * args.d_inv_norms.stride[0], next_length);
      }
    }
    __device__ __forceinline__ void prefetch(const unsigned char* rows, const int* codes, const float* norms,
                                             int tokens) const {
      prefetch(rows, args.residuals.stride[0], tokens);
      prefetch(codes, args.codes.stride[0] * 4, tokens);
      if constexpr (feature::normalize) prefetch(norms, args.d_inv_norms.stride[0] * 4, tokens);
    }
    // The team's lanes, a line each, as far as the last row's beginning. Rows far apart are left to come by themselves.
    __device__ __forceinline__ void prefetch(const void* from, long long stride, int tokens) const {
      constexpr int line = 128;
      if (stride > 2 * line) return;
      const int bytes = (min(tokens, unit) - 1) * int(stride) + 1;
#pragma unroll 1
      for (int at = (member * 32 + lane) * line; at < bytes; at += team * 32 * line)
        ptx::prefetch_to_l2(static_cast<const unsigned char*>(from) + at);
    }

    __device__ __forceinline__ void enter_document() {
      enter(next_first, next_length);
      if (document >= walk.documents) left = -1;
      next_first = walk.read_start(document + walk.document_step);
      next_length = walk.read_length(document + walk.document_step);
    }
    __device__ __forceinline__ void enter(long long first, int length) {
      const bool is_inside = walk.is_inside(first, length);
      t = 0, left = is_inside ? length : 1, is_readable = is_inside && length > 0;
      const long long token = first + member * rows;
      int own = lane;
      ptx::hold(own);  // as in prefetch
      code = static_cast<const int*>(args.codes.data) + (token + own % 16) * args.codes.stride[0];
      if constexpr (feature::normalize)
        norm = static_cast<const float*>(args.d_inv_norms.data) + (token + own % 16) * args.d_inv_norms.stride[0];
      row = static_cast<const unsigned char*>(args.residuals.data) + (token + own / 4) * args.residuals.stride[0];
    }
  };

  // What is read a tile ahead, before T's rows. Lanes l and l + 16 have token l's code and norm. Past the last token it is
  // the last one again, which changes no maximum.
  struct Rows {
    int code;
    float norm;
    unsigned word[2][block_words];  // of tokens g and g + 8

    __device__ __forceinline__ void load(const Args& args, const Ahead& ahead, int lane) {
      const int present = ahead.present();
      code = -1;
      if (present == 0 || !ahead.is_readable) return;
      const int* of_code = ahead.code;
      const float* of_norm = ahead.norm;
      const unsigned char *upper = ahead.row, *lower = upper + 8 * args.residuals.stride[0];
      if (present < rows) {
        const int past = max(lane % 16 - (present - 1), 0);
        of_code -= past * args.codes.stride[0];
        if constexpr (feature::normalize) of_norm -= past * args.d_inv_norms.stride[0];
        upper -= max(lane / 4 - (present - 1), 0) * args.residuals.stride[0];
        lower -= max(lane / 4 + 8 - (present - 1), 0) * args.residuals.stride[0];
      }
      code = ptx::load_global_4(of_code);
      if constexpr (feature::normalize) norm = __int_as_float(ptx::load_global_4(reinterpret_cast<const int*>(of_norm)));
      load_words(word[0], args, upper, 0, lane);
      load_words(word[1], args, lower, 0, lane);
    }
    // NaN where the code is no centroid's.
    __device__ __forceinline__ float factor(unsigned centroids) const {
      return unsigned(code) >= centroids ? __uint_as_float(0x7fffffffu) : feature::normalize ? norm : 1.0f;
    }
  };

  // One block of this lane's words of a row; what is past the row's bytes is 0 and not read.
  static __device__ __forceinline__ void load_words(unsigned (&word)[block_words], const Args& args,
                                                    const unsigned char* row, int block, int lane) {
    const int first = (lane % 4 * lane_words + block * block_words) * 4;
    const int bytes = residual_bytes(int(args.size_d));
    if (aligned16 && first + block_words * 4 <= bytes) {
      ptx::load_global_words(word, row + first);
    } else {
#pragma unroll
      for (int w = 0; w < block_words; ++w) {
        word[w] = 0;
#pragma unroll 1
        for (int i = 0; i < 4; ++i)
          if (first + w * 4 + i < bytes) word[w] |= unsigned(row[(first + w * 4 + i) * args.residuals.stride[1]]) << (8 * i);
      }
    }
  }

  // T's rows of this lane's four tokens.
  struct TableRows {
    float value[Tile::rows][Tile::columns];

    // table: with this lane's place in a row.
    __device__ __forceinline__ void load(const char* table, unsigned code, unsigned centroids, int lane) {
      const unsigned own = code < centroids ? code : 0;
#pragma unroll
      for (int i = 0; i < Tile::rows; ++i) {
        const unsigned row = __shfl_sync(all_lanes, own, Tile::row(i, lane));
        const uint4 v = ptx::load_global_16(table + (unsigned long long)row * (columns * 4));
        value[i][0] = __uint_as_float(v.x), value[i][1] = __uint_as_float(v.y);
        value[i][2] = __uint_as_float(v.z), value[i][3] = __uint_as_float(v.w);
      }
    }
  };

  // Q as A: of each k step, this lane's 4 features of its query tokens. What is not kept comes from L1.
  struct Queries {
    unsigned a[kept > 0 ? kept : 1][2][4];
    const uint4* source;

    __device__ __forceinline__ void load(const uint4* of_chunk, int lane) {
      source = of_chunk + lane;
#pragma unroll
      for (int step = 0; step < kept; ++step) read(a[step], step);
    }
    __device__ __forceinline__ void read(unsigned (&of_step)[2][4], int step) const {
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        const uint4 v = ptx::load_kept_16(source + (step * 2 + m) * 32);
        of_step[m][0] = v.x, of_step[m][1] = v.y, of_step[m][2] = v.z, of_step[m][3] = v.w;
      }
    }
  };

  // --- score ---------------------------------------------------------------------------------------------------------

  // The weights against the queries. `row`: of token g and g + 8, where they take more than one block of words. special:
  // some weight is no number, so that those past d have to be made zeros.
  template <bool special>
  static __device__ __forceinline__ void multiply(const Args& args, Tile& tile, Rows& here,
                                                  const unsigned char* const (&row)[2], const Queries& queries,
                                                  const FieldWeights::Lookup& weights, int lane) {
#pragma unroll 1
    for (int block = 0; block < blocks; ++block) {
      if (block > 0 && row[0] != nullptr) {
#pragma unroll
        for (int i = 0; i < 2; ++i) load_words(here.word[i], args, row[i], block, lane);
      }
#pragma unroll
      for (int s = 0; s < block_steps; ++s) {
        const int step = block * block_steps + s;
        unsigned b[2][2];
        weights.quad(b[0], here.word[0], s);
        weights.quad(b[1], here.word[1], s);
        if constexpr (special) {
          const int k = lane % 4 * 4 * steps + 4 * step;
#pragma unroll
          for (int r = 0; r < 4; ++r) b[r / 2][r % 2] = pair_below(b[r / 2][r % 2], k + r % 2 * 2, int(args.size_d));
        }
        unsigned read[2][4];
        if (s >= kept) queries.read(read, step);
        const auto& a = s < kept ? queries.a[s < kept ? s : 0] : read;
#pragma unroll
        for (int m = 0; m < 2; ++m)
#pragma unroll
          for (int n = 0; n < 2; ++n) multiply_16x8<type>(tile.sums[m][n], a[m], b[n][0], b[n][1]);
      }
    }
  }

  // Tokens g and g + 8 of a tile, for more of their words; null where none may be read.
  static __device__ __forceinline__ void rows_of(const unsigned char* (&row)[2], const Args& args, const Walk& walk,
                                                 long long document, int t, int present, int lane) {
    const long long first = walk.read_start(document);
#pragma unroll
    for (int i = 0; i < 2; ++i)
      row[i] = !walk.is_inside(first, walk.read_length(document))
                   ? nullptr
                   : static_cast<const unsigned char*>(args.residuals.data) +
                         (first + t + min(lane / 4 + 8 * i, present - 1)) * args.residuals.stride[0];
  }

  // Adds T; factors. 0 times a negative one is +0, as ties are told by their bits.
  static __device__ __forceinline__ void finish(Tile& tile, const TableRows& table, float factor, int lane) {
    const bool has_factors = feature::normalize || __any_sync(all_lanes, factor != 1.0f);
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i) {
#pragma unroll
      for (int j = 0; j < Tile::columns; ++j) tile.at(i, j) += table.value[i][j];
      if (!has_factors) continue;
      const float of_token = __shfl_sync(all_lanes, factor, Tile::row(i, lane));
#pragma unroll
      for (int j = 0; j < Tile::columns; ++j) tile.at(i, j) = fmaf(tile.at(i, j), of_token, 0.0f);
    }
  }

  // --- reduce and store ----------------------------------------------------------------------------------------------

  // All of the team have come here.
  static __device__ __forceinline__ void meet(int team_index) {
    if constexpr (team == 1) __syncwarp();
    else if constexpr (team == warps) __syncthreads();
    else ptx::named_barrier(1 + team_index, 32 * team);
  }

  static __device__ __forceinline__ void finish_chunk(const Args& args, const Walk& walk, long long document, int chunk,
                                                      bool is_empty, unsigned infinite_columns, Maxima& maxima,
                                                      int buffer, int warp, int lane) {
    const Group& group = queue().group;
    ptx::hold(lane), ptx::hold(buffer);  // or addresses are worked out before the loop, and spilled
    const auto put = [=](int column, Best<feature::save_argmax> best) {
      small().maxima.put(buffer, warp, column, best);
    };
    maxima.template reduce<2, 1>(lane, put);
    const long long start = walk.read_start(document);
    const int length = walk.read_length(document);
    if (infinite_columns != 0 && walk.is_inside(start, length)) {
      __syncwarp();
      redo_infinite_columns(args, group, start, length, chunk, infinite_columns, warp % team, team, lane, put);
    }
    meet(warp / team);
    small().maxima.sum(args, group, document, chunk, is_empty, buffer, warp, lane);
  }

  // --- a team --------------------------------------------------------------------------------------------------------

  static __device__ __forceinline__ void score_group(const Args& args, const Walk& walk, long long document,
                                                     bool special, int warp, int lane) {
    const int member = warp % team;
    const unsigned centroids = unsigned(min(args.size_K, 1ll << 31));
    const FieldWeights::Lookup weights(small().weights, lane);
    Ahead ahead(args, walk, document, member, lane);
    Rows here{};
    here.load(args, ahead, lane);
    Maxima maxima;
    Queries queries;
    unsigned infinite_columns = 0;
    const char* table = nullptr;  // of the chunk
    int chunk = 0, buffer = 0;
#pragma unroll 1
    while (ahead.left >= 0) {
      const int t = ahead.t, left = ahead.left, present = ahead.present();
      if (t == 0) {
        if (table == nullptr || walk.chunks > 1) {
          ptx::hold(chunk);  // or what follows is worked out before the loop, and spilled
          const uint4* of_chunk = Prepared::queries(args, walk.chunks, queue().group_of_round, chunk);
          queries.load(of_chunk, lane);
          infinite_columns = of_chunk[Prepared::infinite_at].x;
          table = reinterpret_cast<const char*>(queue().table + chunk * args.size_K * columns + lane / 4 * 4);
        }
        maxima.reset();
      }
      TableRows table_rows;
      table_rows.load(table, unsigned(here.code), centroids, lane);
      ahead.advance();
      Rows next = here;
      next.load(args, ahead, lane);
      if (present > 0) {
        Tile tile{};
        const unsigned char* row[2] = {};
        if constexpr (blocks > 1) rows_of(row, args, walk, document, t + member * rows, present, lane);
        if (special) multiply<true>(args, tile, here, row, queries, weights, lane);
        else multiply<false>(args, tile, here, row, queries, weights, lane);
        finish(tile, table_rows, here.factor(centroids), lane);
        maxima.update(tile, t + member * rows, lane);
      }
      if (left <= round_rows) {
        finish_chunk(args, walk, document, chunk, left == 0, infinite_columns, maxima, buffer, warp, lane);
        buffer ^= 1;
        if (++chunk == walk.chunks) chunk = 0, document += walk.document_step;
      }
      here = next;
    }
  }

  // As in Forward: neighbouring blocks have the same document and other queries. There are blocks for every group.
  static __device__ __forceinline__ void run(const Args& args) {
    int lane = threadIdx.x % 32;
    ptx::hold(lane);  // or it is made again wherever it is used
    const int warp = __shfl_sync(all_lanes, threadIdx.x / 32, 0);  // known to be uniform
    const Round round(args);
    const unsigned groups = unsigned(round.groups), group = blockIdx.x % groups;
    const Group queries(args, round.first + group);
    if (threadIdx.x == 0) {
      Walk walk;
      walk.set_documents(args);
      walk.document_step = (long long)(gridDim.x / groups) * config::teams;
      walk.tile_rows = round_rows;
      walk.chunks = queries.chunks;
      walk.k_blocks = 1;
      queue() = {walk, queries, int(group), Prepared::table(args, round, queries.chunks, int(group), 0)};
    }
    const bool special = __syncthreads_or(small().weights.fill(args, threads));
    const Walk& walk = queue().walk;
    const long long first = (long long)(blockIdx.x / groups) * config::teams + warp / team;
    if (first < walk.document_step) score_group(args, walk, first, special, warp, lane);
  }
};

}  // namespace msj

extern "C" __global__ void __launch_bounds__(msj::Products::threads, msj::Products::min_blocks)
    residual_forward_products(const __grid_constant__ msj::Args args) {
  msj::Products::run(args);
}

extern "C" __global__ void __launch_bounds__(msj::threads, msj::config::min_blocks)
    residual_forward(const __grid_constant__ msj::Args args) {
  msj::TableScores::run(args);
}
