// residual_forward, table path: <Q, row> = <Q, centroid> + <Q, weights>. The first is one of K values for each query
// token: T = centroids x Q^T, float32, made once (residual_forward_products) and then only looked up. For 16-bit rows,
// sm_80 and newer; K * 128 bytes of T for each 32 query tokens should stay in L2.
//
//   two tiles ahead     one tile ahead                       a warp: 16 tokens x 32 query tokens        all in registers
//
//   codes ------------> T's row, 128 bytes ----------------> accumulators <---+
//                       residual words --> fields of bits, looked up: A --- mma.sync <--- B: the queries, kept
//                       inverse norms ---------------------> factor, mask -> running max
//                                          a document's end: over lanes, over the team -> sum over s -> scores
//
// Nothing passes through shared memory but the weights' table and maxima. A lane reads its share of a row in one piece:
// which features of a k step are whose does not matter as long as A and B agree, so lane 4 g + c has a quarter of the
// bits of rows g and g + 8, and of Q's tokens the same quarter. T's columns lie in the order of the accumulators.
//
// `team` warps share a document, 16 tokens each; `teams` of them are a block, which share the table alone. Many
// queries: T's columns are made in rounds (Args::round) of at most table_bytes, whole groups of 32 query tokens each.
//
// Bits: T's k goes in one accumulator, with which the weights' k then go on, both in an order that d and nbits alone
// decide; the rest is as in common/forward.cuh.
#include "common/ptx.cuh"
#include "common/numeric.cuh"
#include "common/tile_load.cuh"
#include "common/running_max.cuh"
#include "common/walk.cuh"
#include "common/group.cuh"
#include "common/token_sum.cuh"
#include "common/residual.cuh"

namespace msj {

static_assert(dtype::q == dtype::centroids && dtype::q != DType::f32);
constexpr DType type = dtype::q;
using Element = Numeric<type>::Storage;

constexpr int columns = 32;  // query tokens of a group
constexpr int team = config::team, warps = team * config::teams, threads = 32 * warps;
constexpr long long table_bytes = 1ll << 28;
using Group = QueryGroup<columns>;

// The groups whose T is there in one round: at most 2^21, of 128 bytes each.
struct Round {
  long long first;
  int groups;
  __device__ __forceinline__ explicit Round(const Args& args) {
    const long long fit = table_bytes / (max(args.size_K, 1ll) * columns * 4) / Group(args, 0).chunks;
    const long long most = max(fit, 1ll);
    first = args.round * most;
    groups = int(min(Group::count(args) - first, most));
  }
};

// A row's bits in quarters of whole words, and the k steps of 4 features of each quarter.
template <int d>
constexpr int quarter_words = divide_up(residual_bytes(d), 16);
template <int d>
constexpr int quarter_steps = quarter_words<d> * 8 / nbits;

// One warp's 16 rows x 32 columns: rows g and g + 8 of lane 4 g + c, columns 2 c and 2 c + 1 of each 8.
struct Tile {
  static constexpr int rows = 2, columns = 8;  // of one thread, as in MmaTile
  float accumulator[4][4];
  static __device__ __forceinline__ int row(int i, int lane) { return i * 8 + lane / 4; }
  static __device__ __forceinline__ int column(int j, int lane) { return j / 2 * 8 + lane % 4 * 2 + j % 2; }
  __device__ __forceinline__ float& at(int i, int j) { return accumulator[j / 2][i * 2 + j % 2]; }

  __device__ __forceinline__ void multiply(int n, const unsigned (&a)[4], unsigned b0, unsigned b1) {
    if constexpr (type == DType::bf16) ptx::mma_bf16(accumulator[n], a, b0, b1);
    else ptx::mma_f16(accumulator[n], a, b0, b1);
  }
};

// Of T's rows, each lane's columns side by side: 16 bytes of the first 16 columns, 16 of the others.
struct TableRow {
  static __device__ __forceinline__ int place(int half, int lane) { return half * 16 + lane % 4 * 4; }

