// What a kernel is measured against: a launch that does nothing, and a pure read of the bytes that an op streams.

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
