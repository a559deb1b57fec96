// What a kernel is measured against: a launch that does nothing, and pure reads of the bytes that an op streams, by loads
// and, on sm_90 and newer, by bulk copies. It has no prologue: the target is the compiler's own __CUDA_ARCH__.

struct Ranges {
  const uint4* data[4];
  long long words[4];  // of 16 bytes
  unsigned* sink;
};

extern "C" __global__ void empty_launch() {}

// 16-byte loads, eight of them in flight in each thread, and nothing computed that is worth the name.
static __device__ unsigned read_range(const uint4* data, long long words) {
  const long long stride = (long long)gridDim.x * blockDim.x;
  long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  unsigned folded = 0;
  for (; at + 7 * stride < words; at += 8 * stride) {
    uint4 v[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = __ldg(data + at + i * stride);
#pragma unroll
    for (int i = 0; i < 8; ++i) folded ^= v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
  }
  for (; at < words; at += stride) {
    const uint4 v = __ldg(data + at);
    folded ^= v.x ^ v.y ^ v.z ^ v.w;
  }
  return folded;
}

extern "C" __global__ void pure_read(const __grid_constant__ Ranges ranges) {
  unsigned folded = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) folded ^= read_range(ranges.data[i], ranges.words[i]);
  if (folded == 0x9E3779B9u) *ranges.sink = folded;  // keeps the loads
}

#if __CUDA_ARCH__ >= 900
#include "common/hopper/mbarrier.cuh"

// Bulk copies into a ring in shared memory, that nobody looks at. One thread of a block issues them and waits until a
// stage's copy is in before its next one begins. Blocks take turns at the chunks of all ranges, one after another; a
// range's last chunk is what is left of it, whole words.
constexpr int stages = 4, stage_bytes = 16 * 1024, stage_words = stage_bytes / 16;

struct Chunk {
  int range;
  long long index;
};

// Into the range that has it, or past the last one.
static __device__ __forceinline__ void settle(Chunk& chunk, const Ranges& ranges) {
  for (; chunk.range < 4; ++chunk.range) {
    const long long chunks = (ranges.words[chunk.range] + stage_words - 1) / stage_words;
    if (chunk.index < chunks) return;
    chunk.index -= chunks;
  }
}

static __device__ __forceinline__ void copy_bulk(unsigned destination, const void* source, int bytes,
                                                 unsigned barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               ::"r"(destination), "l"(__cvta_generic_to_global(source)), "r"(bytes), "r"(barrier)
               : "memory");
}

static __device__ __forceinline__ void copy_chunk(const Chunk& chunk, const Ranges& ranges, unsigned stage,
                                                  unsigned barrier) {
  const long long first = chunk.index * stage_words, left = ranges.words[chunk.range] - first;
  const int bytes = int(left < stage_words ? left : stage_words) * 16;
  msj::ptx::barrier_arrive_expect(barrier, bytes);
  copy_bulk(stage, ranges.data[chunk.range] + first, bytes, barrier);
}

extern "C" __global__ void __launch_bounds__(32) pure_bulk_read(const __grid_constant__ Ranges ranges) {
  extern __shared__ __align__(128) unsigned char ring[];
  __shared__ __align__(8) unsigned long long full[stages];
  if (threadIdx.x != 0) return;
  const unsigned ring_address = unsigned(__cvta_generic_to_shared(ring));
  const unsigned full_address = unsigned(__cvta_generic_to_shared(full));
  for (int i = 0; i < stages; ++i) msj::ptx::barrier_init(full_address + i * 8, 1);
  msj::ptx::barrier_init_done();
  // Copy `number` is the (number / stages)-th of its stage, from 0, and so ends that phase of the stage's barrier.
  const auto wait = [&](long long number) {
    msj::ptx::barrier_wait(full_address + unsigned(number % stages) * 8, unsigned(number / stages) & 1);
  };
  long long issued = 0;
  for (Chunk chunk{0, blockIdx.x}; settle(chunk, ranges), chunk.range < 4; chunk.index += gridDim.x, ++issued) {
    if (issued >= stages) wait(issued - stages);
    const unsigned stage = unsigned(issued % stages);
    copy_chunk(chunk, ranges, ring_address + stage * stage_bytes, full_address + stage * 8);
  }
  // Shared memory is the block's until all copies into it have arrived.
  for (long long number = issued < stages ? 0 : issued - stages; number < issued; ++number) wait(number);
}
#endif
