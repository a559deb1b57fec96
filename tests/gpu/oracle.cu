// The tests' truth on the GPU: MaxSim in float64, as simply as a GPU allows, with every rule of DESIGN section 5; the
// checks of a result against it; and inputs made in place, so that large tests move nothing over the bus.
//
// oracle_max: a block takes 32 query tokens of one pair (query, document) and walks the document 32 tokens at a time;
// a thread holds 2 x 2 dot products. Products of bf16 and fp16 are exact in float64.
//
// Compiled by NVRTC after oracle_task.h, in the tests alone; it shares nothing with kernels/.

using namespace msj::gpu;

// ---- elements -------------------------------------------------------------------------------------------------------

enum { dtype_f32 = 1, dtype_f16 = 2, dtype_bf16 = 3 };

static __device__ double half_value(unsigned short bits) {
  const unsigned long long sign = (unsigned long long)(bits >> 15) << 63;
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  if (exponent == 0) return (sign ? -1.0 : 1.0) * mantissa * (1.0 / 16777216.0);
  const unsigned long long wide = exponent == 31 ? 2047 : exponent - 15 + 1023;
  return __longlong_as_double((long long)(sign | wide << 52 | (unsigned long long)mantissa << 42));
}

static __device__ long long place(const View& view, long long a, long long b, long long c) {
  return a * view.stride[0] + b * view.stride[1] + c * view.stride[2];
}

static __device__ double element(const View& view, int dtype, long long a, long long b, long long c) {
  const long long at = place(view, a, b, c);
  if (dtype == dtype_f32) return ((const float*)view.data)[at];
  const unsigned short bits = ((const unsigned short*)view.data)[at];
  return dtype == dtype_bf16 ? (double)__uint_as_float((unsigned)bits << 16) : half_value(bits);
}

// Truncates. Truth is what is stored, so how a test's input was rounded does not matter.
static __device__ void store_element(const View& view, int dtype, long long at, float value) {
  const unsigned bits = __float_as_uint(value);
  if (dtype == dtype_f32) {
    ((float*)view.data)[at] = value;
    return;
  }
  unsigned short stored = (unsigned short)(bits >> 16);
  if (dtype == dtype_f16) {
    const int exponent = (int)((bits >> 23) & 255) - 127 + 15;
    const unsigned sign = bits >> 16 & 0x8000u, mantissa = bits & 0x7fffffu;
    if (exponent >= 31) stored = (unsigned short)(sign | 0x7bffu);
    else if (exponent >= 1) stored = (unsigned short)(sign | (unsigned)exponent << 10 | mantissa >> 13);
    else if (exponent >= -9) stored = (unsigned short)(sign | (mantissa | 0x800000u) >> (14 - exponent));
    else stored = (unsigned short)sign;
  }
  ((unsigned short*)view.data)[at] = stored;
}

static __device__ bool kept(const View& mask, long long a, long long b) {
  return mask.data == nullptr || ((const unsigned char*)mask.data)[place(mask, a, b, 0)] != 0;
}

static __device__ long long length_of(const Task& task, long long document) {
  if (task.d_lengths.data == nullptr) return task.Ld;
  const long long length = ((const int*)task.d_lengths.data)[place(task.d_lengths, document, 0, 0)];
  return length < 0 ? 0 : length > task.Ld ? task.Ld : length;
}

// ---- truth ----------------------------------------------------------------------------------------------------------

extern "C" __global__ void oracle_norms(const View rows, int dtype, double* norms) {
  const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows.shape[0] * rows.shape[1]) return;
  double sum = 0.0;
  for (long long k = 0; k < rows.shape[2]; ++k) {
    const double x = element(rows, dtype, row / rows.shape[1], row % rows.shape[1], k);
    sum += x * x;
  }
  const double norm = sqrt(sum);
  norms[row] = norm < 1e-12 ? 1e-12 : norm;  // a NaN stays
}

struct Best {
  double value, magnitude;
  int index;  // -1: none
};

