#pragma once
// Rows of an index that keeps each token as a centroid's number and a few bits a feature:
//
//   row[k] = centroid[code][k] + weight[index k]       index k: bits k * nbits ... of the row's stream, low bit first
//
// Stream bit j is bit 7 - j % 8 of byte j / 8, with lsb_first bit j % 8. Bits are never put in order: fields are looked
// up as they lie in their byte, in tables that hold for each such field the weights it stands for.
//
// Rows are 16-bit where Q and the centroids are of one 16-bit dtype, else float32.

namespace msj {

namespace feature {
constexpr bool d_mask = false;  // documents are ranges of tokens, each of them whole
}

constexpr int nbits = static_size::nbits;
static_assert(nbits == 1 || nbits == 2 || nbits == 4 || nbits == 8);
using Centroid = Numeric<dtype::centroids>::Storage;
constexpr int centroid_bytes = sizeof(Centroid);

// Where a field of `bits` at stream position `at` lies in its little-endian word: a shift to the right.
__host__ __device__ constexpr int field_shift(int at, int bits) {
  return at / 8 * 8 + (feature::lsb_first ? at % 8 : 8 - at % 8 - bits);
}

// What a field of `bits` holds in stream order.
__device__ __forceinline__ unsigned in_stream_order(unsigned field, int bits) {
  return feature::lsb_first ? field : __brev(field) >> (32 - bits);
}

__device__ __forceinline__ Centroid weight_at(const Args& args, unsigned index) {
  return static_cast<const Centroid*>(args.bucket_weights.data)[index * args.bucket_weights.stride[0]];
}

// The centroid's number, or -1 where it is none's.
__device__ __forceinline__ int checked_code(const Args& args, int code) {
  return code >= 0 && code < args.size_K ? code : -1;
}

// Words that hold the bits of 16 features, the first of which starts a byte.
constexpr int words_of_16 = nbits == 8 ? 4 : nbits == 4 ? 2 : 1;

// --- 16-bit weights --------------------------------------------------------------------------------------------------

// Weights of two neighbouring features in one word, for each field that two indices make (at 8 bits: of one feature, in
// the lower half). Copies side by side, so that lanes seldom meet in a bank: with 32, never.
struct WeightPairs {
  static constexpr int field_bits = nbits == 8 ? 8 : 2 * nbits, fields = 1 << field_bits;
  static constexpr int copies = nbits <= 2 ? 32 : 8;
  unsigned pair[fields][copies];

  __device__ __forceinline__ void fill(const Args& args, int threads) {
    for (int at = threadIdx.x; at < fields * copies; at += threads) {
      const unsigned indices = in_stream_order(at / copies, field_bits);
      unsigned both = weight_at(args, indices & ((1u << nbits) - 1));
      if constexpr (nbits < 8) both |= unsigned(weight_at(args, indices >> nbits)) << 16;
      pair[at / copies][at % copies] = both;
    }
  }

  // Of features 8 * eight + 2 * c and the next, whose bits are in word[0]...; `eight` is known to the compiler.
  __device__ __forceinline__ unsigned of(const unsigned* word, int eight, int c, int lane) const {
    if constexpr (nbits == 8) {
      const unsigned two = c >= 2 ? word[2 * eight + 1] : word[2 * eight];
      return __byte_perm(at(two, c % 2 * 16, lane), at(two, c % 2 * 16 + 8, lane), 0x5410);
    } else {
      const int bit = 8 * nbits * eight;
      return at(word[bit / 32], bit % 32 + field_shift(2 * c * nbits, field_bits), lane);
    }
  }

 private:
  // For the field at `shift` in a word: shifted to where it is an offset to its copies.
  __device__ __forceinline__ unsigned at(unsigned word, int shift, int lane) const {
    constexpr int log = copies == 32 ? 7 : 5;  // of the bytes of a field's copies
    static_assert(copies * 4 == 1 << log);
    const unsigned field = (shift > log ? word >> (shift - log) : word << (log - shift)) & unsigned(fields - 1) << log;
    const unsigned offset = field | unsigned(lane % copies * 4);
    return *reinterpret_cast<const unsigned*>(reinterpret_cast<const unsigned char*>(pair) + offset);
  }
};

// The weights of neighbouring features, four at 1 or 2 bits, two at 4, one at 8, for each field that their indices make:
// a row of 128 bytes, so that each lane (at 8 bytes, of each half) has a copy in banks of its own.
struct FieldWeights {
  static constexpr int features = nbits <= 2 ? 4 : nbits == 4 ? 2 : 1, words = features == 4 ? 2 : 1;
  static constexpr int field_bits = features * nbits, fields = 1 << field_bits, copies = 32 / words;
  unsigned word[fields][32];

  // True: one of the weights that this thread has seen is no number.
  __device__ __forceinline__ bool fill(const Args& args, int threads) {
    bool is_special = false;
    for (int at = threadIdx.x; at < fields * copies; at += threads) {
      const int field = at / copies, copy = at % copies;
      const unsigned indices = in_stream_order(field, field_bits);
#pragma unroll
      for (int w = 0; w < words; ++w) {
        unsigned pair = 0;
#pragma unroll
        for (int i = 0; i < (features < 2 ? 1 : 2); ++i) {
          const Centroid weight = weight_at(args, indices >> (2 * w + i) * nbits & ((1u << nbits) - 1));
          const float value = Numeric<dtype::centroids>::widen(weight);
          is_special |= value - value != 0.0f;
          pair |= unsigned(weight) << (16 * i);
        }
        word[field][copy * words + w] = pair;
      }
    }
    return is_special;
  }

