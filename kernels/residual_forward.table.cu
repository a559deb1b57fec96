// residual_forward, table path: <Q, row> = <Q, centroid> + <Q, weights>. The first is one of K values for each query
// token: T = centroids x Q^T, float32, made once (residual_forward_products) and then only looked up. For 16-bit rows,
// sm_80 and newer; K * 128 bytes of T for each 32 query tokens should stay in L2.
//
//   codes -----> T's row, 128 bytes ----> accumulators, 16 tokens x 32 query tokens a warp      registers
//   (two tiles   residual bytes --------> A: weights, looked up in pairs ----+ mma.sync
//    ahead)      inverse norms            B: the queries' fragments ---------+-> factor, mask -> running max
//                (cp.async, a ring                                                a document's end: one barrier,
//                of each warp's own)                                              partial maxima -> sum over s -> scores
//
// A block is a team of warps that share a document, 16 tokens each; nothing else is shared between them, so that no warp
// waits for another before a document ends. Many queries: T's columns are made in rounds (Args::round) of at most
// table_bytes, whole groups of 32 query tokens each.
//
// Bits: T's k ascends in one accumulator, with which the weights' k then go on; the rest is as in common/forward.cuh.
#include "common/ptx.cuh"
#include "common/numeric.cuh"
#include "common/tile_load.cuh"
#include "common/mma_tile.cuh"
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
constexpr int team = config::team, threads = 32 * team, stages = config::stages;
constexpr long long table_bytes = 1ll << 28;
using Group = QueryGroup<columns>;

// The groups whose T is there in one round, and where a group's is: [group's chunk][K][columns].
struct Round {
  long long first, groups;
  __device__ __forceinline__ explicit Round(const Args& args) {
    const long long fit = table_bytes / (max(args.size_K, 1ll) * columns * 4) / Group(args, 0).chunks;
    const long long most = max(fit, 1ll);
    first = args.round * most;
    groups = min(Group::count(args) - first, most);
  }
  __device__ __forceinline__ float* table(const Args& args, long long group, int chunks, int chunk) const {
    return static_cast<float*>(args.workspace) + ((group - first) * chunks + chunk) * args.size_K * columns;
  }
};

// --- T ---------------------------------------------------------------------------------------------------------------

struct Products {
  static constexpr int rows = 64, threads = 128;  // a warp: 16 centroids
  static constexpr int k_blocks = divide_up(static_size::d, 128);
  static constexpr int width = round_up(divide_up(static_size::d, k_blocks), 16), pitch = row_pitch(width, 2);
  using Tile = MmaTile<type, rows / 4, columns, width, pitch, pitch>;

  static __device__ __forceinline__ void run(const Args& args) {
    extern __shared__ __align__(16) unsigned char bytes[];
    const Round round(args);
    const int chunks = Group(args, 0).chunks;
    const long long row_tiles = (args.size_K + rows - 1) / rows, tiles = row_tiles * round.groups * chunks;
#pragma unroll 1
    for (long long tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      const long long unit = tile / row_tiles, first = (tile - unit * row_tiles) * rows;
      const long long group = round.first + unit / chunks;
      make_tile(args, Group(args, group), int(unit % chunks), first, ptx::shared_address(bytes),
                round.table(args, group, chunks, int(unit % chunks)));
    }
  }

  static __device__ __forceinline__ void make_tile(const Args& args, const Group& group, int chunk, long long first,
                                                   unsigned shared, float* table) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, d = int(args.size_d);
    const unsigned queries = shared + rows * pitch;
    Tile tile;
    tile.clear();
#pragma unroll 1
    for (int k_block = 0; k_block < k_blocks; ++k_block) {
      using Centroids = TileLoader<type, rows, width, pitch, threads, aligned16>;
      using Queries = TileLoader<type, columns, width, pitch, threads, aligned16>;
      Centroids::gather(
          shared,
          [&](int row) -> const Element* {
            return first + row < args.size_K
                       ? static_cast<const Element*>(args.centroids.data) + (first + row) * args.centroids.stride[0]
                       : nullptr;
          },
          k_block * width, d, args.centroids.stride[1], threadIdx.x);
      Queries::gather(queries, QueryRow<Element, columns>{args, group, chunk}, k_block * width, d, args.q.stride[2],
                      threadIdx.x);
      ptx::commit_copies();
      ptx::wait_copies<0>();
      __syncthreads();
      tile.multiply<false>(shared + warp * 16 * pitch, queries, lane);
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i) {
      const long long row = first + warp * 16 + Tile::row(i, lane);
#pragma unroll
      for (int j = 0; j < Tile::columns; j += 2)
        if (row < args.size_K)
          *reinterpret_cast<float2*>(table + row * columns + Tile::column(j, lane)) =
              make_float2(tile.at(i, j), tile.at(i, j + 1));
    }
  }
};