// Whether b wins over a: a NaN over all, then the larger, then the lower index.
static __device__ bool wins(const Best& b, const Best& a) {
  if (b.index < 0) return false;
  if (a.index < 0) return true;
  const bool nan_a = a.value != a.value, nan_b = b.value != b.value;
  if (nan_a || nan_b) return nan_b && (!nan_a || b.index < a.index);
  return b.value > a.value || (b.value == a.value && b.index < a.index);
}

static __device__ void merge(Best& best, const Best& other) {
  const double magnitude = other.magnitude > best.magnitude ? other.magnitude : best.magnitude;
  if (wins(other, best)) best = other;
  best.magnitude = magnitude;
}

enum { tile = 32, tile_k = 16, threads = 256 };

// 32 rows of a matrix, 16 columns from k, as float64; zero where there is nothing.
static __device__ void load_tile(double (*shared)[tile + 1], const View& m, int dtype, long long a, long long row,
                                 long long k) {
  for (int e = threadIdx.x; e < tile * tile_k; e += threads) {
    const int r = e / tile_k, c = e % tile_k;
    const bool there = row + r < m.shape[1] && k + c < m.shape[2];
    shared[c][r] = there ? element(m, dtype, a, row + r, k + c) : 0.0;
  }
}

static __device__ void dot_tile(const Task& task, long long i, long long j, long long s0, long long t0,
                                double (*q)[tile + 1], double (*d)[tile + 1], double (&dot)[2][2],
                                double (&size)[2][2]) {
  const int s = threadIdx.x / 16, t = threadIdx.x % 16;
  for (long long k = 0; k < task.d; k += tile_k) {
    load_tile(q, task.q, task.dtype, i, s0, k);
    load_tile(d, task.documents, task.dtype, j, t0, k);
    __syncthreads();
    for (int c = 0; c < tile_k && k + c < task.d; ++c) {
      for (int a = 0; a < 2; ++a) {
        for (int b = 0; b < 2; ++b) {
          const double product = q[c][s + 16 * a] * d[c][t + 16 * b];
          dot[a][b] += product;
          size[a][b] += fabs(product);
        }
      }
    }
    __syncthreads();
  }
}

static __device__ void store_best(const Task& task, long long i, long long j, long long s, Best best) {
  if (best.index < 0) best.value = task.neg_inf ? -__longlong_as_double(0x7ff0000000000000ll) : 0.0;
  if (!kept(task.q_mask, i, s)) best.value = 0.0, best.magnitude = 0.0, best.index = -1;
  const long long at = (i * task.Nd + j) * task.Lq + s;
  task.maxima[at] = best.value;
  task.magnitudes[at] = best.index < 0 ? 0.0 : best.magnitude;
  task.winners[at] = best.index;
}

extern "C" __global__ void oracle_max(const Task task) {
  __shared__ double q[tile_k][tile + 1], d[tile_k][tile + 1];
  __shared__ Best partial[tile][16];
  const long long s_tiles = (task.Lq + tile - 1) / tile, pair = blockIdx.x / s_tiles;
  const long long i = pair / task.Nd, j = pair % task.Nd, s0 = blockIdx.x % s_tiles * tile;
  const long long length = length_of(task, j);
  const int s = threadIdx.x / 16, t = threadIdx.x % 16;
  Best best[2] = {{0.0, 0.0, -1}, {0.0, 0.0, -1}};
  for (long long t0 = 0; t0 < length; t0 += tile) {
    double dot[2][2] = {{0.0, 0.0}, {0.0, 0.0}}, size[2][2] = {{0.0, 0.0}, {0.0, 0.0}};
    dot_tile(task, i, j, s0, t0, q, d, dot, size);
    for (int b = 0; b < 2; ++b) {
      const long long token = t0 + t + 16 * b;
      if (token >= length || !kept(task.d_mask, j, token)) continue;
      for (int a = 0; a < 2; ++a) {
        const long long query = s0 + s + 16 * a;
        if (query >= task.Lq) continue;
        double factor = 1.0;
        if (task.normalize) factor = task.q_norms[i * task.Lq + query] * task.d_norms[j * task.Ld + token];
        merge(best[a], {dot[a][b] / factor, size[a][b] / factor, (int)token});
      }
    }
  }
  for (int a = 0; a < 2; ++a) partial[s + 16 * a][t] = best[a];
  __syncthreads();
  if (threadIdx.x < tile && s0 + threadIdx.x < task.Lq) {
    Best all = partial[threadIdx.x][0];
    for (int c = 1; c < 16; ++c) merge(all, partial[threadIdx.x][c]);
    store_best(task, i, j, s0 + threadIdx.x, all);
  }
}

