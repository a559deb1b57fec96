#pragma once
// Warpgroup products as in wgmma.cuh, with A in registers: rows that stay, or the fragments that accumulators of an
// earlier product become when they are rounded, where what was N is now k.
//
//   lane = 4 * g + c    a[0]: row g, bytes 4c to 4c + 3 of the k step    a[1]: row g + 8    a[2], a[3]: 16 bytes further

namespace msj::ptx {

#define MSJ_EIGHT(i) \
  "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), "+f"(c[i + 6]), \
      "+f"(c[i + 7])

#define MSJ_PRODUCT_32(types, tail) \
  asm volatile( \
      "{ .reg .pred add; setp.ne.b32 add, %21, 0;\n" \
      "wgmma.mma_async.sync.aligned.m64n32" types " {" \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15" \
      "}, {%16, %17, %18, %19}, %20, add, 1, 1" tail "; }" \
      : MSJ_EIGHT(0), MSJ_EIGHT(8) \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(adds)) \
      : "memory")
#define MSJ_PRODUCT_64(types, tail) \
  asm volatile( \
      "{ .reg .pred add; setp.ne.b32 add, %37, 0;\n" \
      "wgmma.mma_async.sync.aligned.m64n64" types " {" \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, " \
      "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31" \
      "}, {%32, %33, %34, %35}, %36, add, 1, 1" tail "; }" \
      : MSJ_EIGHT(0), MSJ_EIGHT(8), MSJ_EIGHT(16), MSJ_EIGHT(24) \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(adds)) \
      : "memory")
#define MSJ_PRODUCT_128(types, tail) \
  asm volatile( \
      "{ .reg .pred add; setp.ne.b32 add, %69, 0;\n" \
      "wgmma.mma_async.sync.aligned.m64n128" types " {" \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, " \
      "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, " \
      "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, " \
      "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63" \
      "}, {%64, %65, %66, %67}, %68, add, 1, 1" tail "; }" \
      : MSJ_EIGHT(0), MSJ_EIGHT(8), MSJ_EIGHT(16), MSJ_EIGHT(24), MSJ_EIGHT(32), MSJ_EIGHT(40), \
        MSJ_EIGHT(48), MSJ_EIGHT(56) \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(adds)) \
      : "memory")

// c = A x B^T, a k step of 32 bytes, added to c if `adds`.
template <DType a_type, DType b_type, int columns>
__device__ __forceinline__ void multiply_64(float (&c)[columns / 2], const unsigned (&a)[4], unsigned long long b,
                                            bool adds) {
  static_assert(columns == 32 || columns == 64 || columns == 128);
#define MSJ_PRODUCT(types, tail) \
  do { \
    if constexpr (columns == 32) MSJ_PRODUCT_32(types, tail); \
    if constexpr (columns == 64) MSJ_PRODUCT_64(types, tail); \
    if constexpr (columns == 128) MSJ_PRODUCT_128(types, tail); \
  } while (false)
  constexpr bool a_is_4 = a_type == DType::fp8_e4m3, b_is_4 = b_type == DType::fp8_e4m3;
  if constexpr (a_type == DType::bf16) {
    static_assert(b_type == DType::bf16);
    MSJ_PRODUCT("k16.f32.bf16.bf16", ", 0");
  } else if constexpr (a_type == DType::f16) {
    static_assert(b_type == DType::f16);
    MSJ_PRODUCT("k16.f32.f16.f16", ", 0");
  } else {
    static_assert((a_is_4 || a_type == DType::fp8_e5m2) && (b_is_4 || b_type == DType::fp8_e5m2));
    if constexpr (a_is_4 && b_is_4) MSJ_PRODUCT("k32.f32.e4m3.e4m3", "");
    if constexpr (a_is_4 && !b_is_4) MSJ_PRODUCT("k32.f32.e4m3.e5m2", "");
    if constexpr (!a_is_4 && b_is_4) MSJ_PRODUCT("k32.f32.e5m2.e4m3", "");
    if constexpr (!a_is_4 && !b_is_4) MSJ_PRODUCT("k32.f32.e5m2.e5m2", "");
  }
#undef MSJ_PRODUCT
}

#undef MSJ_PRODUCT_32
#undef MSJ_PRODUCT_64
#undef MSJ_PRODUCT_128
#undef MSJ_EIGHT

// Keeps the compiler from reusing these registers before it, while products may read them.
template <int count>
__device__ __forceinline__ void hold(unsigned (&a)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+r"(a[i])::"memory");
}

}  // namespace msj::ptx
