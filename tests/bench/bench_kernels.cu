// Random operands. Compiled by NVRTC, in the benchmark alone.

static __device__ unsigned hashed(unsigned long long x) {
  x ^= x >> 33, x *= 0xFF51AFD7ED558CCDull, x ^= x >> 33, x *= 0xC4CEB9FE1A85EC53ull;
  return unsigned(x >> 32);
}

// Floats with magnitudes in [1/16, 1), every exponent there as likely and every bit of the significand random:
// `significand` bits of it below an exponent field whose value for [1/16, 1/8) is `exponent`.
template <class Bits>
static __device__ void fill_floats(Bits* data, long long count, int significand, int exponent, unsigned long long seed) {
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += stride) {
    const unsigned random = hashed(seed + (unsigned long long)at), sign = random >> 31;
    const unsigned field = exponent + (random >> 29 & 3), below = random & ((1u << significand) - 1);
    data[at] = Bits(sign << (8 * sizeof(Bits) - 1) | field << significand | below);
  }
}
extern "C" __global__ void fill_floats_1(unsigned char* data, long long count, int significand, int exponent,
                                         unsigned long long seed) {
  fill_floats(data, count, significand, exponent, seed);
}
extern "C" __global__ void fill_floats_2(unsigned short* data, long long count, int significand, int exponent,
                                         unsigned long long seed) {
  fill_floats(data, count, significand, exponent, seed);
}
extern "C" __global__ void fill_floats_4(unsigned* data, long long count, int significand, int exponent,
                                         unsigned long long seed) {
  fill_floats(data, count, significand, exponent, seed);
}

// One token of eight is masked.
extern "C" __global__ void fill_mask_bytes(unsigned char* data, long long count, unsigned long long seed) {
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += stride)
    data[at] = (hashed(seed + (unsigned long long)at) & 7) != 0;
}

extern "C" __global__ void fill_bytes(unsigned char* data, long long count, unsigned long long seed) {
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += stride)
    data[at] = (unsigned char)hashed(seed + (unsigned long long)at);
}

// Below `most`.
extern "C" __global__ void fill_codes(int* data, long long count, long long most, unsigned long long seed) {
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += stride)
    data[at] = int(hashed(seed + (unsigned long long)at) % (unsigned long long)most);
}

extern "C" __global__ void fill_lengths(int* data, long long count, long long length) {
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += stride) data[at] = int(length);
}

// Documents of `length` tokens, apart from one another and scattered over an index that holds `places` of them.
extern "C" __global__ void fill_starts(long long* data, long long count, long long places, long long length) {
  const long long step = 7919;  // a prime, so that no place is taken twice before all are
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += stride)
    data[at] = at * step % places * length;
}
