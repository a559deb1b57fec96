// residual_forward, hopper path (sm_90a; bf16, fp16 rows): as the gather path, with rows that are made for the tensor
// cores of the block in common/hopper/forward.cuh.
//
//   codes (a tile ahead) ---> centroid units of 16 bytes ------> ring of the scorer: row = centroid + weights, in place
//                             (cp.async, a stage ahead)              ^
//                             their residual bits (registers) -------+ (tables in shared memory)
//
// A row whose code is no centroid's is NaN in the ring; of a document that is not inside the index there is one such
// row. What follows of the index is asked of L2 a document ahead.
//
// Bits: a row's elements are rounded once; k ascends 16 at a time in one accumulator.
#include "common/ptx.cuh"
#include "common/numeric.cuh"
#include "common/tile_load.cuh"
#include "common/running_max.cuh"
#include "common/group.cuh"
#include "common/token_sum.cuh"
#include "common/residual.cuh"
#include "common/hopper/mbarrier.cuh"
#include "common/hopper/tensor_copy.cuh"
#include "common/hopper/wgmma.cuh"
#include "common/hopper/row_max.cuh"
#include "common/hopper/passes.cuh"
#include "common/hopper/query_columns.cuh"
#include "common/hopper/forward.cuh"
#include "common/hopper/half_products.cuh"

namespace msj {

constexpr DType type = dtype::q;
static_assert(dtype::centroids == type && type != DType::f32);

struct ResidualHopper {
  using Block = HopperForward<ResidualHopper>;
  static constexpr int element_bytes = 2;
  static constexpr int parts = block_query < 256 ? 1 : feature::save_argmax ? 4 : 2;
  using Tile = WarpgroupTile<block_query / parts>;

  static constexpr int query_extra_bytes = 0, row_extra_bytes = 4;
  struct QueryExtras {};
  struct RowExtras {
    float factor[feature::normalize ? tile_rows : 1];  // inverse norms
  };
  using Shared = WeightPairs;
  static constexpr int shared_bytes = sizeof(Shared);
  static __device__ __forceinline__ void fill(const Args& args, Shared& tables, int) {
    tables.fill(args, Block::threads);
  }

  __device__ __forceinline__ explicit ResidualHopper(const Args&) {}

  // --- load ----------------------------------------------------------------------------------------------------------

  static constexpr bool prepares = false;
  static __device__ __forceinline__ void prepare_column(const Args&, const Group::Token&, int, int, int, int) {}

  static constexpr int loaders = config::loaders, arrivals = loaders * ptx::arriving_lanes;
  static __device__ __forceinline__ void prefetch_maps(const Args&) {}

  // A document's tokens in the index. Of one that is not inside it nothing is read: it is one token, of no centroid.
  struct Span {
    long long first;
    int length, readable;

    static __device__ __forceinline__ Span read(const Args& args, unsigned document) {
      const long long first = static_cast<const long long*>(args.d_starts.data)[document * args.d_starts.stride[0]];
      const int length = static_cast<const int*>(args.d_lengths.data)[document * args.d_lengths.stride[0]];
      const bool is_inside = length == 0 || (length > 0 && first >= 0 && first <= args.size_N - length);
      return is_inside ? Span{first, length, length} : Span{0, 1, 0};
    }
  };

  // Codes of a tile's rows, two a lane; -1: no centroid's.
  struct Codes {
    int code[2];

    __device__ __forceinline__ Codes(const Args& args, const Span& span, int first_t, int lane) {
      const auto* codes = static_cast<const int*>(args.codes.data);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int t = first_t + half * 32 + lane;
        code[half] = t < span.readable
                         ? checked_code(args, ptx::load_global_4(codes + (span.first + t) * args.codes.stride[0]))
                         : -1;
      }
    }
    // Of any row; the whole warp asks.
    __device__ __forceinline__ int of(int row) const {
      const int low = __shfl_sync(all_lanes, code[0], row % 32), high = __shfl_sync(all_lanes, code[1], row % 32);
      return row < 32 ? low : high;
    }
  };