  static __device__ __forceinline__ void store(float* row, Tile& tile, int i, int lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      *reinterpret_cast<float4*>(row + place(half, lane)) =
          make_float4(tile.at(i, 4 * half), tile.at(i, 4 * half + 1), tile.at(i, 4 * half + 2), tile.at(i, 4 * half + 3));
  }
};

// What the first kernel leaves in the workspace: Q as B of the second kernel, then T, of each of the round's groups and
// their chunks.
struct Prepared {
  static constexpr int steps = quarter_steps<static_size::d>;  // k steps, of 4 features of each lane
  static constexpr int infinite_at = steps * 2 * 32, queries_size = infinite_at + 8;

  // [step][columns / 16][lane], then .x: which query tokens have an infinity, a bit each.
  static __device__ __forceinline__ uint4* queries(const Args& args, int chunks, int group, int chunk) {
    return static_cast<uint4*>(args.workspace) + ((long long)group * chunks + chunk) * queries_size;
  }
  // [K][columns]
  static __device__ __forceinline__ float* table(const Args& args, const Round& round, int chunks, int group, int chunk) {
    return reinterpret_cast<float*>(queries(args, chunks, round.groups, 0)) +
           ((long long)group * chunks + chunk) * args.size_K * columns;
  }
};

// --- T ---------------------------------------------------------------------------------------------------------------

// A warp: 16 centroids, of whose rows a lane reads 8 features of each 32.
struct Products {
  static constexpr int rows = 16, block_rows = 64, threads = 128, min_blocks = 2;
  static constexpr int steps = divide_up(static_size::d, 32);

  static __device__ __forceinline__ void run(const Args& args) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const Round round(args);
    const int chunks = Group(args, 0).chunks;
    const long long units = (long long)round.groups * chunks;
    const long long row_tiles = (args.size_K + block_rows - 1) / block_rows, tiles = row_tiles * units;
    const bool whole = aligned16 && args.size_d % 8 == 0;
#pragma unroll 1
    for (long long unit = blockIdx.x; unit < units; unit += gridDim.x) {
      const int group = int(unit / chunks), chunk = int(unit % chunks);
      repack(args, Group(args, round.first + group), chunk, Prepared::queries(args, chunks, group, chunk), warp, lane);
    }
#pragma unroll 1
    for (long long tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      const long long unit = tile / row_tiles;
      const int group = int(unit / chunks), chunk = int(unit % chunks);
      const long long first = (tile - unit * row_tiles) * block_rows + warp * rows;
      if (first >= args.size_K) continue;
      const Group of_tile(args, round.first + group);
      const QueryRow<Element, columns> queries{args, of_tile, chunk};
      float* table = Prepared::table(args, round, chunks, group, chunk);
      if (whole) make_tile<true>(args, queries, first, table, lane);
      else make_tile<false>(args, queries, first, table, lane);
    }
  }

  // Elements k ... k + 7 of a row, 0 past d and where there is no row. whole: all of them or none, aligned.
  template <bool whole>
  static __device__ __forceinline__ uint4 load_8(const Element* row, long long stride, int k, int d) {
    if constexpr (whole) return row && k < d ? *reinterpret_cast<const uint4*>(row + k) : uint4{};
    else return gather_16<Element>(row + k * stride, stride, row ? d - k : 0);
  }

