#pragma once
// From the maxima of one document's query tokens to scores: the sum over s is a butterfly within each 32 tokens of the
// query, and these ascending in float64, so that its bits depend on nothing but the query's tokens.

namespace msj {

// Sums the tokens of some queries in a chunk, those from `query` on that there are, onto their totals, and writes their
// argmax. One warp; several queries at a time so that their sums do not wait for one another.
//   best_of(column)       the token's max over the document's tokens
//   factored(column, best) its value with the token's factors; may change best.index
//   keeps(column)         of the query mask
template <int together, int block_query, class BestOf, class Factored, class Keeps>
__device__ __forceinline__ void sum_tokens(const Args& args, const QueryGroup<block_query>& group, long long document,
                                           int chunk, int query, int first_active, int lane, double (&total)[together],
                                           BestOf best_of, Factored factored, Keeps keeps) {
  const float empty = args.param_empty_doc == 0 ? 0.0f : -infinity;
  const int first_column = query * group.padded, first_s = chunk * block_query;
  const int tokens = min(int(args.size_Lq) - first_s, block_query);
  int* argmax = nullptr;
  if constexpr (feature::save_argmax)
    argmax = static_cast<int*>(args.argmax.data) + (group.first_query + query) * args.argmax.stride[0] +
             document * args.argmax.stride[1];
#pragma unroll 2
  for (int begin = 0; begin < tokens; begin += 32) {
    const int s = begin + lane;
    float value[together];
#pragma unroll
    for (int i = 0; i < together; ++i) {
      const int column = first_column + i * group.padded + s;
      value[i] = 0.0f;
      if (s < tokens && (together == 1 || query + i < group.queries)) {
        Best<feature::save_argmax> best = best_of(column);
        if (best.index < 0) best.index = first_active;  // all -inf, or none
        value[i] = factored(column, best);
        if (first_active < 0) value[i] = empty;
        if (feature::q_mask && !keeps(column)) value[i] = 0.0f, best.index = -1;
        if constexpr (feature::save_argmax)
          argmax[i * args.argmax.stride[0] + (first_s + s) * args.argmax.stride[2]] = best.index;
      }
    }
    lanes_sums<32>(value);
#pragma unroll
    for (int i = 0; i < together; ++i) total[i] += value[i];
  }
}

// Of one query, onto `total`.
template <int block_query, class BestOf, class Factored, class Keeps>
__device__ __forceinline__ double sum_tokens(const Args& args, const QueryGroup<block_query>& group,
                                             long long document, int chunk, int query, int first_active, int lane,
                                             double total, BestOf best_of, Factored factored, Keeps keeps) {
  double totals[1] = {total};
  sum_tokens<1>(args, group, document, chunk, query, first_active, lane, totals, best_of, factored, keeps);
  return totals[0];
}

}  // namespace msj