// --- scores ----------------------------------------------------------------------------------------------------------

struct TableScores {
  static constexpr int rows = 16;  // document tokens of a warp's tile
  static constexpr int k_steps = static_size::d / 16;
  static constexpr bool in_registers = k_steps <= 8;  // the queries' fragments
  static constexpr int query_pitch = row_pitch(static_size::d, 2);

  // A stage of a warp's ring: T's rows, residual bytes, norms. Pitches that meet few banks twice.
  static constexpr int table_pitch = columns * 4 + 32;
  static constexpr int bits_width = round_up(residual_bytes(static_size::d), 16), bits_pitch = row_pitch(bits_width, 1);
  static constexpr int bits_at = rows * table_pitch, norms_at = bits_at + rows * bits_pitch;
  static constexpr int stage_bytes = norms_at + rows * 4;
  static constexpr int queries_at = team * stages * stage_bytes;
  static constexpr int small_at = queries_at + columns * query_pitch;

  struct Tile {
    static constexpr int rows = 2, columns = 8;  // of one thread, as in MmaTile
    float accumulator[4][4];
    static __device__ __forceinline__ int row(int i, int lane) { return i * 8 + lane / 4; }
    static __device__ __forceinline__ int column(int j, int lane) { return j / 2 * 8 + lane % 4 * 2 + j % 2; }
    __device__ __forceinline__ float& at(int i, int j) { return accumulator[j / 2][i * 2 + j % 2]; }
  };
  using Maxima = RunningMax<Tile, feature::save_argmax>;

  // What a warp has to know of a tile when it comes to it.
  struct __align__(16) TileInfo {
    long long document;  // -1: the end
    long long token;     // of the index, the tile's first
    int t, present;      // the same within the document, and how many tokens there are
    int chunk;
    unsigned char last, first, is_empty, unused;  // of the (document, chunk)
  };
  static constexpr int infos = 8;  // stages and two more
  static_assert(stages >= 2 && stages + 2 <= infos);

  struct Small {
    WeightPairs weights;
    TileInfo info[team][infos];
    unsigned bad_rows[team][infos];
    float partial_value[2][team][columns];
    int partial_index[feature::save_argmax ? 2 : 1][team][columns];
    unsigned infinite_columns;  // query tokens with an infinity, a bit each
    unsigned char query_keep[columns];
  };
  static __device__ __forceinline__ unsigned char* shared() {
    extern __shared__ __align__(16) unsigned char bytes[];
    return bytes;
  }
  static __device__ __forceinline__ Small& small() { return *reinterpret_cast<Small*>(shared() + small_at); }
  static __device__ __forceinline__ unsigned stage_of(int warp, int slot) {
    return ptx::shared_address(shared()) + (warp * stages + slot) * stage_bytes;
  }

  struct Work {
    Walk walk;
    Group group;
    const float* table;  // of the group's first chunk
  };

  // --- load ----------------------------------------------------------------------------------------------------------

