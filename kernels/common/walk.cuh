#pragma once
// The order in which a block visits its work, as one flat sequence of ring steps:
//
//   for each document of the block, for each chunk of query tokens, for each tile of document tokens, for each k block
//
// Two cursors walk it: one loads, `stages - 1` steps ahead (across documents too), the other computes.

namespace msj {

struct Walk {
  const int* lengths;  // null: every document is full
  long long length_stride;
  long long documents, document_step;  // a block takes documents first, first + step, ...
  int longest;                         // tokens of a full document
  int tile_rows, chunks, k_blocks;

  // Not yet clamped, so that a load in flight is not waited for.
  __device__ __forceinline__ int read_length(long long document) const {
    return lengths && document < documents ? lengths[document * length_stride] : longest;
  }
};

struct Cursor {
  long long document;
  int length, next_length;  // of this document, clamped; of the block's next one, as read
  int chunk, tile, tiles, k_block;

  __device__ __forceinline__ void start(const Walk& walk, long long first_document) {
    document = first_document;
    next_length = walk.read_length(document);
    enter(walk);
  }

  __device__ __forceinline__ bool done(const Walk& walk) const { return document >= walk.documents; }
  __device__ __forceinline__ bool first_of_chunk() const { return tile == 0 && k_block == 0; }
  __device__ __forceinline__ bool last_of_tile(const Walk& walk) const { return k_block + 1 == walk.k_blocks; }
  __device__ __forceinline__ bool last_of_chunk(const Walk& walk) const {
    return last_of_tile(walk) && tile + 1 == tiles;
  }

  __device__ __forceinline__ void advance(const Walk& walk) {
    if (++k_block < walk.k_blocks) return;
    k_block = 0;
    if (++tile < tiles) return;
    tile = 0;
    if (++chunk < walk.chunks) return;
    document += walk.document_step;
    enter(walk);
  }

 private:
  // A document without tokens still has one (empty) tile, in which its results are written.
  __device__ __forceinline__ void enter(const Walk& walk) {
    length = min(max(next_length, 0), walk.longest);
    next_length = walk.read_length(document + walk.document_step);
    tiles = max((length + walk.tile_rows - 1) / walk.tile_rows, 1);
    chunk = tile = k_block = 0;
  }
};

}  // namespace msj
