#pragma once
// Rows of the hopper forward ops that are D's as they lie in memory [Nd, Ld, d]: one warp a scorer brings them in, a box
// of 64 tokens x 128 bytes a tensor copy, and the document mask's bits beside them.

namespace msj {

template <class Op, class Block>
struct TensorRows {
  // All of Ld or, of each document, the first d_lengths.
  struct Span {
    int length;

    static __device__ __forceinline__ Span read(const Args& args, unsigned document) {
      const auto* lengths = static_cast<const int*>(args.d_lengths.data);
      const int length = lengths ? lengths[document * args.d_lengths.stride[0]] : int(args.size_Ld);
      return {min(max(length, 0), int(args.size_Ld))};
    }
  };

  static constexpr int shared_bytes = 0;
  struct Shared {};
  static __device__ __forceinline__ void fill(const Args&, Shared&, int) {}

  // Whether rows need more than their copies: copy_rows(args, document, first_t, extras, lane), cp.async of one warp.
  static constexpr bool copies_rows = false;

  // Whether warps of a query_rows.cuh block make something of rows that have come.
  static constexpr bool makes_rows = false;
  struct RowMaker {
    __device__ __forceinline__ void add(unsigned, int, int) {}
    template <class Extras>
    __device__ __forceinline__ void store(const Args&, const Document&, int, Extras&, int, int) const {}
  };

  static constexpr int loaders = 1;
  static constexpr int arrivals = ptx::arriving_lanes;  // and 32 with rows

  static __device__ __forceinline__ void prefetch_maps(const Args& args) { ptx::prefetch_map(args.map_d); }

  // The document mask, of four tiles at a time so that not each waits for memory. Lane w packs rows 32 * w, ...
  struct MaskRows {
    static constexpr int tiles = 4, words = 2 * tiles;
    bool keep[words];
    unsigned word;

    __device__ __forceinline__ void load(const Args& args, const Document& document, int first_t, int lane) {
      const auto* mask = static_cast<const unsigned char*>(args.d_mask.data) + document.index * args.d_mask.stride[0];
#pragma unroll
      for (int i = 0; i < words; ++i) {
        const int t = first_t + i * 32 + lane;
        keep[i] = t < document.length && mask[t * args.d_mask.stride[1]] != 0;
      }
    }
    __device__ __forceinline__ void pack(int lane) {
#pragma unroll
      for (int i = 0; i < words; ++i) {
        const unsigned packed = __ballot_sync(all_lanes, keep[i]);
        if (lane == i) word = packed;
      }
    }
    __device__ __forceinline__ void store(unsigned (&keep_rows)[2], int tile, int lane) const {
      if (lane / 2 == tile % tiles) keep_rows[lane % 2] = word;
    }
  };

  // With a mask, a tile's last stage is full when its rows' bits are there too; the copies do not wait for them.
  template <class Walk>
  static __device__ __forceinline__ void load_documents(const Args& args, const Walk& walk, int scorer, int, int lane) {
    typename Block::Place place;
    Spans<Span> spans(args, walk.first + scorer);
    MaskRows mask;
    walk.visit([&](const Pass& pass) {
      const Document document{pass.first_document + scorer, spans.of(args, pass, walk.after(pass) + scorer).length};
#pragma unroll 1
      for (int first_t = 0; first_t < document.length; first_t += tile_rows) {
        const int tile = first_t / tile_rows;
#pragma unroll 1
        for (int stage = 0; stage < Block::tile_stages; ++stage) {
          const bool is_last = stage + 1 == Block::tile_stages, with_mask = feature::d_mask && is_last;
          const bool loads_mask = with_mask && tile % MaskRows::tiles == 0;
          if (loads_mask) mask.load(args, document, first_t, lane);
          const unsigned full = Block::full_barrier(scorer, place.slot);
          Block::wait_free(scorer, place);
          if (lane == 0) {
            if (with_mask) ptx::barrier_expect(full, Block::stage_bytes);
            else ptx::barrier_arrive_expect(full, Block::stage_bytes);
#pragma unroll
            for (int box = 0; box < Block::stage_boxes; ++box)
              ptx::copy_box(Block::stage_address(scorer, place.slot) + box * box_bytes, args.map_d,
                            (stage * Block::stage_boxes + box) * Block::k_block, first_t, int(document.index), full);
          }
          if constexpr (Op::copies_rows) {
            if (is_last) Op::copy_rows(args, document, first_t, Block::small().row_extras[scorer][place.slot], lane);
            ptx::barrier_arrive_after_copies(full);
          }
          if (loads_mask) mask.pack(lane);
          if (with_mask) {
            mask.store(Block::small().keep_rows[scorer][place.slot], tile, lane);
            ptx::barrier_arrive_warp(full, lane);
          } else {
            ptx::barrier_arrive_with_expecting_lane(full, lane);
          }
          __syncwarp();
          place.advance();
        }
      }
    });
  }
};

}  // namespace msj