  template <bool whole>
  static __device__ __forceinline__ void make_tile(const Args& args, const QueryRow<Element, columns>& query_rows,
                                                   long long first, float* table, int lane) {
    const int d = int(args.size_d);
    const Element *centroid[2], *query[4];
#pragma unroll
    for (int i = 0; i < 2; ++i)
      centroid[i] = static_cast<const Element*>(args.centroids.data) +
                    min(first + Tile::row(i, lane), args.size_K - 1) * args.centroids.stride[0];
#pragma unroll
    for (int n = 0; n < 4; ++n) query[n] = query_rows(n * 8 + lane / 4);
    Tile tile{};
#pragma unroll(whole && steps <= 4 ? steps : 1)
    for (int step = 0; step < steps; ++step) {
      const int k = step * 32 + lane % 4 * 8;
      const uint4 upper = load_8<whole>(centroid[0], args.centroids.stride[1], k, d);
      const uint4 lower = load_8<whole>(centroid[1], args.centroids.stride[1], k, d);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const uint4 b = load_8<whole>(query[n], args.q.stride[2], k, d);
        tile.multiply(n, {upper.x, lower.x, upper.y, lower.y}, b.x, b.y);
        tile.multiply(n, {upper.z, lower.z, upper.w, lower.w}, b.z, b.w);
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const long long row = first + Tile::row(i, lane);
      if (row < args.size_K) TableRow::store(table + row * columns, tile, i, lane);
    }
  }

  // A block: one chunk's queries, warp n columns 8 n ... .
  static __device__ __forceinline__ void repack(const Args& args, const Group& group, int chunk,
                                                uint4* prepared, int n, int lane) {
    static_assert(threads / 32 == columns / 8);
    const Element* row = QueryRow<Element, columns>{args, group, chunk}(n * 8 + lane / 4);
    bool is_infinite = false;
#pragma unroll 1
    for (int step = 0; step < Prepared::steps; ++step) {
      const int k = lane % 4 * 4 * Prepared::steps + 4 * step;
      const uint4 v = gather_16<Element>(row + k * args.q.stride[2], args.q.stride[2],
                                         row ? min(int(args.size_d) - k, 4) : 0);
      is_infinite |= has_infinity(v.x) || has_infinity(v.y);
      reinterpret_cast<uint2*>(prepared + (step * 2 + n / 2) * 32 + lane)[n % 2] = make_uint2(v.x, v.y);
    }
    extern __shared__ __align__(128) unsigned char bytes[];
    auto* of_warp = reinterpret_cast<unsigned*>(bytes);
    const unsigned lanes = __ballot_sync(all_lanes, is_infinite);
    if (lane == 0) {
      of_warp[n] = 0;
      for (int g = 0; g < 8; ++g) of_warp[n] |= unsigned((lanes >> 4 * g & 15u) != 0) << (n * 8 + g);
    }
    __syncthreads();
    if (threadIdx.x == 0) prepared[Prepared::infinite_at].x = of_warp[0] | of_warp[1] | of_warp[2] | of_warp[3];
    __syncthreads();
  }

  static __device__ __forceinline__ bool has_infinity(unsigned pair) {
    constexpr unsigned magnitude = type == DType::bf16 ? 0x7f80u : 0x7c00u;
    return (pair & 0x7fffu) == magnitude || (pair >> 16 & 0x7fffu) == magnitude;
  }
};

// --- scores ----------------------------------------------------------------------------------------------------------

struct TableScores {
  static constexpr int rows = 16, round_rows = rows * team;  // document tokens of a warp's tile, of a team's

  // A row's bits: a lane has `lane_words` neighbouring words of them, in blocks that one loop turn takes.
  static constexpr int lane_words = quarter_words<static_size::d>;
  static constexpr int block_words =
      lane_words <= 4 ? lane_words : lane_words % 4 == 0 ? 4 : lane_words % 3 == 0 ? 3 : lane_words % 2 == 0 ? 2 : 1;
  static constexpr int blocks = lane_words / block_words;
  static constexpr int block_steps = block_words * 8 / nbits, steps = Prepared::steps;  // of 4 features of a lane
  static_assert(steps == blocks * block_steps);
  static constexpr int kept = blocks > 1 ? 0 : steps < config::kept ? steps : config::kept;  // B's steps in registers

  using Maxima = RunningMax<Tile, feature::save_argmax>;

  struct Small {
    FieldWeights weights;
    float partial_value[2][warps][columns];
    int partial_index[feature::save_argmax ? 2 : 1][warps][columns];
    double carried[warps];  // a long query's sum over its chunks so far
  };
  static __device__ __forceinline__ Small& small() {
    extern __shared__ __align__(128) unsigned char bytes[];
    return *reinterpret_cast<Small*>(bytes);
  }

