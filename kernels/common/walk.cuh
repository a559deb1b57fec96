#pragma once
// The order in which a block visits its work, as one flat sequence of ring steps:
//
//   for each document of the block, for each chunk of query tokens, for each tile of document tokens, for each k block
//
// Two cursors walk it: one loads, `stages - 1` steps ahead (across documents too), the other computes.

namespace msj {

// Of an op that has d_starts, documents are (start, length) in tokens of one sequence. One that is not inside it is
// walked as one token, at `broken`, of which nothing is to be read.
constexpr long long broken = -1;

template <class...>
using Void = void;
template <class A, class = void>
struct Documents {
  static constexpr bool are_packed = false;
};
template <class A>
struct Documents<A, Void<decltype(A::d_starts)>> {
  static constexpr bool are_packed = true;
};
constexpr bool packed = Documents<Args>::are_packed;

struct Walk {
  const int* lengths;  // null: every document is full
  long long length_stride;
  long long documents, document_step;  // a block takes documents first, first + step, ...
  int longest;                         // tokens of a full document
  int tile_rows, chunks, k_blocks;
  const long long* starts;  // of packed documents, of whom `lengths` are all given
  long long start_stride;
  long long tokens;  // of all documents

  template <class A>
  __device__ __forceinline__ void set_documents(const A& args) {
    lengths = static_cast<const int*>(args.d_lengths.data);
    length_stride = args.d_lengths.stride[0];
    documents = args.size_Nd;
    if constexpr (packed) {
      starts = static_cast<const long long*>(args.d_starts.data);
      start_stride = args.d_starts.stride[0];
      tokens = args.size_N;
    } else {
      longest = int(args.size_Ld);
    }
  }

  // Not yet clamped, so that a load in flight is not waited for.
  __device__ __forceinline__ int read_length(long long document) const {
    if constexpr (packed) return document < documents ? lengths[document * length_stride] : 0;
    return lengths && document < documents ? lengths[document * length_stride] : longest;
  }
  __device__ __forceinline__ long long read_start(long long document) const {
    return document < documents ? starts[document * start_stride] : 0;
  }
  // Whether tokens first ... of a packed document are all there.
  __device__ __forceinline__ bool is_inside(long long first, int length) const {
    return length == 0 || (length > 0 && first >= 0 && first <= tokens - length);
  }
};

struct Cursor {
  long long document;
  int length, next_length;  // of this document, clamped; of the block's next one, as read
  long long first, next_first;    // of packed documents: its first token
  int chunk, tile, tiles, k_block;

  __device__ __forceinline__ void start(const Walk& walk, long long first_document) {
    document = first_document;
    next_length = walk.read_length(document);
    if constexpr (packed) next_first = walk.read_start(document);
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
    if constexpr (packed) {
      length = next_length, first = next_first;
      if (!walk.is_inside(first, length)) first = broken, length = 1;
      next_first = walk.read_start(document + walk.document_step);
    } else {
      length = min(max(next_length, 0), walk.longest);
    }
    next_length = walk.read_length(document + walk.document_step);
    tiles = length > 0 ? (length - 1) / walk.tile_rows + 1 : 1;
    chunk = tile = k_block = 0;
  }
};

}  // namespace msj
