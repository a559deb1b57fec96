#pragma once
// Products of 16-bit rows in a hopper scorer's ring with its columns, all of d in one sum: k ascends 16 at a time.

namespace msj {

template <class Block, DType type>
struct HalfProducts {
  static constexpr int parts = Block::parts, part_columns = Block::part_columns;
  using Tile = typename Block::Tile;

  // Of one stage with `part_columns` of the columns, added to those of the stages before.
  static __device__ __forceinline__ void multiply_stage(Tile& tile, unsigned documents, unsigned queries,
                                                        bool is_first) {
#pragma unroll
    for (int step = 0; step < Block::stage_steps; ++step)
      ptx::multiply_64<type, type, part_columns>(
          tile.value, ptx::matrix_descriptor(documents, step / 4 * box_bytes + step % 4 * step_bytes),
          ptx::matrix_descriptor(queries, step / 4 * query_block_bytes + step % 4 * step_bytes),
          !is_first || step > 0);
  }

  // One part of a tile: all of d. The first part waits for the stages, and does `beside(stage)` while the tensor cores
  // work; the last frees the stages, but for the tile's last one.
  template <class Beside>
  static __device__ __forceinline__ void multiply_tile(Tile& tile, typename Block::Place& place, unsigned queries,
                                                       int part, int scorer, int lane, Beside beside) {
    const bool is_first = part == 0, is_last = part + 1 == parts;
    int previous = 0;
    int count = Block::tile_stages;
    if constexpr (parts > 1) ptx::hold(count);  // a loop, so that no other part's maxima move in between the products
#pragma unroll 1
    for (int stage = 0; stage < count; ++stage) {
      const unsigned documents = Block::stage_address(scorer, place.slot);
      if (is_first) Block::wait_full(scorer, place);
      ptx::products_fence();
      multiply_stage(tile, documents,
                     queries + stage * Block::stage_boxes * query_block_bytes + part * part_columns * row_bytes,
                     stage == 0);
      ptx::products_commit();
      if (is_first) beside(documents);
      if (is_last && stage > 0) {
        ptx::products_wait<1>();
        Block::release(scorer, previous, lane);
      }
      previous = place.slot;
      if (stage + 1 < count) place.advance();
    }
    ptx::products_wait<0>();
    ptx::hold(tile.value);
  }
};

}  // namespace msj