  // Notes the tile at the cursor and asks for its codes: a row per lane, -1 where there is none.
  static __device__ __forceinline__ int find(const Args& args, const Work& work, Cursor& at, int sequence, int warp,
                                             int lane) {
    TileInfo& info = small().info[warp][sequence % infos];
    if (at.done(work.walk)) {
      if (lane == 0) info.document = -1;
      return -1;
    }
    const int t = (at.tile * team + warp) * rows, present = min(max(at.length - t, 0), rows);
    if (lane == 0) {
      info.document = at.document;
      info.token = at.first == broken ? broken : at.first + t;
      info.t = t, info.present = present, info.chunk = at.chunk;
      info.last = at.tile + 1 == at.tiles, info.first = at.tile == 0, info.is_empty = at.length == 0;
    }
    int code = -1;
    if (lane < present && at.first != broken)
      code = static_cast<const int*>(args.codes.data)[(at.first + t + lane) * args.codes.stride[0]];
    at.advance(work.walk);
    return code;
  }

  // Starts the copies of a tile whose codes are here.
  static __device__ __forceinline__ void issue(const Args& args, const Work& work, int sequence, int slot, int code,
                                               int warp, int lane) {
    const TileInfo info = small().info[warp][sequence % infos];
    if (info.document < 0) return;
    code = checked_code(args, code);
    const unsigned stage = stage_of(warp, slot);
    const float* table = work.table + info.chunk * args.size_K * columns;
#pragma unroll
    for (int i = 0; i < rows / 4; ++i) {
      const int row = i * 4 + lane / 8, row_code = __shfl_sync(all_lanes, code, row);
      ptx::copy_16_if(stage + row * table_pitch + lane % 8 * 16,
                      table + (long long)max(row_code, 0) * columns + lane % 8 * 4, row_code >= 0);
    }
    const unsigned bad = __ballot_sync(all_lanes, code < 0);
    if (lane == 0) small().bad_rows[warp][sequence % infos] = bad;
    const int present = info.token == broken ? 0 : info.present;
    const auto* first = static_cast<const unsigned char*>(args.residuals.data) + info.token * args.residuals.stride[0];
    TileLoader<DType::u8, rows, bits_width, bits_pitch, 32, aligned16>::gather(
        stage + bits_at,
        [&](int row) -> const unsigned char* {
          return row < present ? first + row * args.residuals.stride[0] : nullptr;
        },
        0, residual_bytes(int(args.size_d)), args.residuals.stride[1], lane);
    if (feature::normalize && lane < rows)
      ptx::copy_4_if(stage + norms_at + lane * 4,
                     static_cast<const float*>(args.d_inv_norms.data) + (info.token + lane) * args.d_inv_norms.stride[0],
                     lane < present);
  }

  // A chunk's queries, to shared memory. All warps are past the products with the chunk before, but one may still sum.
  static __device__ __forceinline__ void load_queries(const Args& args, const Group& group, int chunk) {
    if (group.chunks > 1) __syncthreads();
    const unsigned queries = ptx::shared_address(shared()) + queries_at;
    TileLoader<type, columns, static_size::d, query_pitch, threads, aligned16>::gather(
        queries, QueryRow<Element, columns>{args, group, chunk}, 0, int(args.size_d), args.q.stride[2], threadIdx.x);
    if constexpr (feature::q_mask) {
      for (int column = threadIdx.x; column < columns; column += threads) {
        const Group::Token token = group.token(args, chunk, column);
        const auto* mask = static_cast<const unsigned char*>(args.q_mask.data);
        small().query_keep[column] =
            token.present && mask[token.query * args.q_mask.stride[0] + token.s * args.q_mask.stride[1]] != 0;
      }
    }
    ptx::commit_copies();
    ptx::wait_copies<0>();
    __syncthreads();
    if (threadIdx.x < columns) {
      bool infinite = false;
#pragma unroll 1
      for (int unit = 0; unit < static_size::d / 8; ++unit) {
        const uint4 v = ptx::load_shared_16(queries + threadIdx.x * query_pitch + unit * 16);
        infinite |= has_infinity(v.x) || has_infinity(v.y) || has_infinity(v.z) || has_infinity(v.w);
      }
      const unsigned bits = __ballot_sync(all_lanes, infinite);
      if (threadIdx.x == 0) small().infinite_columns = bits;
    }
    __syncthreads();
  }

