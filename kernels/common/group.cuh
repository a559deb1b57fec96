#pragma once
// The queries that one block scores at a time: as many whole ones as fit its columns, each padded to 8 tokens, or one
// longer query in chunks.
//
// Column n of chunk c is token (c * block_query + n) % padded of query / padded.

namespace msj {

template <int block_query>
struct QueryGroup {
  long long first_query;
  int queries, padded, chunks;

  __device__ __forceinline__ explicit QueryGroup(const Args& args, long long group) {
    padded = padded_tokens(args);
    chunks = divide_up(padded, block_query);
    const int fitting = max(block_query / padded, 1);
    first_query = group * fitting;
    queries = int(min((long long)fitting, args.size_Nq - first_query));
  }

  static __device__ __forceinline__ long long count(const Args& args) {
    const int fitting = max(block_query / padded_tokens(args), 1);
    return fitting == 1 ? args.size_Nq : (args.size_Nq + fitting - 1) / fitting;  // a division of 64 bits takes long
  }

  struct Token {
    long long query;
    int s;
    bool present;
  };
  __device__ __forceinline__ Token token(const Args& args, int chunk, int column) const {
    const int place = chunk * block_query + column, query = chunks > 1 ? 0 : place / padded;
    const int s = place - query * padded;
    return {first_query + query, s, query < queries && s < int(args.size_Lq)};
  }

 private:
  static __device__ __forceinline__ int padded_tokens(const Args& args) {
    return max(round_up(int(args.size_Lq), 8), 8);
  }
};

// The rows of Q that a chunk's columns are.
template <class Element, int block_query>
struct QueryRow {
  const Args& args;
  const QueryGroup<block_query>& group;
  int chunk;
  __device__ __forceinline__ const Element* operator()(int column) const {
    const auto token = group.token(args, chunk, column);
    if (!token.present) return nullptr;
    return static_cast<const Element*>(args.q.data) + token.query * args.q.stride[0] + token.s * args.q.stride[1];
  }
  // One query's rows are evenly spaced, several queries' are not.
  __device__ __forceinline__ const Element* first_of_chunk() const {
    return static_cast<const Element*>(args.q.data) + group.first_query * args.q.stride[0] +
           chunk * block_query * args.q.stride[1];
  }
};

}  // namespace msj