  // What a team takes at a time: tokens t ... of a document, `left` of them and of those after them. 0 of an empty
  // document, below 0: the end.
  struct Place {
    int t, left;
    __device__ __forceinline__ bool is_end() const { return left < 0; }
    __device__ __forceinline__ bool is_last() const { return left <= round_rows; }
    __device__ __forceinline__ int present(int member) const { return min(max(left - member * rows, 0), rows); }
  };
  // The same with this warp's first token of the index, or `broken`.
  struct Coming : Place {
    long long token;
    int chunk;
    __device__ __forceinline__ bool has_rows(int member) const { return this->present(member) > 0 && token != broken; }
    // Of row g or g + 8; past the last one the last one again, which changes no maximum.
    __device__ __forceinline__ long long token_of(int i, int member, int lane) const {
      return token + min(Tile::row(i, lane), this->present(member) - 1);
    }
  };

  struct Work {
    Walk walk;
    Group group;
    int group_of_round;
    const float* table;  // of the group's first chunk
  };

  // --- load ----------------------------------------------------------------------------------------------------------

  static __device__ __forceinline__ Coming coming_of(const Cursor& at, const Walk& walk, int member) {
    if (at.done(walk)) return {{0, -1}, broken, 0};
    const int t = at.tile * round_rows;
    return {{t, at.length - t}, at.first == broken ? broken : at.first + t + member * rows, at.chunk};
  }

  struct Codes {
    int code[2];

