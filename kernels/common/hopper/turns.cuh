#pragma once
// Parts of a tile by turns: the max costs a good part of the products' time, so the two run side by side, in a scorer
// too. The columns are scored in an even number of parts, in two sets of accumulators by turns: while one part's maxima
// are taken, the next part's products run, or the next tile's.
//
//   products    part 0, tile t | part 1, tile t | part 0, tile t + 1 | part 1, tile t + 1 | ...
//   maxima                     | part 0, tile t | part 1, tile t     | part 0, tile t + 1 | ...
//
// The ring holds two tiles at least. An op says in its class, beside what HopperForward asks for:
//   width                                                           of a token: at least 1
//   start_products(tile, place, queries, part, scorer)              the products of a part with all of d
//   Rows, rows_of(args, document, first_t, place, scorer, warp, lane)   what one thread needs of a tile's rows
//   finish_part<is_last>(args, document, tile, rows, first_t, warp, lane, maxima)   is_last: of the document's tiles

namespace msj {

template <class Op>
struct Turns {
  using Block = HopperForward<Op>;
  using Tile = typename Block::Tile;
  using Maxima = typename Block::Maxima;
  using Place = typename Block::Place;
  static constexpr int parts = Block::parts;

  // Starts a part; the first one waits for the tile's stages, of which `place` is the first.
  static __device__ __forceinline__ void start(Tile& tile, Place place, unsigned queries, int part, int scorer) {
    if (part == 0) {
      Place full = place;
#pragma unroll
      for (int stage = 0; stage < Block::tile_stages; ++stage, full.advance()) Block::wait_full(scorer, full);
    }
    Op::start_products(tile, place, queries, part, scorer);
  }

  static __device__ __forceinline__ void finish(Tile& tile) {
    ptx::products_wait<0>();
    ptx::hold(tile.value);
  }

  // The tile whose stages begin at `place` and whose first part is in tile[0]. Leaves the next tile's first part there.
  template <bool is_last>
  static __device__ __forceinline__ void score_tile(const Args& args, const Op& op, Tile (&tile)[2],
                                                    const Document& document, int first_t, Place& place,
                                                    unsigned queries, int& first_active, int scorer, int warp, int lane,
                                                    Maxima (&maxima)[parts]) {
    const Place here = place;
#pragma unroll
    for (int stage = 0; stage < Block::tile_stages; ++stage) place.advance();
    typename Op::Rows rows;
#pragma unroll
    for (int part = 0; part < parts; ++part) {
      Tile& done = tile[part % 2];
      Tile& next = tile[(part + 1) % 2];
      const bool is_last_part = part + 1 == parts, starts_next = !is_last_part || !is_last;
      if (starts_next) start(next, is_last_part ? place : here, queries, is_last_part ? 0 : part + 1, scorer);
      if (starts_next) ptx::end_block(op.width == -1 - 2 * part);  // all products are on their way
      if (part == 0) {
        rows = op.rows_of(args, document, first_t, here, scorer, warp, lane);
        first_active =
            Block::first_active_after(first_active, first_t, Block::keep_words(scorer, Block::last_stage(here)));
      }
      op.template finish_part<is_last>(args, document, done, rows, first_t, warp, lane, maxima[part]);
      if (starts_next) ptx::end_block(op.width == -2 - 2 * part);  // the maxima, then the wait
      if (starts_next) finish(next);
      if (part + 2 == parts) Block::release_tile(scorer, here, lane);
    }
  }

  // The tiles of one document. Its first active token, -1: none.
  static __device__ __forceinline__ int score_document(const Args& args, const Op& op, const Document& document,
                                                       Place& place, unsigned queries, int scorer, int warp, int lane,
                                                       Maxima (&maxima)[parts]) {
    static_assert(parts % 2 == 0 && Block::stages >= 2 * Block::tile_stages);
    int first_active = -1, first_t = 0;
    if (document.length == 0) return first_active;
    Tile tile[2];
    start(tile[0], place, queries, 0, scorer);
    finish(tile[0]);
#pragma unroll 1
    for (; first_t + tile_rows < document.length; first_t += tile_rows)
      score_tile<false>(args, op, tile, document, first_t, place, queries, first_active, scorer, warp, lane, maxima);
    score_tile<true>(args, op, tile, document, first_t, place, queries, first_active, scorer, warp, lane, maxima);
    return first_active;
  }
};

}  // namespace msj