extern "C" __global__ void oracle_sum(const Task task) {
  const long long pair = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (pair >= task.Nq * task.Nd) return;
  double sum = 0.0, bound = 0.0;
  for (long long s = 0; s < task.Lq; ++s) {
    sum += task.maxima[pair * task.Lq + s];
    bound += task.magnitudes[pair * task.Lq + s];
  }
  task.sums[pair] = sum;
  task.bounds[pair] = bound;
}

// ---- checks ---------------------------------------------------------------------------------------------------------

static __device__ void note(unsigned long long* count, unsigned long long* first, long long at) {
  atomicAdd(count, 1ull);
  atomicMin(first, (unsigned long long)at);
}

// error / bound of `got`; a negative number if it is wrong whatever the bound.
static __device__ double judged(double got, double want, double bound) {
  if (want != want) return got != got ? 0.0 : -1.0;
  if (got == want) return 0.0;
  if (got != got || fabs(want) > 1.7e308 || fabs(got) > 1.7e308 || bound == 0.0) return -1.0;
  return fabs(got - want) / bound;
}

static __device__ void note_worst(float* worst, double ratio) {
  if (ratio > 0.0) atomicMax((int*)worst, __float_as_int((float)ratio));  // ratios are positive: ordered as integers
}

extern "C" __global__ void check_scores(const Task task) {
  const long long pair = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (pair >= task.Nq * task.Nd) return;
  const float got = ((const float*)task.scores.data)[place(task.scores, pair / task.Nd, pair % task.Nd, 0)];
  double ratio = judged(got, task.sums[pair], task.coefficient * task.bounds[pair]);
  if (task.exact && ratio != 0.0) ratio = -1.0;
  if (ratio < 0.0 || ratio > 1.0) note(&task.verdict->bad_scores, &task.verdict->first_bad_score, pair);
  note_worst(&task.verdict->worst_score, ratio);
}

// How far the value at the token `got` is from the maximum, over what rounding of both allows.
static __device__ double judged_winner(const Task& task, long long i, long long j, long long s, int got) {
  const long long at = (i * task.Nd + j) * task.Lq + s;
  const int want = task.winners[at];
  if (got == want) return 0.0;
  const double maximum = task.maxima[at];
  if (task.exact || want < 0 || maximum != maximum) return -1.0;
  if (got < 0 || got >= length_of(task, j) || !kept(task.d_mask, j, got)) return -1.0;
  double dot = 0.0;
  for (long long k = 0; k < task.d; ++k) {
    dot += element(task.q, task.dtype, i, s, k) * element(task.documents, task.dtype, j, got, k);
  }
  if (task.normalize) dot /= task.q_norms[i * task.Lq + s] * task.d_norms[j * task.Ld + got];
  return judged(dot, maximum, 2.0 * task.coefficient * task.magnitudes[at]);
}

extern "C" __global__ void check_argmax(const Task task) {
  const long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= task.Nq * task.Nd * task.Lq) return;
  const long long s = at % task.Lq, pair = at / task.Lq, i = pair / task.Nd, j = pair % task.Nd;
  const int got = ((const int*)task.argmax.data)[place(task.argmax, i, j, s)];
  const double ratio = judged_winner(task, i, j, s, got);
  if (ratio < 0.0 || ratio > 1.0) note(&task.verdict->bad_argmax, &task.verdict->first_bad_argmax, at);
  note_worst(&task.verdict->worst_argmax, ratio);
}