  static __device__ __forceinline__ bool has_infinity(unsigned pair) {
    constexpr unsigned magnitude = type == DType::bf16 ? 0x7f80u : 0x7c00u;
    return (pair & 0x7fffu) == magnitude || (pair >> 16 & 0x7fffu) == magnitude;
  }

  // --- score ---------------------------------------------------------------------------------------------------------

  // Queries as B: columns 8 n ... of 16 k, two n at a time.
  struct Fragments {
    unsigned b[in_registers ? k_steps : 1][2][4];

    static __device__ __forceinline__ unsigned address(int lane) {
      return ptx::shared_address(shared()) + queries_at + (lane % 8 + lane / 16 * 8) * query_pitch + lane / 8 % 2 * 16;
    }
    __device__ __forceinline__ void load_step(int k, int to, int lane) {
#pragma unroll
      for (int pair = 0; pair < 2; ++pair)
        ptx::load_matrices(b[to][pair], address(lane) + pair * 16 * query_pitch + k * 32);
    }
    __device__ __forceinline__ void load(int lane) {
      if constexpr (in_registers) {
#pragma unroll
        for (int k = 0; k < k_steps; ++k) load_step(k, k, lane);
      }
    }
  };

  // The weights of 16 bytes of residuals of two rows, against the queries.
  static constexpr int steps_of_16_bytes = 8 / nbits;
  static constexpr int granule = static_size::d <= 256 ? 16 : static_size::d <= 1024 ? 64 : 256;

  static __device__ __forceinline__ void multiply(const Args& args, Tile& tile, Fragments& fragments, unsigned bits,
                                                  int lane) {
    const WeightPairs& weights = small().weights;
    const int c = lane % 4;
    bits += lane / 4 * bits_pitch;
    constexpr int blocks = divide_up(k_steps, steps_of_16_bytes);
#pragma unroll(k_steps <= 16 ? blocks : 1)
    for (int block = 0; block < blocks; ++block) {
      const uint4 v = ptx::load_shared_16(bits + block * 16), w = ptx::load_shared_16(bits + 8 * bits_pitch + block * 16);
      const unsigned upper[4] = {v.x, v.y, v.z, v.w}, lower[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
      for (int i = 0; i < steps_of_16_bytes; ++i) {
        const int k = block * steps_of_16_bytes + i;
        if (k >= k_steps) continue;
        unsigned a[4] = {weights.of(upper, 2 * i, c, lane), weights.of(lower, 2 * i, c, lane),
                         weights.of(upper, 2 * i + 1, c, lane), weights.of(lower, 2 * i + 1, c, lane)};
        if (16 * (k + 1) > static_size::d - granule && 16 * (k + 1) > args.size_d) {
#pragma unroll
          for (int r = 0; r < 4; ++r) a[r] = pair_below(a[r], 16 * k + r / 2 * 8 + 2 * c, int(args.size_d));
        }
        if constexpr (!in_registers) fragments.load_step(k, 0, lane);
        const auto& b = fragments.b[in_registers ? k : 0];
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const unsigned b0 = b[n / 2][n % 2 * 2], b1 = b[n / 2][n % 2 * 2 + 1];
          if constexpr (type == DType::bf16) ptx::mma_bf16(tile.accumulator[n], a, b0, b1);
          else ptx::mma_f16(tile.accumulator[n], a, b0, b1);
        }
      }
    }
  }