    __device__ __forceinline__ void load(const Args& args, const Coming& coming, int member, int lane) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        code[i] = -1;
        if (coming.has_rows(member))
          code[i] = ptx::load_global_4(static_cast<const int*>(args.codes.data) +
                                       coming.token_of(i, member, lane) * args.codes.stride[0]);
      }
    }
  };

  struct Rows {
    Tile table;
    unsigned word[2][block_words];
    float factor[2];  // NaN where the code is no centroid's

    __device__ __forceinline__ void load(const Args& args, const float* table_of_group, const Codes& codes,
                                         const Coming& coming, int member, int lane) {
      const float* table_of_chunk = table_of_group + coming.chunk * args.size_K * columns;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int code = checked_code(args, codes.code[i]);
        factor[i] = code < 0 ? __uint_as_float(0x7fffffffu) : 1.0f;
        if (!coming.has_rows(member)) continue;
        const float* row = table_of_chunk + (long long)max(code, 0) * columns;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const uint4 v = ptx::load_global_16(row + TableRow::place(half, lane));
          table.at(i, 4 * half) = __uint_as_float(v.x), table.at(i, 4 * half + 1) = __uint_as_float(v.y);
          table.at(i, 4 * half + 2) = __uint_as_float(v.z), table.at(i, 4 * half + 3) = __uint_as_float(v.w);
        }
        const long long token = coming.token_of(i, member, lane);
        load_words(word[i], args, token, 0, lane);
        if constexpr (feature::normalize) {
          const float norm = __int_as_float(ptx::load_global_4(static_cast<const int*>(args.d_inv_norms.data) +
                                                               token * args.d_inv_norms.stride[0]));
          if (code >= 0) factor[i] = norm;
        }
      }
    }
  };

  // One block of this lane's words of a row; what is past the row's bytes is 0 and not read.
  static __device__ __forceinline__ void load_words(unsigned (&word)[block_words], const Args& args, long long token,
                                                    int block, int lane) {
    const auto* row = static_cast<const unsigned char*>(args.residuals.data) + token * args.residuals.stride[0];
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

  // Q as B: of each k step, this lane's 4 features of its columns. What is not kept comes from L1.
  struct Queries {
    unsigned b[kept > 0 ? kept : 1][4][2];
    const uint4* source;

    __device__ __forceinline__ void load(const uint4* of_chunk, int lane) {
      source = of_chunk + lane;
#pragma unroll
      for (int step = 0; step < kept; ++step) read(b[step], step);
    }
    __device__ __forceinline__ void read(unsigned (&of_step)[4][2], int step) const {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint4 v = ptx::load_kept_16(source + (step * 2 + half) * 32);
        of_step[2 * half][0] = v.x, of_step[2 * half][1] = v.y;
        of_step[2 * half + 1][0] = v.z, of_step[2 * half + 1][1] = v.w;
      }
    }
  };

  // --- score ---------------------------------------------------------------------------------------------------------

  // The token of this lane's row g or g + 8, of a document that is inside the index.
  static __device__ __forceinline__ long long token_of(const Args& args, long long document, const Place& place, int i,
                                                       int member, int lane) {
    const auto* starts = static_cast<const long long*>(args.d_starts.data);
    return starts[document * args.d_starts.stride[0]] + place.t + member * rows +
           min(Tile::row(i, lane), place.present(member) - 1);
  }

  // The weights against the queries. special: some weight is no number, so that those past d have to be made zeros.
  static __device__ __forceinline__ void multiply(const Args& args, Tile& tile, Rows& from, const Queries& queries,
                                                  long long document, const Place& place, int member, bool special,
                                                  int lane) {
    const FieldWeights::Lookup weights(small().weights, lane);
#pragma unroll 1
    for (int block = 0; block < blocks; ++block) {
      if (block > 0) {
#pragma unroll
        for (int i = 0; i < 2; ++i)  // a row that scores NaN is not read
          if (from.factor[i] == from.factor[i])
            load_words(from.word[i], args, token_of(args, document, place, i, member, lane), block, lane);
      }
#pragma unroll
      for (int s = 0; s < block_steps; ++s) {
        const int step = block * block_steps + s;
        unsigned upper[2], lower[2];
        weights.quad(upper, from.word[0], s);
        weights.quad(lower, from.word[1], s);
        unsigned a[4] = {upper[0], lower[0], upper[1], lower[1]};
        if (special) {
          const int k = lane % 4 * 4 * steps + 4 * step;
#pragma unroll
          for (int r = 0; r < 4; ++r) a[r] = pair_below(a[r], k + r / 2 * 2, int(args.size_d));
        }
        unsigned read[4][2];
        if (s >= kept) queries.read(read, step);
        const auto& b = s < kept ? queries.b[s < kept ? s : 0] : read;
#pragma unroll
        for (int n = 0; n < 4; ++n) tile.multiply(n, a, b[n][0], b[n][1]);
      }
    }
  }

  // 0 times a negative factor is +0, as ties are told by their bits.
  static __device__ __forceinline__ void finish_rows(Tile& tile, const Rows& from) {
    if (!feature::normalize &&
        !__any_sync(all_lanes, from.factor[0] != from.factor[0] || from.factor[1] != from.factor[1]))
      return;
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i)
#pragma unroll
      for (int j = 0; j < Tile::columns; ++j) tile.at(i, j) = fmaf(tile.at(i, j), from.factor[i], 0.0f);
  }

  // --- reduce and store ----------------------------------------------------------------------------------------------

  // All of the team have come here.
  static __device__ __forceinline__ void meet(int team_index) {
    if constexpr (team == 1) __syncwarp();
    else if constexpr (team == warps) __syncthreads();
    else ptx::named_barrier(1 + team_index, 32 * team);
  }

  // An infinity times the row is not its product with the centroid plus that with the weights, which may be infinities
  // of two signs. Such a query token's products are made again, one by one, in place of the partial maxima.
  static __device__ __forceinline__ void redo_infinite_columns(const Args& args, const Work& work, long long document,
                                                               int chunk, unsigned infinite_columns, int buffer, int warp,
                                                               int lane) {
    const int length = work.walk.read_length(document);
    const long long start = work.walk.read_start(document);
    if (!work.walk.is_inside(start, length)) return;
    const QueryRow<Element, columns> query_rows{args, work.group, chunk};
#pragma unroll 1
    for (int column = 0; column < columns; ++column) {
      if ((infinite_columns >> column & 1) == 0) continue;
      Best<feature::save_argmax> best{-infinity, -1};
#pragma unroll 1
      for (int t = warp % team * 32 + lane; t < length; t += 32 * team)
        best.update(product(args, start + t, query_rows(column)), t);
#pragma unroll
      for (int mask = 16; mask > 0; mask /= 2) best.merge(best.from_lane(mask));
      if (lane != 0) continue;
      small().partial_value[buffer][warp][column] = best.value;
      if constexpr (feature::save_argmax) small().partial_index[buffer][warp][column] = best.index;
    }
  }

  static __device__ __forceinline__ float product(const Args& args, long long token, const Element* query) {
    const int code = checked_code(args, static_cast<const int*>(args.codes.data)[token * args.codes.stride[0]]);
    if (code < 0) return __uint_as_float(0x7fffffffu);
    const auto* centroid = static_cast<const Element*>(args.centroids.data) + code * args.centroids.stride[0];
    const auto* bits = static_cast<const unsigned char*>(args.residuals.data) + token * args.residuals.stride[0];
    float sum = 0.0f;
#pragma unroll 1
    for (int k = 0; k < int(args.size_d); ++k) {
      const int at = k * nbits;
      const unsigned field = bits[at / 8 * args.residuals.stride[1]] >> field_shift(at % 8, nbits) & ((1 << nbits) - 1);
      const float weight = Numeric<type>::widen(weight_at(args, in_stream_order(field, nbits)));
      const float x = Numeric<type>::widen(centroid[k * args.centroids.stride[1]]) + weight;
      sum = fmaf(Numeric<type>::widen(query[k * args.q.stride[2]]), x, sum);
    }
    if constexpr (feature::normalize)
      sum = fmaf(sum, static_cast<const float*>(args.d_inv_norms.data)[token * args.d_inv_norms.stride[0]], 0.0f);
    return sum;
  }

  // Partial maxima alternate between two buffers: one meeting a (document, chunk).
  static __device__ __forceinline__ void finish_chunk(const Args& args, const Work& work, long long document, int chunk,
                                                      bool is_empty, unsigned infinite_columns, Maxima& maxima,
                                                      int buffer, int warp, int lane) {
    const Group& group = work.group;
    ptx::hold(lane), ptx::hold(buffer);  // or addresses are worked out before the loop, and spilled
    const int first_warp = warp / team * team, member = warp % team;
    maxima.reduce(lane, [&](int column, Best<feature::save_argmax> best) {
      small().partial_value[buffer][warp][column] = best.value;
      if constexpr (feature::save_argmax) small().partial_index[buffer][warp][column] = best.index;
    });
    if (infinite_columns != 0) {
      __syncwarp();
      redo_infinite_columns(args, work, document, chunk, infinite_columns, buffer, warp, lane);
    }
    meet(warp / team);
#pragma unroll 1
    for (int query = member; query < group.queries; query += team) {
      const double total = sum_tokens(
          args, group, document, chunk, query, is_empty ? -1 : 0, lane, chunk == 0 ? 0.0 : small().carried[warp],
          [=](int column) { return best_of(buffer, first_warp, column); },
          [](int, Best<feature::save_argmax>& best) { return best.value; },
          [&](int column) { return keeps(args, group, chunk, column); });
      __syncwarp();
      if (lane != 0) continue;
      if (chunk + 1 < group.chunks) small().carried[warp] = total;
      else
        static_cast<float*>(args.scores.data)[(group.first_query + query) * args.scores.stride[0] +
                                              document * args.scores.stride[1]] = float(total);
    }
  }

  static __device__ __forceinline__ Best<feature::save_argmax> best_of(int buffer, int first_warp, int column) {
    const auto partial = [=](int w) -> Best<feature::save_argmax> {
      return {small().partial_value[buffer][first_warp + w][column],
              feature::save_argmax ? small().partial_index[buffer][first_warp + w][column] : -1};
    };
    Best<feature::save_argmax> best = partial(0);
#pragma unroll
    for (int w = 1; w < team; ++w) best.merge(partial(w));
    return best;
  }

  static __device__ __forceinline__ bool keeps(const Args& args, const Group& group, int chunk, int column) {
    if constexpr (!feature::q_mask) return true;
    const Group::Token token = group.token(args, chunk, column);
    const auto* mask = static_cast<const unsigned char*>(args.q_mask.data);
    return mask[token.query * args.q_mask.stride[0] + token.s * args.q_mask.stride[1]] != 0;
  }

  // --- a team --------------------------------------------------------------------------------------------------------

  static __device__ __forceinline__ void score_group(const Args& args, const Work& work, long long first_document,
                                                     bool special, int warp, int lane) {
    const int member = warp % team, chunks = work.group.chunks;
    Cursor ahead;
    ahead.start(work.walk, first_document);
    // `ahead` is where codes are on their way, or here.
    Codes codes;
    codes.load(args, coming_of(ahead, work.walk, member), member, lane);
    const auto load = [&](Place& place, Rows& rows) {
      const Coming coming = coming_of(ahead, work.walk, member);
      place = coming;
      rows.load(args, work.table, codes, coming, member, lane);
      if (coming.is_end()) return;
      ahead.advance(work.walk);
      codes.load(args, coming_of(ahead, work.walk, member), member, lane);
    };

    Maxima maxima;
    Queries queries;
    unsigned infinite_columns = 0;
    long long document = first_document;
    int chunk = 0, buffer = 0;
    bool has_queries = false;

    // Scores the place whose rows are here, while the next one's come. False: that was the last.
    const auto step = [&](Place& place, Rows& here, Place& next, Rows& there) -> bool {
      if (place.is_end()) return false;
      load(next, there);
      if (place.t == 0) {
        if (!has_queries || chunks > 1) {
          ptx::hold(chunk);  // or what follows is worked out before the loop, and spilled
          const uint4* of_chunk = Prepared::queries(args, chunks, work.group_of_round, chunk);
          queries.load(of_chunk, lane);
          infinite_columns = of_chunk[Prepared::infinite_at].x;
          has_queries = true;
        }
        maxima.reset();
      }
      if (place.present(member) > 0) {
        multiply(args, here.table, here, queries, document, place, member, special, lane);
        finish_rows(here.table, here);
        maxima.update(here.table, place.t + member * rows, lane);
      }
      if (place.is_last()) {
        finish_chunk(args, work, document, chunk, place.left == 0, infinite_columns, maxima, buffer, warp, lane);
        buffer ^= 1;
        if (++chunk == chunks) chunk = 0, document += work.walk.document_step;
      }
      return true;
    };

    Place places[2];
    Rows loaded[2] = {};
    load(places[0], loaded[0]);
#pragma unroll 1
    while (step(places[0], loaded[0], places[1], loaded[1]) && step(places[1], loaded[1], places[0], loaded[0])) {
    }
  }

  // As in Forward: neighbouring blocks have the same document and other queries. There are blocks for every group.
  static __device__ __forceinline__ void run(const Args& args) {
    const int lane = threadIdx.x % 32, warp = __shfl_sync(all_lanes, threadIdx.x / 32, 0);  // known to be uniform
    const bool special = __syncthreads_or(small().weights.fill(args, threads));
    const Round round(args);
    const unsigned groups = unsigned(round.groups), group = blockIdx.x % groups;
    const Group queries(args, round.first + group);
    Work work{{}, queries, int(group), Prepared::table(args, round, queries.chunks, int(group), 0)};
    work.walk.set_documents(args);
    work.walk.document_step = (long long)(gridDim.x / groups) * config::teams;
    work.walk.tile_rows = round_rows;
    work.walk.chunks = queries.chunks;
    work.walk.k_blocks = 1;
    const long long first = (long long)(blockIdx.x / groups) * config::teams + warp / team;
    if (first < work.walk.document_step) score_group(args, work, first, special, warp, lane);
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