// Results are poisoned before a run. take_back counts the elements that still are and poisons the others again;
// count_changed then finds every word that a kernel wrote beside them.
extern "C" __global__ void take_back(const View result, int poison, Verdict* verdict) {
  const long long count = result.shape[0] * result.shape[1] * result.shape[2];
  for (long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x; e < count;
       e += (long long)gridDim.x * blockDim.x) {
    const long long c = e % result.shape[2], row = e / result.shape[2];
    int* word = (int*)result.data + place(result, row / result.shape[1], row % result.shape[1], c);
    if (*word == poison) atomicAdd(&verdict->unwritten, 1ull);
    *word = poison;
  }
}

extern "C" __global__ void count_changed(const int* words, long long count, int poison, Verdict* verdict) {
  for (long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x; e < count;
       e += (long long)gridDim.x * blockDim.x) {
    if (words[e] != poison) atomicAdd(&verdict->corrupted, 1ull);
  }
}

// Keeps a stream busy.
extern "C" __global__ void spin(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}

// ---- inputs ---------------------------------------------------------------------------------------------------------

// Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
static __device__ unsigned long long random_bits(unsigned long long seed, unsigned long long at) {
  unsigned long long z = (seed + at) * 0x9E3779B97F4A7C15ull + 0x632BE59BD9B4E019ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

static __device__ float power_of_two(int exponent) { return __uint_as_float((unsigned)(exponent + 127) << 23); }

// In (-1, 1), a multiple of what the dtype's significand resolves there.
static __device__ float random_value(int dtype, unsigned long long random) {
  const int bits = dtype == dtype_f32 ? 24 : dtype == dtype_f16 ? 11 : 8;
  const int whole = (int)(random & ((1ull << bits) - 1)) - (1 << (bits - 1));
  return (float)whole * power_of_two(1 - bits) * power_of_two(-(int)(random >> 32 & 3));
}

// The same values for the same seed and shape, wherever the elements lie.
extern "C" __global__ void fill_values(const Filling filling) {
  const View& view = filling.view;
  const long long count = view.shape[0] * view.shape[1] * view.shape[2];
  for (long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x; e < count;
       e += (long long)gridDim.x * blockDim.x) {
    const long long c = e % view.shape[2], row = e / view.shape[2];
    const unsigned long long random = random_bits(filling.seed, (unsigned long long)e);
    float value = random_value(filling.dtype, random);
    if (filling.values == Values::integers) value = (float)((int)(random >> 40) % 3 - 1);
    if (filling.values == Values::rows) {
      const unsigned long long scale = random_bits(filling.seed ^ 0x5bd1e995ull, (unsigned long long)row);
      value *= power_of_two((int)(scale % (2 * filling.spread + 1)) - filling.spread);
    }
    store_element(view, filling.dtype, place(view, row / view.shape[1], row % view.shape[1], c), value);
  }
}

// Three of four kept, rows without any among them. Kept is any byte but 0; `boolean` takes 1 alone.
extern "C" __global__ void fill_mask(const View view, int boolean, unsigned long long seed) {
  const long long count = view.shape[0] * view.shape[1];
  for (long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x; e < count;
       e += (long long)gridDim.x * blockDim.x) {
    const long long a = e / view.shape[1], b = e % view.shape[1];
    const unsigned long long random = random_bits(seed, (unsigned long long)e);
    const bool keep = random % 4 != 0 && random_bits(seed ^ 0x2545f491ull, (unsigned long long)a) % 8 != 0;
    const unsigned char byte = boolean ? 1 : (unsigned char)(1 + random / 4 % 255);
    ((unsigned char*)view.data)[place(view, a, b, 0)] = keep ? byte : 0;
  }
}

// From below 0 to past the longest, with every special length among them.
extern "C" __global__ void fill_lengths(const View view, long long longest, unsigned long long seed) {
  for (long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x; e < view.shape[0];
       e += (long long)gridDim.x * blockDim.x) {
    const unsigned long long random = random_bits(seed, (unsigned long long)e);
    long long length = (long long)(random / 16 % (unsigned long long)(longest + 1));
    if (random % 16 == 0) length = -3;
    if (random % 16 == 1) length = longest + 7;
    if (random % 16 < 6 && random % 16 > 1) length = longest;
    ((int*)view.data)[place(view, e, 0, 0)] = (int)length;
  }
}