  // A warp makes some rows of a stage at a time, neighbouring units of 8 features in neighbouring lanes: a lane's unit
  // is always the same one. Warps take turns at who is first, as the last of them may have fewer rows.
  static constexpr int units = Block::stage_boxes * row_bytes / 16, rows_at_once = 32 / units;
  static constexpr int lane_rows = divide_up(tile_rows, loaders * rows_at_once);  // of a stage, at most
  static constexpr int bit_words = nbits == 8 ? 2 : 1;

  // A stage on its way: centroids' units in their places, to which this lane adds the weights that its bits stand for.
  struct Coming {
    int slot, rows, turn, limit;  // features of a row from this lane's unit on: nothing past them is read
    unsigned broken;              // this lane's rows whose code is no centroid's, a bit each
    unsigned bits[lane_rows][bit_words];
    bool is_coming = false;

    __device__ __forceinline__ int row(int i, int lane) const {
      return (turn + i * loaders) * rows_at_once + lane / units;
    }
    __device__ __forceinline__ unsigned place(int i, int scorer, int lane) const {
      const int u = lane % units, own = row(i, lane);
      return Block::stage_address(scorer, slot) + u / 8 * box_bytes + own * row_bytes + (u % 8 ^ own % 8) * 16;
    }
  };

  // Asks for the centroids. `ragged`: d ends within a unit.
  template <bool ragged>
  static __device__ __forceinline__ void copy_centroids(const Args& args, const Codes& codes, int stage, Coming& coming,
                                                        int scorer, int lane) {
    const int k = (stage * units + lane % units) * 8;
    const auto* centroid = static_cast<const unsigned short*>(args.centroids.data) + k;
    coming.limit = int(args.size_d) - k, coming.broken = 0;
#pragma unroll
    for (int i = 0; i < lane_rows; ++i) {
      const int row = coming.row(i, lane), code = codes.of(row % tile_rows);
      if (row >= coming.rows) continue;
      const auto* unit = centroid + code * args.centroids.stride[0];
      if (code < 0) coming.broken |= 1u << i;
      if (ragged && coming.limit < 8)
        ptx::store_shared(coming.place(i, scorer, lane),
                          gather_16<unsigned short>(unit, 1, code < 0 ? 0 : coming.limit));
      else ptx::copy_16_if(coming.place(i, scorer, lane), unit, code >= 0 && coming.limit > 0);
    }
  }

  // And for the bits, to registers.
  template <bool ragged>
  static __device__ __forceinline__ void read_bits(const Args& args, const Span& span, int first_t, int stage,
                                                   Coming& coming, int lane) {
    const int first = (stage * units + lane % units) * nbits;
    const auto* bits =
        static_cast<const unsigned char*>(args.residuals.data) + span.first * args.residuals.stride[0] + first;
    const int rows = min(span.readable - first_t, coming.rows);
#pragma unroll
    for (int i = 0; i < lane_rows; ++i) {
      const auto* fields = bits + (first_t + coming.row(i, lane)) * args.residuals.stride[0];
      const bool present = coming.row(i, lane) < rows && coming.limit > 0;
      if (ragged && coming.limit < 8) {
        const uint4 some = gather_16<unsigned char>(fields, 1, present ? residual_bytes(coming.limit) : 0);
        coming.bits[i][0] = some.x;
        if constexpr (nbits == 8) coming.bits[i][1] = some.y;
      } else if constexpr (nbits == 8) {
        coming.bits[i][0] = coming.bits[i][1] = 0;
        ptx::load_global_8_if(coming.bits[i], fields, present);
      } else {
        coming.bits[i][0] = ptx::load_global_if<nbits>(fields, present);
      }
    }
  }

