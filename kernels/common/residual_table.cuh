#pragma once
// <Q, row> = <Q, centroid> + <Q, weights>. The first is one of K values for each query token: T = centroids x Q^T,
// float32, made once by the first of two kernels and then only looked up by the second. Many queries: T's columns are
// made in rounds (Args::round) of at most 256 MiB, whole groups of 32 query tokens each.

namespace msj {

constexpr int columns = 32;  // query tokens of a group
using Group = QueryGroup<columns>;
constexpr int table_rows = 1 << 21;  // of T in a round: 256 MiB
constexpr int most_chunks = 4096;  // of a round: with few centroids, the queries are what takes memory

// The groups whose T is there in one round: at most 2^21, of 128 bytes each.
struct Round {
  long long first;
  int groups;
  __device__ __forceinline__ explicit Round(const Args& args) {
    const int fit = table_rows / int(max(min(args.size_K, (long long)table_rows + 1), 1ll));
    const long long most = max(min(fit, most_chunks) / Group(args, 0).chunks, 1);
    first = args.round * most;
    groups = int(min(Group::count(args) - first, most));
  }
};

template <DType type>
__device__ __forceinline__ void multiply_16x8(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  if constexpr (type == DType::bf16) ptx::mma_bf16(c, a, b0, b1);
  else ptx::mma_f16(c, a, b0, b1);
}

// What the first kernel leaves in the workspace: Q as the second kernel multiplies it, then T, of each of the round's
// groups and their chunks.
struct Prepared {
  static constexpr int steps = quarter_steps<static_size::d>;  // k steps, of 4 features of each lane
  static constexpr int infinite_at = round_up(steps, 4) * 2 * 32, queries_size = infinite_at + 8;

  // Then .x: which query tokens have an infinity, a bit each.
  static __device__ __forceinline__ uint4* queries(const Args& args, int chunks, int group, int chunk) {
    return static_cast<uint4*>(args.workspace) + ((long long)group * chunks + chunk) * queries_size;
  }
  // [K][32]
  static __device__ __forceinline__ float* table(const Args& args, const Round& round, int chunks, int group,
                                                 int chunk) {
    return reinterpret_cast<float*>(queries(args, chunks, round.groups, 0)) +
           ((long long)group * chunks + chunk) * args.size_K * columns;
  }
};

// --- T ---------------------------------------------------------------------------------------------------------------

// A warp: two tiles of 16 centroids, of whose rows a lane reads 8 features of each 32. Order: of Q, and of T's columns:
// store_row(row, sums, i, c), of the columns 2 c and 2 c + 1 of each 8 that lane 4 g + c has in sums[n][2 i ...].
template <class Order, int blocks>
struct TableProducts {
  static constexpr int tiles = 2, rows = 16 * tiles, threads = 128, block_rows = 4 * rows;
  static constexpr int min_blocks = blocks;  // of a multiprocessor, as many as registers allow
  static constexpr int steps = divide_up(static_size::d, 32);

  static __device__ __forceinline__ void run(const Args& args) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const Round round(args);
    const int chunks = Group(args, 0).chunks;
    const unsigned units = unsigned(round.groups) * chunks;  // of at least 128 bytes each in 256 MiB, or one group's
    const unsigned row_tiles = unsigned((args.size_K + block_rows - 1) / block_rows);
    const bool whole = aligned16 && args.size_d % 8 == 0;
#pragma unroll 1
    for (unsigned unit = blockIdx.x; unit < units; unit += gridDim.x) {
      const int group = int(unit / chunks), chunk = int(unit % chunks);
      repack(args, Group(args, round.first + group), chunk, Prepared::queries(args, chunks, group, chunk), warp, lane);
    }
#pragma unroll 1
    for (unsigned tile = blockIdx.x; tile < row_tiles * units; tile += gridDim.x) {
      const unsigned unit = tile / row_tiles;
      const int group = int(unit / chunks), chunk = int(unit % chunks);
      const long long first = (long long)(tile - unit * row_tiles) * block_rows + warp * rows;
      if (first >= args.size_K) continue;
      const Group of_tile(args, round.first + group);
      const QueryRow<Element, columns> queries{args, of_tile, chunk};
      float* table = Prepared::table(args, round, chunks, group, chunk);
      float sums[tiles][4][4] = {};
      if (whole) multiply(sums, args, queries, first, lane);
#pragma unroll
      for (int t = 0; t < tiles; ++t) {
        if (!whole) multiply_anywhere(sums[t], args, queries, first + 16 * t, lane);
        store(sums[t], args, table, first + 16 * t, lane);
      }
    }
  }

  static __device__ __forceinline__ const Element* centroid(const Args& args, long long row) {
    return static_cast<const Element*>(args.centroids.data) + min(row, args.size_K - 1) * args.centroids.stride[0];
  }

