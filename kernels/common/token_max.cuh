#pragma once
// The running max of many query tokens between the tiles of a document, in shared memory or, for more, in the
// workspace: a value (and an index) for each token and each warp that has a share of a tile's rows. Each place is one
// lane's own until the document ends, so only then do warps have to wait for one another.

namespace msj {

template <bool with_index>
struct TokenMax {
  float* value;
  int* index;
  int tokens;  // of one warp's share

  __device__ __forceinline__ Best<with_index> read(int share, int token) const {
    const long long at = (long long)share * tokens + token;
    return {value[at], with_index ? index[at] : -1};
  }

  __device__ __forceinline__ void write(int share, int token, Best<with_index> best) const {
    const long long at = (long long)share * tokens + token;
    value[at] = best.value;
    if constexpr (with_index) index[at] = best.index;
  }

  // Over all shares.
  template <int shares>
  __device__ __forceinline__ Best<with_index> best_of(int token) const {
    Best<with_index> best = read(0, token);
#pragma unroll
    for (int share = 1; share < shares; ++share) best.merge(read(share, token));
    return best;
  }
};

}  // namespace msj
