#pragma once
// Which query tokens meet which documents, in what order, in the blocks of the hopper forward ops: query groups
// (common/group.cuh), and for each of them documents; the chunks of a long query for each document.

namespace msj {

constexpr int block_query = config::block_query, query_buffers = config::query_buffers;
using Group = QueryGroup<block_query>;

struct Pass {
  unsigned group, first_document;
  int chunk;
};

// Block b takes query groups b % lanes, + lanes, ... and documents from b / lanes, `at_once` of them, a stride of the
// grid apart; neighbouring blocks share documents in L2. `lanes` is what the launch geometry used. Tensor maps count
// below 2^31.
template <int at_once>
struct Walk {
  unsigned groups, lanes, first, step, documents;
  int chunks;

  __device__ __forceinline__ explicit Walk(const Args& args) {
    groups = unsigned(Group::count(args));
    lanes = min(groups, gridDim.x);
    first = blockIdx.x / lanes * at_once;
    step = gridDim.x / lanes * at_once;
    documents = unsigned(args.size_Nd);
    chunks = Group(args, 0).chunks;
  }

  template <class Visit>
  __device__ __forceinline__ void visit(Visit visit) const {
    if (first >= step) return;
#pragma unroll 1
    for (unsigned group = blockIdx.x % lanes; group < groups; group += lanes) {
#pragma unroll 1
      for (unsigned document = first; document < documents; document += step) {
#pragma unroll 1
        for (int chunk = 0; chunk < chunks; ++chunk) visit(Pass{group, document, chunk});
      }
    }
  }

  // A group's next documents, the first ones after the last.
  __device__ __forceinline__ unsigned after(const Pass& pass) const {
    return pass.first_document + step < documents ? pass.first_document + step : first;
  }
  // Whether the pass is the first or the last that uses the columns in shared memory.
  __device__ __forceinline__ bool is_first_use(const Pass& pass) const {
    return chunks > 1 || pass.first_document == first;
  }
  __device__ __forceinline__ bool is_last_use(const Pass& pass) const {
    return chunks > 1 || pass.first_document + step >= documents;
  }
};

struct Document {
  unsigned index;
  int length;
};

// Where one scorer's documents are, read a document ahead so that nobody waits for it.
template <class Span>
struct Spans {
  Span next, now{};

  __device__ __forceinline__ Spans(const Args& args, unsigned first_document) : next(read(args, first_document)) {}

  // Of the pass's document; empty where there is none, or no query token to score. `following` is the one after it.
  __device__ __forceinline__ const Span& of(const Args& args, const Pass& pass, unsigned following) {
    if (pass.chunk == 0) {
      now = next;
      next = read(args, following);
    }
    return now;
  }

 private:
  static __device__ __forceinline__ Span read(const Args& args, unsigned document) {
    return document < args.size_Nd && args.size_Lq > 0 ? Span::read(args, document) : Span{};
  }
};

}  // namespace msj