  // Rows of aligned, whole units of 8 features.
  static __device__ __forceinline__ void multiply(float (&sums)[tiles][4][4], const Args& args,
                                                  const QueryRow<Element, columns>& query_rows, long long first,
                                                  int lane) {
    const int d = int(args.size_d), c = lane % 4;
    const Element *row[tiles * 2], *query[4];
#pragma unroll
    for (int i = 0; i < tiles * 2; ++i) row[i] = centroid(args, first + lane / 4 + 8 * i);
#pragma unroll
    for (int n = 0; n < 4; ++n) query[n] = query_rows(n * 8 + lane / 4);
#pragma unroll 1
    for (int begin = 0; begin < steps; begin += steps_at_a_time) {
      uint4 a[steps_at_a_time][tiles * 2];
#pragma unroll
      for (int s = 0; s < steps_at_a_time; ++s) {
        const int k = (begin + s) * 32 + c * 8;
#pragma unroll
        for (int i = 0; i < tiles * 2; ++i) a[s][i] = k < d ? ptx::load_global_16(row[i] + k) : uint4{};
      }
#pragma unroll
      for (int s = 0; s < steps_at_a_time; ++s) {
        const int k = (begin + s) * 32 + c * 8;
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const uint4 b = query[n] && k < d ? *reinterpret_cast<const uint4*>(query[n] + k) : uint4{};
#pragma unroll
          for (int tile = 0; tile < tiles; ++tile) {
            const uint4 &upper = a[s][2 * tile], &lower = a[s][2 * tile + 1];
            multiply_16x8<type>(sums[tile][n], {upper.x, lower.x, upper.y, lower.y}, b.x, b.y);
            multiply_16x8<type>(sums[tile][n], {upper.z, lower.z, upper.w, lower.w}, b.z, b.w);
          }
        }
      }
    }
  }
  static constexpr int steps_at_a_time = steps <= 4 ? steps : 2;

  // The same products in the same order, of rows that may lie anyhow: compact rather than fast.
  static __device__ __forceinline__ void multiply_anywhere(float (&sums)[4][4], const Args& args,
                                                           const QueryRow<Element, columns>& query_rows,
                                                           long long first, int lane) {
    const int d = int(args.size_d);
#pragma unroll 1
    for (int half_step = 0; half_step < 2 * steps; ++half_step) {
      const int k = half_step / 2 * 32 + lane % 4 * 8 + half_step % 2 * 4;
      const auto piece = [&](const Element* row, long long stride) {
        return gather_16<Element>(row + k * stride, stride, row ? min(d - k, 4) : 0);
      };
      const uint4 upper = piece(centroid(args, first + lane / 4), args.centroids.stride[1]);
      const uint4 lower = piece(centroid(args, first + lane / 4 + 8), args.centroids.stride[1]);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const uint4 b = piece(query_rows(n * 8 + lane / 4), args.q.stride[2]);
        multiply_16x8<type>(sums[n], {upper.x, lower.x, upper.y, lower.y}, b.x, b.y);
      }
    }
  }

  // Rows g and g + 8; of each 8 columns 2 c and 2 c + 1.
  static __device__ __forceinline__ void store(const float (&sums)[4][4], const Args& args, float* table,
                                               long long first, int lane) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const long long row = first + lane / 4 + 8 * i;
      if (row < args.size_K) Order::store_row(table + row * columns, sums, i, lane % 4);
    }
  }

  // A block: one chunk's queries, warp n columns 8 n ... .
  static __device__ __forceinline__ void repack(const Args& args, const Group& group, int chunk, uint4* prepared, int n,
                                                int lane) {
    static_assert(threads / 32 == columns / 8);
    auto* words = reinterpret_cast<unsigned*>(prepared);
    const bool is_infinite = reorder_queries<Order>(args, group, chunk, n, lane,
                                                    [=](int word, unsigned pair) { words[word] = pair; });
    extern __shared__ __align__(128) unsigned char bytes[];
    auto* of_warp = reinterpret_cast<unsigned*>(bytes);
    const unsigned lanes = __ballot_sync(all_lanes, is_infinite);
    if (lane == 0) {
      unsigned infinite = 0;
      for (int g = 0; g < 8; ++g) infinite |= unsigned((lanes >> 4 * g & 15u) != 0) << (n * 8 + g);
      of_warp[n] = infinite;
    }
    __syncthreads();
    if (threadIdx.x == 0) prepared[Prepared::infinite_at].x = of_warp[0] | of_warp[1] | of_warp[2] | of_warp[3];
    __syncthreads();
  }
};

// --- infinities -----------------------------------------------------------------------------------------------------

__device__ __forceinline__ float product_of(const Args& args, long long token, const Element* query) {
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

// An infinity times the row is not its product with the centroid plus that with the weights, which may be infinities of
// two signs. The maxima of such query tokens are made again, of products made one by one, by the `members` warps of
// which this is one: store(column, best), by lane 0.
template <class Store>
__device__ __forceinline__ void redo_infinite_columns(const Args& args, const Group& group, long long start, int length,
                                                      int chunk, unsigned infinite_columns, int member, int members,
                                                      int lane, Store store) {
  const QueryRow<Element, columns> query_rows{args, group, chunk};
#pragma unroll 1
  for (int column = 0; column < columns; ++column) {
    if ((infinite_columns >> column & 1) == 0) continue;
    Best<feature::save_argmax> best{-infinity, -1};
#pragma unroll 1
    for (int t = member * 32 + lane; t < length; t += 32 * members)
      best.update(product_of(args, start + t, query_rows(column)), t);
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) best.merge(best.from_lane(mask));
    if (lane == 0) store(column, best);
  }
}

}  // namespace msj