  // When the centroids are there: adds the weights.
  template <bool ragged>
  static __device__ __forceinline__ void add_weights(const Coming& coming, int scorer, int lane) {
    const WeightPairs& tables = Block::small().shared;
    const unsigned kept = coming.limit > 0 ? 0xffffffffu : 0u;
#pragma unroll
    for (int i = 0; i < lane_rows; ++i) {
      if (coming.row(i, lane) >= coming.rows) continue;
      const unsigned place = coming.place(i, scorer, lane);
      const uint4 unit = ptx::load_shared_16(place);
      const unsigned no_number = (coming.broken >> i & 1) != 0 ? 0x7fff7fffu : 0u;  // makes any fp16 or bf16 NaN
      unsigned pair[4] = {unit.x, unit.y, unit.z, unit.w};
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        unsigned weights = tables.of(coming.bits[i], 0, c, lane);
        if constexpr (ragged) weights = pair_below(weights, 2 * c, coming.limit);
        pair[c] = (add_pairs<type>(pair[c], weights) & kept) | no_number;
      }
      ptx::store_shared(place, make_uint4(pair[0], pair[1], pair[2], pair[3]));
    }
  }

  template <bool ragged, int still_coming>
  static __device__ __forceinline__ void finish(Coming& coming, int scorer, int lane) {
    if (!coming.is_coming) return;
    ptx::wait_copies<still_coming>();
    add_weights<ragged>(coming, scorer, lane);
    ptx::products_see_writes();
    ptx::barrier_arrive_warp(Block::full_barrier(scorer, coming.slot), lane);
    coming.is_coming = false;
  }

  // Inverse norms of a tile's rows.
  static __device__ __forceinline__ void copy_factors(const Args& args, const Span& span, int first_t,
                                                      RowExtras& extras, int lane) {
    const auto* norms = static_cast<const float*>(args.d_inv_norms.data);
#pragma unroll
    for (int row = lane; row < tile_rows; row += 32)
      ptx::copy_4_or(ptx::shared_address(&extras.factor[row]),
                     norms + (span.first + first_t + row) * args.d_inv_norms.stride[0],
                     first_t + row < span.readable, 0x3f800000u);
  }

  // Asks L2 for what is read of a document, or of its beginning, as far as the last row's. Rows far apart are left to
  // come by themselves.
  static __device__ __forceinline__ void prefetch(const Args& args, const Span& span, int loader, int lane) {
    prefetch(args.residuals.data, args.residuals.stride[0], span, loader, lane);
    prefetch(args.codes.data, args.codes.stride[0] * 4, span, loader, lane);
    if constexpr (feature::normalize) prefetch(args.d_inv_norms.data, args.d_inv_norms.stride[0] * 4, span, loader, lane);
  }
  static __device__ __forceinline__ void prefetch(const void* data, long long stride, const Span& span, int loader,
                                                  int lane) {
    constexpr int line = 128, most = 1024;
    if (span.readable == 0 || stride < 0 || stride > 2 * line) return;
    const auto* first = static_cast<const unsigned char*>(data) + span.first * stride;
    const int bytes = (min(span.readable, most) - 1) * int(stride) + 1;
#pragma unroll 1
    for (int at = (loader * 32 + lane) * line; at < bytes; at += loaders * 32 * line) ptx::prefetch_to_l2(first + at);
  }

  static __device__ __forceinline__ void load_documents(const Args& args, const Walk<scorers>& walk, int scorer,
                                                        int loader, int lane) {
    if (args.size_d % 8 == 0) load_documents<false>(args, walk, scorer, loader, lane);
    else load_documents<true>(args, walk, scorer, loader, lane);
  }

  // A stage's centroids come while the weights of the one before it are added.
  template <bool ragged>
  static __device__ __forceinline__ void load_documents(const Args& args, const Walk<scorers>& walk, int scorer,
                                                        int loader, int lane) {
    typename Block::Place place;
    Spans<Span> spans(args, walk.first + scorer);
    Codes codes(args, spans.next, 0, lane);
    Coming coming;
    int turn = loader;
    walk.visit([&](const Pass& pass) {
      const Span span = spans.of(args, pass, walk.after(pass) + scorer);
      if (pass.chunk == 0) prefetch(args, spans.next, loader, lane);
      const Span following = pass.chunk + 1 < walk.chunks ? span : spans.next;
      if (span.length == 0) codes = Codes(args, following, 0, lane);
#pragma unroll 1
      for (int first_t = 0; first_t < span.length; first_t += tile_rows) {
        const int next_t = first_t + tile_rows;
        const Codes next = next_t < span.length ? Codes(args, span, next_t, lane) : Codes(args, following, 0, lane);
#pragma unroll 1
        for (int stage = 0; stage < Block::tile_stages; ++stage) {
          Block::wait_free(scorer, place);
          Coming after = coming;
          after.slot = place.slot, after.rows = min(span.length - first_t, tile_rows), after.turn = turn;
          after.is_coming = true;
          copy_centroids<ragged>(args, codes, stage, after, scorer, lane);
          if (feature::normalize && stage + 1 == Block::tile_stages && loader == loaders - 1)
            copy_factors(args, span, first_t, Block::small().row_extras[scorer][place.slot], lane);
          ptx::commit_copies();
          finish<ragged, 1>(coming, scorer, lane);
          read_bits<ragged>(args, span, first_t, stage, after, lane);
          coming = after;
          turn = turn + 1 < loaders ? turn + 1 : 0;
          place.advance();
        }
        codes = next;
      }
    });
    finish<ragged, 0>(coming, scorer, lane);
  }

  // --- score ---------------------------------------------------------------------------------------------------------

  // The tiles of one document. Its first active token, -1: none.
  template <class Maxima>
  __device__ __forceinline__ int score_document(const Args&, const Document& document, typename Block::Place& place,
                                                unsigned queries, int scorer, int warp, int lane,
                                                Maxima (&maxima)[parts]) const {
#pragma unroll 1
    for (int first_t = 0; first_t < document.length; first_t += tile_rows) {
      const auto start = place;
      float factor[Tile::rows];
#pragma unroll
      for (int part = 0; part < parts; ++part) {
        Tile tile;
        place = start;
        HalfProducts<Block, type>::multiply_tile(tile, place, queries, part, scorer, lane, [](unsigned) {});
        if (feature::normalize && part == 0) {
          const RowExtras& extras = Block::small().row_extras[scorer][place.slot];
#pragma unroll
          for (int i = 0; i < Tile::rows; ++i) factor[i] = extras.factor[warp * 16 + Tile::row(i, lane)];
        }
        if (part + 1 == parts) Block::release(scorer, place.slot, lane);
        finish_tile(document, first_t + warp * 16, factor, lane, tile, maxima[part]);
      }
      place.advance();
    }
    return document.length > 0 ? 0 : -1;
  }

  // A finished part of a tile: factors, then the running max over rows that are tokens.
  template <class Maxima>
  static __device__ __forceinline__ void finish_tile(const Document& document, int t, const float (&factor)[Tile::rows],
                                                     int lane, Tile& tile, Maxima& maxima) {
    if constexpr (feature::normalize) {
      // 0 times a negative factor is +0, as ties are told by their bits.
#pragma unroll
      for (int i = 0; i < Tile::rows; ++i)
#pragma unroll
        for (int j = 0; j < Tile::columns; ++j) tile.at(i, j) = fmaf(tile.at(i, j), factor[i], 0.0f);
    }
    maxima.update(tile, Block::keep_of(nullptr, 0, document.length - t), t, lane);
  }

  __device__ __forceinline__ float factored(int, Best<feature::save_argmax>& best, int, int) const {
    return best.value;
  }
};

}  // namespace msj

extern "C" __global__ void __launch_bounds__(msj::ResidualHopper::Block::threads, msj::config::min_blocks)
    residual_forward(const __grid_constant__ msj::Args args) {
  msj::HopperForward<msj::ResidualHopper>::run(args);
}
