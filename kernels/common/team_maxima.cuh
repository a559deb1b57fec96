#pragma once
// The maxima of a document's query tokens that each warp of a team has of its own share of the tokens, until they are
// one. Two buffers take turns: a team meets once a (document, chunk). A block has `warps` warps, a team `team`
// neighbouring ones.

namespace msj {

template <int columns, int team, int warps>
struct TeamMaxima {
  float value[2][warps][columns];
  int index[feature::save_argmax ? 2 : 1][warps][columns];
  double carried[warps / team];  // a long query's sum over its chunks so far

  __device__ __forceinline__ void put(int buffer, int warp, int column, Best<feature::save_argmax> best) {
    value[buffer][warp][column] = best.value;
    if constexpr (feature::save_argmax) index[buffer][warp][column] = best.index;
  }

  __device__ __forceinline__ Best<feature::save_argmax> best_of(int buffer, int first_warp, int column) const {
    const auto partial = [=](int w) -> Best<feature::save_argmax> {
      return {value[buffer][first_warp + w][column],
              feature::save_argmax ? index[buffer][first_warp + w][column] : -1};
    };
    Best<feature::save_argmax> best = partial(0);
#pragma unroll
    for (int w = 1; w < team; ++w) best.merge(partial(w));
    return best;
  }

  // When all of the team have put theirs: sums the tokens of this warp's share of the queries.
  __device__ __forceinline__ void sum(const Args& args, const QueryGroup<columns>& group, long long document, int chunk,
                                      bool is_empty, int buffer, int warp, int lane) {
    const int first_warp = warp / team * team;
    double& so_far = carried[warp / team];  // of a long query, the first warp's
#pragma unroll 1
    for (int query = warp % team; query < group.queries; query += team) {
      const double total = sum_tokens(
          args, group, document, chunk, query, is_empty ? -1 : 0, lane, chunk == 0 ? 0.0 : so_far,
          [&](int column) { return best_of(buffer, first_warp, column); },
          [](int, Best<feature::save_argmax>& best) { return best.value; },
          [&](int column) { return keeps(args, group, chunk, column); });
      __syncwarp();
      if (lane != 0) continue;
      if (chunk + 1 < group.chunks) so_far = total;
      else
        static_cast<float*>(args.scores.data)[(group.first_query + query) * args.scores.stride[0] +
                                              document * args.scores.stride[1]] = float(total);
    }
  }

 private:
  static __device__ __forceinline__ bool keeps(const Args& args, const QueryGroup<columns>& group, int chunk,
                                               int column) {
    if constexpr (!feature::q_mask) return true;
    const typename QueryGroup<columns>::Token token = group.token(args, chunk, column);
    const auto* mask = static_cast<const unsigned char*>(args.q_mask.data);
    return mask[token.query * args.q_mask.stride[0] + token.s * args.q_mask.stride[1]] != 0;
  }
};

}  // namespace msj
