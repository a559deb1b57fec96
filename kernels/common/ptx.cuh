#pragma once
// Inline-PTX wrappers (sm_80 and newer), so that no toolkit header is needed. Shared-memory addresses are the 32-bit
// ones of the shared window.

namespace msj::ptx {

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// Copies all 16 bytes or zero-fills them, reading nothing.
__device__ __forceinline__ void copy_16_if(unsigned destination, const void* source, bool present) {
  asm volatile(
      "{ .reg .pred absent; setp.eq.u32 absent, %2, 0;\n"
      "cp.async.cg.shared.global.L2::128B [%0], [%1], 16, absent; }" ::"r"(destination),
      "l"(__cvta_generic_to_global(source)), "r"(unsigned(present))
      : "memory");
}

__device__ __forceinline__ void copy_4_if(unsigned destination, const void* source, bool present) {
  asm volatile(
      "{ .reg .pred absent; setp.eq.u32 absent, %2, 0;\n"
      "cp.async.ca.shared.global [%0], [%1], 4, absent; }" ::"r"(destination),
      "l"(__cvta_generic_to_global(source)), "r"(unsigned(present))
      : "memory");
}

// Copies 4 bytes, or stores `otherwise`.
__device__ __forceinline__ void copy_4_or(unsigned destination, const void* source, bool present, unsigned otherwise) {
  asm volatile(
      "{ .reg .pred present; setp.ne.u32 present, %2, 0;\n"
      "@present cp.async.ca.shared.global [%0], [%1], 4;\n"
      "@!present st.shared.u32 [%0], %3; }" ::"r"(destination),
      "l"(__cvta_generic_to_global(source)), "r"(unsigned(present)), "r"(otherwise)
      : "memory");
}

// Copies 4, 8 or 16 bytes, aligned to as many, or zero-fills them; nothing of it unless `asked`.
template <int bytes>
__device__ __forceinline__ void copy_if(unsigned destination, const void* source, bool present, bool asked = true) {
#define MSJ_COPY(kind) \
  asm volatile( \
      "{ .reg .pred absent, asked; setp.eq.u32 absent, %2, 0; setp.ne.u32 asked, %3, 0;\n" \
      "@asked cp.async." kind ", absent; }" ::"r"(destination), \
      "l"(__cvta_generic_to_global(source)), "r"(unsigned(present)), "r"(unsigned(asked)) \
      : "memory")
  if constexpr (bytes == 16) MSJ_COPY("cg.shared.global.L2::128B [%0], [%1], 16");
  else if constexpr (bytes == 8) MSJ_COPY("ca.shared.global.L2::128B [%0], [%1], 8");
  else MSJ_COPY("ca.shared.global [%0], [%1], 4");
#undef MSJ_COPY
}

// Bytes of a (0 to 3) and b (4 to 7), one for each of the selector's lower four nibbles.
__device__ __forceinline__ unsigned permute_bytes(unsigned a, unsigned b, unsigned selector) {
  unsigned bytes;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(a), "r"(b), "r"(selector));
  return bytes;
}

// The compiler can't tell what x is from here on, nor move what depends on it to before this place.
__device__ __forceinline__ void hold(int& x) { asm volatile("" : "+r"(x)::"memory"); }

// x, which all lanes have alike, in a register of the warp: descriptors made of it cost no move for each product.
__device__ __forceinline__ unsigned uniform(unsigned x) {
  asm volatile("redux.sync.max.u32 %0, %0, 0xffffffff;" : "+r"(x));
  return x;
}

// Reads of what is used once and not written in this kernel, past L1.
__device__ __forceinline__ int load_global_4(const int* source) {
  int v;
  asm volatile("ld.global.nc.L1::no_allocate.s32 %0, [%1];" : "=r"(v) : "l"(__cvta_generic_to_global(source)));
  return v;
}
__device__ __forceinline__ uint4 load_global_16(const void* source) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(__cvta_generic_to_global(source)));
  return v;
}