  // One lane's view.
  struct Lookup {
    unsigned table;
    int lane_bytes;
    __device__ __forceinline__ Lookup(const FieldWeights& weights, int lane)
        : table(ptx::shared_address(&weights)), lane_bytes(lane % copies * words * 4) {
      ptx::hold(lane_bytes);  // or it is worked out with every address
    }

    // Of features 4 s ... 4 s + 3, whose bits are in `bits` (s is known to the compiler).
    __device__ __forceinline__ void quad(unsigned (&pair)[2], const unsigned* bits, int s) const {
      if constexpr (features == 4) {
        ptx::load_shared_8(pair, address(bits, 4 * s));
      } else if constexpr (features == 2) {
        pair[0] = ptx::load_shared_4(address(bits, 4 * s)), pair[1] = ptx::load_shared_4(address(bits, 4 * s + 2));
      } else {
#pragma unroll
        for (int i = 0; i < 2; ++i)
          pair[i] = __byte_perm(ptx::load_shared_4(address(bits, 4 * s + 2 * i)),
                                ptx::load_shared_4(address(bits, 4 * s + 2 * i + 1)), 0x5410);
      }
    }

   private:
    // Of the row for the field that begins with feature f; a row is 2^7 bytes.
    __device__ __forceinline__ unsigned address(const unsigned* bits, int f) const {
      const unsigned word = bits[f * nbits / 32];
      const int shift = field_shift(f * nbits % 32, field_bits);
      constexpr unsigned mask = unsigned(fields - 1) << 7;
      return table + (((shift > 7 ? word >> (shift - 7) : word << (7 - shift)) & mask) | unsigned(lane_bytes));
    }
  };
};

// The weights of up to 2 bits a feature in two registers, chosen by permutes of bytes: fields that lie in the nibbles
// of a word, four at a time.
struct NibbleWeights {
  static constexpr int word_steps = 8 / nbits;  // fours of features in a word
  unsigned low = 0, high = 0;                   // bytes of the weights, by field
  bool is_special = false;                      // one of them is no number

  __device__ __forceinline__ explicit NibbleWeights(const Args& args) {
#pragma unroll
    for (int field = 0; field < 1 << nbits; ++field) {
      const Centroid weight = weight_at(args, in_stream_order(field, nbits));
      const float value = Numeric<dtype::centroids>::widen(weight);
      is_special |= value - value != 0.0f;
      low |= (unsigned(weight) & 255u) << 8 * field, high |= unsigned(weight) >> 8 << 8 * field;
    }
  }

  // Two pairs: of the fields at bits at, at + 4, at + 8, at + 12 of a word; at = step % 2 * 16 + step / 2 * nbits.
  __device__ __forceinline__ void four(unsigned (&pair)[2], unsigned word, int step) const {
    constexpr unsigned nibbles = nbits == 1 ? 0x11111111u : 0x33333333u;
    const unsigned fields = (word >> step / 2 * nbits & nibbles) >> step % 2 * 16;
    const unsigned lows = ptx::permute_bytes(low, low, fields), highs = ptx::permute_bytes(high, high, fields);
    pair[0] = ptx::permute_bytes(lows, highs, 0x5140), pair[1] = ptx::permute_bytes(lows, highs, 0x7362);
  }
};

// Of a pair of features from k on, what is below `limit`: weights past d may be anything.
__device__ __forceinline__ unsigned pair_below(unsigned pair, int k, int limit) {
  return k + 1 < limit ? pair : k < limit ? pair & 0xffffu : 0u;
}

// Both halves, rounded once.
template <DType type>
__device__ __forceinline__ unsigned add_pairs(unsigned x, unsigned y) {
  unsigned sum;
  if constexpr (type == DType::bf16)
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(x), "r"(0x3f803f80u), "r"(y));
  else asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(x), "r"(y));
  return sum;
}

// --- float32 weights -------------------------------------------------------------------------------------------------

struct Weights {
  static constexpr int fields = 1 << nbits;
  float weight[fields];

  __device__ __forceinline__ void fill(const Args& args, int threads) {
    for (int field = threadIdx.x; field < fields; field += threads)
      weight[field] = Numeric<dtype::centroids>::widen(weight_at(args, in_stream_order(field, nbits)));
  }

  // Of feature `f` of those whose bits are in word[0]...; `f` is known to the compiler.
  __device__ __forceinline__ float of(const unsigned* word, int f) const {
    return weight[word[f * nbits / 32] >> field_shift(f * nbits % 32, nbits) & (fields - 1)];
  }
};

// --- residual bytes in shared memory ---------------------------------------------------------------------------------

__host__ __device__ constexpr int residual_bytes(int features) { return divide_up(features * nbits, 8); }

// The bits of features 16 * u ... of the row at `row`.
__device__ __forceinline__ void load_words_of_16(unsigned (&word)[words_of_16], unsigned row, int u) {
  if constexpr (nbits == 1) word[0] = ptx::load_shared_2(row + u * 2);
  else if constexpr (nbits == 2) word[0] = ptx::load_shared_4(row + u * 4);
  else if constexpr (nbits == 4) ptx::load_shared_8(word, row + u * 8);
  else {
    const uint4 v = ptx::load_shared_16(row + u * 16);
    word[0] = v.x, word[1] = v.y, word[2] = v.z, word[3] = v.w;
  }
}

}  // namespace msj