  static __device__ __forceinline__ void score_tile(const Args& args, const TileInfo& info, unsigned bad,
                                                    unsigned stage, Fragments& fragments, Maxima& maxima, int lane) {
    Tile tile;
    const unsigned table = stage + lane / 4 * table_pitch + lane % 4 * 8;
#pragma unroll
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        unsigned two[2];
        ptx::load_shared_8(two, table + i * 8 * table_pitch + n * 32);
        tile.accumulator[n][2 * i] = __uint_as_float(two[0]), tile.accumulator[n][2 * i + 1] = __uint_as_float(two[1]);
      }
    multiply(args, tile, fragments, stage + bits_at, lane);
    if (small().infinite_columns != 0) score_infinite_columns(args, tile, info, bad, lane);
    finish_rows(tile, bad, stage + norms_at, lane);
    KeepRows<rows> keep;
    keep.set_first(info.present);
    if (!keep.every()) keep.apply(tile, lane);
    maxima.update(tile, info.t, lane);
  }

  // An infinity times the row is not its product with the centroid plus that with the weights, which may be infinities
  // of two signs. Such a query token's products are made again, one by one.
  static __device__ __forceinline__ void score_infinite_columns(const Args& args, Tile& tile, const TileInfo& info,
                                                                unsigned bad, int lane) {
#pragma unroll 1
    for (int element = 0; element < Tile::rows * Tile::columns; ++element) {
      const int row = Tile::row(element / Tile::columns, lane), column = Tile::column(element % Tile::columns, lane);
      const bool is_infinite = small().infinite_columns >> column & 1;
      if (!is_infinite || row >= info.present || (bad >> row & 1)) continue;
      const float value = product(args, info.token + row, column);
#pragma unroll
      for (int i = 0; i < Tile::rows; ++i)
#pragma unroll
        for (int j = 0; j < Tile::columns; ++j)
          if (i * Tile::columns + j == element) tile.at(i, j) = value;
    }
  }

  static __device__ __forceinline__ float product(const Args& args, long long token, int column) {
    const long long code = static_cast<const int*>(args.codes.data)[token * args.codes.stride[0]];
    const auto* centroid = static_cast<const Element*>(args.centroids.data) + code * args.centroids.stride[0];
    const auto* bits = static_cast<const unsigned char*>(args.residuals.data) + token * args.residuals.stride[0];
    const unsigned query = ptx::shared_address(shared()) + queries_at + column * query_pitch;
    float sum = 0.0f;
#pragma unroll 1
    for (int k = 0; k < int(args.size_d); ++k) {
      const int at = k * nbits;
      const unsigned field = bits[at / 8 * args.residuals.stride[1]] >> field_shift(at % 8, nbits) & ((1 << nbits) - 1);
      const float weight = Numeric<type>::widen(weight_at(args, in_stream_order(field, nbits)));
      const float x = Numeric<type>::widen(centroid[k * args.centroids.stride[1]]) + weight;
      sum = fmaf(Numeric<type>::widen(Element(ptx::load_shared_2(query + k * 2))), x, sum);
    }
    return sum;
  }

  // Norms; NaN for codes that are no centroid's. 0 times a negative factor is +0, as ties are told by their bits.
  static __device__ __forceinline__ void finish_rows(Tile& tile, unsigned bad, unsigned norms, int lane) {
    if (!feature::normalize && (bad & 0xffffu) == 0) return;
#pragma unroll
    for (int i = 0; i < Tile::rows; ++i) {
      const int row = Tile::row(i, lane);
      float factor = feature::normalize ? __uint_as_float(ptx::load_shared_4(norms + row * 4)) : 1.0f;
      if (bad >> row & 1) factor = __uint_as_float(0x7fffffffu);
#pragma unroll
      for (int j = 0; j < Tile::columns; ++j) tile.at(i, j) = fmaf(tile.at(i, j), factor, 0.0f);
    }
  }

  // --- reduce and store ----------------------------------------------------------------------------------------------

  static __device__ __forceinline__ Best<feature::save_argmax> best_of(int buffer, int column) {
    const auto partial = [=](int w) -> Best<feature::save_argmax> {
      return {small().partial_value[buffer][w][column], feature::save_argmax ? small().partial_index[buffer][w][column] : -1};
    };
    Best<feature::save_argmax> best = partial(0);
#pragma unroll
    for (int w = 1; w < team; ++w) best.merge(partial(w));
    return best;
  }

  // Partial maxima alternate between two buffers: one barrier a (document, chunk).
  static __device__ __forceinline__ void finish_chunk(const Args& args, const Group& group, const TileInfo& info,
                                                      Maxima& maxima, int buffer, int warp, int lane, double& carried) {
    maxima.reduce(lane, [&](int column, Best<feature::save_argmax> best) {
      small().partial_value[buffer][warp][column] = best.value;
      if constexpr (feature::save_argmax) small().partial_index[buffer][warp][column] = best.index;
    });
    __syncthreads();
#pragma unroll 1
    for (int query = warp; query < group.queries; query += team) {
      carried = sum_tokens(
          args, group, info.document, info.chunk, query, info.is_empty ? -1 : 0, lane, info.chunk == 0 ? 0.0 : carried,
          [=](int column) { return best_of(buffer, column); },
          [](int, Best<feature::save_argmax>& best) { return best.value; },
          [](int column) { return small().query_keep[column] != 0; });
      if (info.chunk + 1 == group.chunks && lane == 0)
        static_cast<float*>(args.scores.data)[(group.first_query + query) * args.scores.stride[0] +
                                              info.document * args.scores.stride[1]] = float(carried);
    }
  }

  // --- the block -----------------------------------------------------------------------------------------------------

  static __device__ __forceinline__ void score_group(const Args& args, const Work& work, long long first_document) {
    const int lane = threadIdx.x % 32, warp = __shfl_sync(all_lanes, threadIdx.x / 32, 0);  // known to be uniform
    Cursor ahead;
    ahead.start(work.walk, first_document);
    int code = find(args, work, ahead, 0, warp, lane), next_code = find(args, work, ahead, 1, warp, lane);
    int sequence = 0, slot = 0, free_slot = 0, buffer = 0;
    const auto issue_next = [&](int issued) {
      __syncwarp();
      issue(args, work, issued, free_slot, code, warp, lane);
      ptx::commit_copies();
      free_slot = free_slot + 1 == stages ? 0 : free_slot + 1;
      code = next_code;
      next_code = find(args, work, ahead, issued + 2, warp, lane);
    };
#pragma unroll 1
    for (int i = 0; i < stages - 1; ++i) issue_next(i);
    Fragments fragments;
    Maxima maxima;
    double carried = 0.0;
    bool has_queries = false;
#pragma unroll 1
    for (;; ++sequence) {
      ptx::wait_copies<stages - 2>();
      __syncwarp();
      const TileInfo info = small().info[warp][sequence % infos];
      if (info.document < 0) break;
      const unsigned bad = small().bad_rows[warp][sequence % infos];
      issue_next(sequence + stages - 1);
      if (info.first) {
        if (!has_queries || work.group.chunks > 1) {
          load_queries(args, work.group, info.chunk);
          fragments.load(lane);
          has_queries = true;
        }
        maxima.reset();
      }
      score_tile(args, info, bad, stage_of(warp, slot), fragments, maxima, lane);
      slot = slot + 1 == stages ? 0 : slot + 1;
      if (info.last) {
        finish_chunk(args, work.group, info, maxima, buffer, warp, lane, carried);
        buffer ^= 1;
      }
    }
    ptx::wait_copies<0>();
    __syncthreads();
  }

  // As in Forward: neighbouring blocks have the same document and other queries.
  static __device__ __forceinline__ void run(const Args& args) {
    small().weights.fill(args, threads);
    __syncthreads();
    const Round round(args);
    const unsigned lanes = unsigned(round.groups < gridDim.x ? round.groups : gridDim.x);
    Walk walk;
    walk.set_documents(args);
    walk.document_step = gridDim.x / lanes;
    walk.tile_rows = rows * team;
    walk.k_blocks = 1;
#pragma unroll 1
    for (long long group = blockIdx.x % lanes; group < round.groups; group += lanes) {
      Work work{walk, Group(args, round.first + group), nullptr};
      work.walk.chunks = work.group.chunks;
      work.table = round.table(args, round.first + group, work.group.chunks, 0);
      if (blockIdx.x / lanes < walk.document_step) score_group(args, work, blockIdx.x / lanes);
    }
  }
};

}  // namespace msj

extern "C" __global__ void __launch_bounds__(msj::Products::threads)
    residual_forward_products(const __grid_constant__ msj::Args args) {
  msj::Products::run(args);
}

extern "C" __global__ void __launch_bounds__(msj::threads, msj::config::min_blocks)
    residual_forward(const __grid_constant__ msj::Args args) {
  msj::TableScores::run(args);
}
