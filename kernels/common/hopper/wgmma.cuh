#pragma once
// Warpgroup products (wgmma, sm_90a): 64 rows of A x N rows of B, both k-major in shared memory under the 128-byte
// swizzle that bulk tensor copies write, 32 bytes of k at a time (16 elements, or 32 of fp8), into float32 accumulators
// of the four warps.
//
//   k block: 128 bytes a row. 16-byte unit u of row r lies at r * 128 + (u ^ r % 8) * 16, and blocks start
//   at multiples of 1,024 bytes. k step s of a block starts 32 * s bytes later: the hardware swizzles what it reads.

namespace msj::ptx {

// Where a k block's rows start: address / 16, 1,024 bytes from one group of 8 rows to the next, 128-byte swizzle.
// `offset`, in bytes, is for descriptors that differ by constants: an addition each.
__device__ __forceinline__ unsigned matrix_place(unsigned address) { return 1u << 16 | (address & 0x3ffff) >> 4; }
__device__ __forceinline__ unsigned long long descriptor_at(unsigned place, int offset = 0) {
  constexpr unsigned long long layout = 1ull << 62 | 64ull << 32;
  return layout | (place + unsigned(offset) / 16);
}
__device__ __forceinline__ unsigned long long matrix_descriptor(unsigned address, int offset = 0) {
  return descriptor_at(matrix_place(address), offset);
}

// What this thread wrote to shared memory is what products read that another thread begins later.
__device__ __forceinline__ void products_see_writes() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Before the first product, and whenever other instructions have touched the accumulators.
__device__ __forceinline__ void products_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int pending>
__device__ __forceinline__ void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

// Keeps the compiler from moving its own uses of these registers past it: into the time of the products, say.
__device__ __forceinline__ void hold(float& x) { asm volatile("" : "+f"(x)::"memory"); }
template <int count>
__device__ __forceinline__ void hold(float (&c)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) hold(c[i]);
}

#define MSJ_EIGHT(i) \
  "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), "+f"(c[i + 6]), \
      "+f"(c[i + 7])

#define MSJ_PRODUCT_32(types, tail) \
  asm volatile( \
      "{ .reg .pred add; setp.ne.b32 add, %18, 0;\n" \
      "wgmma.mma_async.sync.aligned.m64n32" types " {" \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15" \
      "}, %16, %17, add, 1, 1" tail "; }" \
      : MSJ_EIGHT(0), MSJ_EIGHT(8) \
      : "l"(a), "l"(b), "r"(int(adds)) \
      : "memory")
#define MSJ_PRODUCT_64(types, tail) \
  asm volatile( \
      "{ .reg .pred add; setp.ne.b32 add, %34, 0;\n" \
      "wgmma.mma_async.sync.aligned.m64n64" types " {" \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, " \
      "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31" \
      "}, %32, %33, add, 1, 1" tail "; }" \
      : MSJ_EIGHT(0), MSJ_EIGHT(8), MSJ_EIGHT(16), MSJ_EIGHT(24) \
      : "l"(a), "l"(b), "r"(int(adds)) \
      : "memory")
#define MSJ_PRODUCT_128(types, tail) \
  asm volatile( \
      "{ .reg .pred add; setp.ne.b32 add, %66, 0;\n" \
      "wgmma.mma_async.sync.aligned.m64n128" types " {" \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, " \
      "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, " \
      "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, " \
      "%59, %60, %61, %62, %63" \
      "}, %64, %65, add, 1, 1" tail "; }" \
      : MSJ_EIGHT(0), MSJ_EIGHT(8), MSJ_EIGHT(16), MSJ_EIGHT(24), MSJ_EIGHT(32), MSJ_EIGHT(40), \
        MSJ_EIGHT(48), MSJ_EIGHT(56) \
      : "l"(a), "l"(b), "r"(int(adds)) \
      : "memory")
#define MSJ_PRODUCT_256(types, tail) \
  asm volatile( \
      "{ .reg .pred add; setp.ne.b32 add, %130, 0;\n" \
      "wgmma.mma_async.sync.aligned.m64n256" types " {" \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, " \
      "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, " \
      "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, " \
      "%59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, " \
      "%78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, " \
      "%97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, " \
      "%113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127" \
      "}, %128, %129, add, 1, 1" tail "; }" \
      : MSJ_EIGHT(0), MSJ_EIGHT(8), MSJ_EIGHT(16), MSJ_EIGHT(24), MSJ_EIGHT(32), MSJ_EIGHT(40), \
        MSJ_EIGHT(48), MSJ_EIGHT(56), MSJ_EIGHT(64), MSJ_EIGHT(72), MSJ_EIGHT(80), MSJ_EIGHT(88), \
        MSJ_EIGHT(96), MSJ_EIGHT(104), MSJ_EIGHT(112), MSJ_EIGHT(120) \
      : "l"(a), "l"(b), "r"(int(adds)) \
      : "memory")

// c = A x B^T, added to c if `adds`: registers are those of the thread's fragment, 4 for each 8 columns.
template <DType a_type, DType b_type, int columns>
__device__ __forceinline__ void multiply_64(float (&c)[columns / 2], unsigned long long a, unsigned long long b,
                                            bool adds) {
  static_assert(columns == 32 || columns == 64 || columns == 128 || columns == 256);
#define MSJ_PRODUCT(types, tail) \
  do { \
    if constexpr (columns == 32) MSJ_PRODUCT_32(types, tail); \
    if constexpr (columns == 64) MSJ_PRODUCT_64(types, tail); \
    if constexpr (columns == 128) MSJ_PRODUCT_128(types, tail); \
    if constexpr (columns == 256) MSJ_PRODUCT_256(types, tail); \
  } while (false)
  constexpr bool a_is_4 = a_type == DType::fp8_e4m3, b_is_4 = b_type == DType::fp8_e4m3;
  if constexpr (a_type == DType::bf16) {
    static_assert(b_type == DType::bf16);
    MSJ_PRODUCT("k16.f32.bf16.bf16", ", 0, 0");
  } else if constexpr (a_type == DType::f16) {
    static_assert(b_type == DType::f16);
    MSJ_PRODUCT("k16.f32.f16.f16", ", 0, 0");
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
#undef MSJ_PRODUCT_256
#undef MSJ_EIGHT

}  // namespace msj::ptx

namespace msj {

// One warp's share of a warpgroup's 64 x `width` tile: its 16 rows, as the accumulators lie in registers.
//
//   lane = 4 * g + c    thread's row i: 8 * i + g of the warp's 16    thread's column j: (j / 2) * 8 + 2 * c + j % 2
template <int width>
struct WarpgroupTile {
  static constexpr int rows = 2, columns = width / 4;  // of one thread

  float value[width / 2];
  float squares[rows];  // of its rows

  static __device__ __forceinline__ int row(int i, int lane) { return i * 8 + lane / 4; }
  static __device__ __forceinline__ int column(int j, int lane) { return j / 2 * 8 + lane % 4 * 2 + j % 2; }
  __device__ __forceinline__ float& at(int i, int j) { return value[j / 2 * 4 + i * 2 + j % 2]; }
  __device__ __forceinline__ float row_squares(int i) const { return squares[i]; }

  // Zeros to add to, rather than a first product that overwrites: a sum of negative zeros is then +0, as everywhere.
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < width / 2; ++i) value[i] = 0.0f;
  }
};

}  // namespace msj