// The same if `present`, else zeros, without a branch that would wait for what it read: 8 bytes.
template <class Words>
__device__ __forceinline__ void load_global_8_if(Words& v, const void* source, bool present) {
  asm volatile(
      "{ .reg .pred present; setp.ne.u32 present, %3, 0;\n"
      "@present ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2]; }"
      : "+r"(v[0]), "+r"(v[1])
      : "l"(__cvta_generic_to_global(source)), "r"(unsigned(present)));
}
// 1, 2 or 4 bytes.
template <int bytes>
__device__ __forceinline__ unsigned load_global_if(const void* source, bool present) {
  unsigned v = 0;
#define MSJ_LOAD_IF(type) \
  asm volatile( \
      "{ .reg .pred present; setp.ne.u32 present, %2, 0;\n" \
      "@present ld.global.nc.L1::no_allocate." type " %0, [%1]; }" \
      : "+r"(v) \
      : "l"(__cvta_generic_to_global(source)), "r"(unsigned(present)))
  if constexpr (bytes == 1) MSJ_LOAD_IF("u8");
  else if constexpr (bytes == 2) MSJ_LOAD_IF("u16");
  else MSJ_LOAD_IF("u32");
#undef MSJ_LOAD_IF
  return v;
}
__device__ __forceinline__ void prefetch_to_l2(const void* line) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(line)));
}

// Of what is used again and again, from L1.
__device__ __forceinline__ uint4 load_kept_16(const void* source) {
  uint4 v;
  asm volatile("ld.global.nc.L1::evict_last.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(__cvta_generic_to_global(source)));
  return v;
}
// `count` words, aligned to as many of them as one read takes.
template <int count>
__device__ __forceinline__ void load_global_words(unsigned (&v)[count], const void* source) {
  const auto* words = static_cast<const unsigned*>(source);
  if constexpr (count % 4 == 0) {
#pragma unroll
    for (int i = 0; i < count; i += 4) {
      const uint4 four = load_global_16(words + i);
      v[i] = four.x, v[i + 1] = four.y, v[i + 2] = four.z, v[i + 3] = four.w;
    }
  } else if constexpr (count % 2 == 0) {
#pragma unroll
    for (int i = 0; i < count; i += 2)
      asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
                   : "=r"(v[i]), "=r"(v[i + 1])
                   : "l"(__cvta_generic_to_global(words + i)));
  } else {
#pragma unroll
    for (int i = 0; i < count; ++i) v[i] = unsigned(load_global_4(reinterpret_cast<const int*>(words + i)));
  }
}

__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most `pending` of this thread's newest groups are still in flight.
template <int pending>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

__device__ __forceinline__ void store_shared(unsigned address, uint4 v) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

__device__ __forceinline__ void store_shared_4(unsigned address, unsigned v) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(v) : "memory");
}

__device__ __forceinline__ uint4 load_shared_16(unsigned address) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}

__device__ __forceinline__ unsigned load_shared_2(unsigned address) {
  unsigned short v;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(address) : "memory");
  return v;
}

__device__ __forceinline__ unsigned load_shared_4(unsigned address) {
  unsigned v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
  return v;
}

template <class Words>
__device__ __forceinline__ void load_shared_8(Words& v, unsigned address) {
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v[0]), "=r"(v[1]) : "r"(address) : "memory");
}

// The barrier of `threads` threads with a number of its own, 1 to 15.
__device__ __forceinline__ void named_barrier(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// Four 8 x 8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void load_matrices(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void mma_bf16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void mma_f16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// e4m3 or e5m2 times e4m3 or e5m2, in float32: sm_89 and sm_120 have it, elsewhere the assembler expands it.
#define MSJ_MMA_FP8(a_type, b_type)                                                                                    \
  asm("mma.sync.aligned.m16n8k32.row.col.f32." a_type "." b_type ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, " \
      "{%0, %1, %2, %3};"                                                                                              \
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                                                 \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
template <DType a_type, DType b_type>
__device__ __forceinline__ void mma_fp8(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  if constexpr (a_type == DType::fp8_e4m3 && b_type == DType::fp8_e4m3) MSJ_MMA_FP8("e4m3", "e4m3");
  else if constexpr (a_type == DType::fp8_e4m3) MSJ_MMA_FP8("e4m3", "e5m2");
  else if constexpr (b_type == DType::fp8_e4m3) MSJ_MMA_FP8("e5m2", "e4m3");
  else MSJ_MMA_FP8("e5m2", "e5m2");
}
#undef MSJ_MMA_FP8

// The larger of two; a NaN on either side gives the canonical NaN (0x7fffffff), and -0 < +0.
__device__ __forceinline__ float max_nan(float a, float b) {
  float m;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(m) : "f"(a), "f"(b));
  return m;
}

// 1 / sqrt(x) within 2^-22.9, x normal.
__device__ __forceinline__ float reciprocal_root(float x) {
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace msj::ptx
