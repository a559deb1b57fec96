#pragma once
// Maxima of a document's query tokens to which all warps of a block add in any order: a number per token, in shared or
// in global memory, that atomics raise. Its order is that of (value, lower t first), NaN above all; 0 is "nothing yet".

namespace msj::ptx {

__device__ __forceinline__ void raise(unsigned* key, unsigned to) {
  asm volatile("red.max.u32 [%0], %1;" ::"l"(key), "r"(to) : "memory");
}
__device__ __forceinline__ void raise(unsigned long long* key, unsigned long long to) {
  asm volatile("red.max.u64 [%0], %1;" ::"l"(key), "l"(to) : "memory");
}

// What atomics left, past any cache of this multiprocessor.
__device__ __forceinline__ unsigned read_raised(const unsigned* key) {
  unsigned v;
  asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(v) : "l"(key) : "memory");
  return v;
}
__device__ __forceinline__ unsigned long long read_raised(const unsigned long long* key) {
  unsigned long long v;
  asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(v) : "l"(key) : "memory");
  return v;
}

__device__ __forceinline__ void lower_shared(unsigned address, unsigned to) {
  asm volatile("red.shared.min.u32 [%0], %1;" ::"r"(address), "r"(to) : "memory");
}

__device__ __forceinline__ void fence_device() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

}  // namespace msj::ptx

namespace msj {

template <bool with_index>
struct KeyType {
  using Key = unsigned;
};
template <>
struct KeyType<true> {
  using Key = unsigned long long;
};

template <bool with_index>
struct TokenKeys {
  using Key = typename KeyType<with_index>::Key;
  Key* first;

  __device__ __forceinline__ void raise(int token, Best<with_index> best) const {
    const unsigned bits = __float_as_uint(best.value), ordered = bits >> 31 ? ~bits : bits | 0x80000000u;
    if constexpr (with_index) ptx::raise(first + token, (unsigned long long)(ordered) << 32 | ~unsigned(best.index));
    else ptx::raise(first + token, ordered);
  }

  // Leaves "nothing yet".
  __device__ __forceinline__ Best<with_index> take(int token) const {
    const Key key = ptx::read_raised(first + token);
    first[token] = 0;
    unsigned ordered;
    int index = -1;
    if constexpr (with_index) ordered = unsigned(key >> 32), index = int(~unsigned(key));
    else ordered = key;
    if (ordered == 0) return {-infinity, -1};
    return {__uint_as_float(ordered >> 31 ? ordered & 0x7fffffffu : ~ordered), index};
  }
};

}  // namespace msj
