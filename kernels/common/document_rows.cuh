#pragma once
// Rows of D as they lie in memory, for forward ops whose ring holds them unchanged.

namespace msj {

template <class Element>
struct DocumentRow {
  const Element* first;  // of the tile's row `row`
  long long stride;
  int present;
  __device__ __forceinline__ DocumentRow(const Args& args, const Cursor& at, int row)
      : first(static_cast<const Element*>(args.d.data) + at.document * args.d.stride[0] +
              (at.tile * block_doc + row) * args.d.stride[1]),
        stride(args.d.stride[1]),
        present(at.length - at.tile * block_doc - row) {}
  __device__ __forceinline__ const Element* operator()(int row) const {
    return row < present ? first + row * stride : nullptr;
  }
};

template <DType type, int k_extent, int doc_pitch>
__device__ __forceinline__ void load_document_tile(const Args& args, const Cursor& at, unsigned stage) {
  using Element = typename Numeric<type>::Storage;
  using Loader = TileLoader<type, block_doc, k_extent, doc_pitch, threads, aligned16>;
  const DocumentRow<Element> rows(args, at, 0);
  const int k_begin = at.k_block * k_extent, d = int(args.size_d);
  if (Loader::streams(d)) Loader::stream(stage, rows.first, rows.stride, rows.present, k_begin, d, threadIdx.x);
  else Loader::gather(stage, rows, k_begin, d, args.d.stride[2], threadIdx.x);
}

}  // namespace msj
