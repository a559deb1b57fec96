// Elements of a tensor on the host, as the bits of its dtype: made from a seed, read as float64, rounded.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include "base/dtype.h"
#include "gpu/op_problem.h"
#include "reference/numeric.h"

namespace msj::gpu {

// Each element in the low bits of a word, C order: one type for every dtype.
using Bits = std::vector<std::uint32_t>;

// How a float dtype spends its bits. Largest finite numbers aside, all of them are IEEE's.
struct FloatFormat {
  int exponent_bits, mantissa_bits;
  [[nodiscard]] int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  [[nodiscard]] std::uint32_t sign() const { return 1U << (exponent_bits + mantissa_bits); }
};

[[nodiscard]] inline FloatFormat format_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return {8, 23};
    case DType::bf16:
      return {8, 7};
    case DType::f16:
      return {5, 10};
    case DType::fp8_e4m3:
      return {4, 3};
    case DType::fp8_e5m2:
      return {5, 2};
    default:
      throw std::runtime_error("no float dtype");
  }
}

[[nodiscard]] inline double decode(DType dtype, std::uint32_t bits) {
  switch (dtype) {
    case DType::f32:
      return std::bit_cast<float>(bits);
    case DType::bf16:
      return reference::from_bf16(static_cast<std::uint16_t>(bits));
    case DType::f16:
      return reference::from_f16(static_cast<std::uint16_t>(bits));
    case DType::fp8_e4m3:
      return reference::from_fp8_e4m3(static_cast<std::uint8_t>(bits));
    case DType::fp8_e5m2:
      return reference::from_fp8_e5m2(static_cast<std::uint8_t>(bits));
    case DType::i32:
      return static_cast<std::int32_t>(bits);
    default:
      return bits;
  }
}

[[nodiscard]] inline std::vector<double> decode(DType dtype, const Bits &bits) {
  std::vector<double> values(bits.size());
  for (std::size_t i = 0; i < bits.size(); ++i) values[i] = decode(dtype, bits[i]);
  return values;
}

// The step between neighbours of `dtype` at x.
[[nodiscard]] inline double step_at(DType dtype, double x) {
  const FloatFormat format = format_of(dtype);
  const int exponent = x == 0 ? -10'000 : std::ilogb(x);
  return std::ldexp(1.0, std::max(exponent, 1 - format.bias()) - format.mantissa_bits);
}

// To the nearest number of the dtype, ties to even; x is far from the largest.
[[nodiscard]] inline double round_to(DType dtype, double x) {
  const double step = step_at(dtype, x);
  return std::nearbyint(x / step) * step;
}

// Of a number that the dtype has; NaN and infinities too, but for e4m3, which has no infinity.
[[nodiscard]] inline std::uint32_t encode(DType dtype, double value) {
  const FloatFormat format = format_of(dtype);
  const std::uint32_t sign = std::signbit(value) ? format.sign() : 0;
  const std::uint32_t top = ((1U << format.exponent_bits) - 1) << format.mantissa_bits;
  if (std::isnan(value)) return sign | top | ((1U << format.mantissa_bits) - 1);
  if (std::isinf(value)) return sign | top;
  if (value == 0) return sign;
  const int exponent = std::max(std::ilogb(value), 1 - format.bias());
  const auto steps = static_cast<std::uint32_t>(std::ldexp(std::abs(value), format.mantissa_bits - exponent));
  return sign | ((static_cast<std::uint32_t>(exponent + format.bias() - 1) << format.mantissa_bits) + steps);
}

// ---- made from a seed -----------------------------------------------------------------------------------------------

class Maker {
 public:
  explicit Maker(std::uint64_t seed) : random_(seed) {}

  [[nodiscard]] std::uint32_t below(std::uint32_t count) { return static_cast<std::uint32_t>(random_() >> 32) % count; }
  [[nodiscard]] bool one_in(std::uint32_t count) { return below(count) == 0; }

  // Fill::random: magnitudes from 1/16 to below 1.
  [[nodiscard]] std::uint32_t four_binades(DType dtype) {
    const FloatFormat format = format_of(dtype);
    const std::uint32_t exponent = static_cast<std::uint32_t>(format.bias()) - 4 + below(4);
    return signed_bits(format, exponent << format.mantissa_bits | below(1U << format.mantissa_bits));
  }

  // Fill::wide, and with `any` NaN and infinities too.
  [[nodiscard]] std::uint32_t any_bits(DType dtype, bool any = false) {
    const FloatFormat format = format_of(dtype);
    for (;;) {
      const std::uint32_t bits = static_cast<std::uint32_t>(random_() >> 32) & (2 * format.sign() - 1);
      if (any || std::isfinite(decode(dtype, bits))) return bits;
    }
  }

  // -1, 0 or 1, nonzero `nonzero` times in `of`.
  [[nodiscard]] std::uint32_t small_integer(DType dtype, std::uint32_t nonzero, std::uint32_t of) {
    if (below(of) >= nonzero) return 0;
    return encode(dtype, one_in(2) ? -1.0 : 1.0);
  }

  // A scale: mostly positive, as those of a quantization are.
  [[nodiscard]] std::uint32_t scale(Fill fill) {
    const float sign = one_in(8) ? -1.0F : 1.0F;
    if (fill == Fill::integers)
      return std::bit_cast<std::uint32_t>(sign * std::ldexp(1.0F, static_cast<int>(below(3)) - 1));
    const float mantissa = 1.0F + static_cast<float>(below(1U << 23)) * 0x1p-23F;
    return std::bit_cast<std::uint32_t>(sign * std::ldexp(mantissa, static_cast<int>(below(7)) - 3));
  }

  // Fill::special: rows of one kind.
  enum class Row : std::uint8_t { zeros, subnormals, tiny, wide, anything, ordinary, ordinary_with_specials };
  [[nodiscard]] Row row() { return static_cast<Row>(below(7)); }
  [[nodiscard]] std::uint32_t element(DType dtype, Row row) {
    const FloatFormat format = format_of(dtype);
    switch (row) {
      case Row::zeros:
        return signed_bits(format, 0);
      case Row::subnormals:
        return signed_bits(format, below(1U << format.mantissa_bits));
      case Row::tiny:
        return signed_bits(format, below(1U << (format.mantissa_bits + format.exponent_bits - 2)));
      case Row::wide:
        return any_bits(dtype);
      case Row::anything:
        return any_bits(dtype, true);
      case Row::ordinary:
        return four_binades(dtype);
      default:
        break;
    }
    if (!one_in(40)) return four_binades(dtype);
    const double infinity = std::numeric_limits<double>::infinity();
    return signed_bits(format, encode(dtype, one_in(3) ? infinity : std::numeric_limits<double>::quiet_NaN()));
  }

 private:
  [[nodiscard]] std::uint32_t signed_bits(const FloatFormat &format, std::uint32_t magnitude) {
    return (magnitude & (format.sign() - 1)) | (one_in(2) ? format.sign() : 0);
  }

  std::mt19937_64 random_;
};

[[nodiscard]] inline Bits make_matrix(Maker &maker, const OpProblem &problem, DType dtype, const Placement &at) {
  const auto rank = static_cast<std::size_t>(at.rank);
  const auto width = static_cast<std::uint32_t>(std::max<std::int64_t>(at.shape[rank - 1], 1));
  // A projection gives sums of some 20 terms, which every dtype holds.
  const std::uint32_t nonzero = rank == 2 ? std::min(20U, std::max(1U, width * 2 / 3)) : std::max(1U, width * 2 / 3);
  Bits bits(static_cast<std::size_t>(at.elements()));
  Maker::Row row = maker.row();
  for (std::size_t i = 0; i < bits.size(); ++i) {
    switch (problem.fill) {
      case Fill::random:
        bits[i] = maker.four_binades(dtype);
        break;
      case Fill::wide:
        bits[i] = maker.any_bits(dtype);
        break;
      case Fill::integers:
        bits[i] = maker.small_integer(dtype, nonzero, width);
        break;
      case Fill::special:
        // Where one scale is for all, so is the kind of row.
        if (i % width == 0 && problem.features != 0) row = maker.row();
        bits[i] = maker.element(dtype, row);
        break;
    }
  }
  return bits;
}

// Rows that keep everything, nothing, half or most; nonzero bytes of every kind where the dtype has them.
[[nodiscard]] inline Bits make_mask(Maker &maker, DType dtype, const Placement &at) {
  constexpr std::array<std::uint32_t, 6> kKept = {16, 15, 15, 8, 2, 0};  // of 16
  Bits bits(static_cast<std::size_t>(at.elements()));
  std::uint32_t kept = 0;
  for (std::size_t i = 0; i < bits.size(); ++i) {
    if (i % static_cast<std::size_t>(at.shape[1]) == 0) kept = kKept.at(maker.below(6));
    if (maker.below(16) < kept) bits[i] = dtype == DType::boolean ? 1 : 1 + maker.below(255);
  }
  return bits;
}

// Below 0 to above the longest, and often 0 or all.
[[nodiscard]] inline Bits make_lengths(Maker &maker, const OpProblem &problem, const Placement &at) {
  const std::int64_t longest = problem.size("Ld");
  Bits bits(static_cast<std::size_t>(at.elements()));
  for (std::uint32_t &length : bits) {
    const std::int64_t any = static_cast<std::int64_t>(maker.below(static_cast<std::uint32_t>(longest + 5))) - 2;
    length = static_cast<std::uint32_t>(maker.one_in(8) ? 0 : maker.one_in(4) ? longest : any);
  }
  return bits;
}

// Documents of an index of N tokens, scattered and overlapping, some without tokens; of a broken problem, some that are
// not inside it. Bits of an int64 are those of its lower half, as signed.
struct PackedDocuments {
  Bits starts, lengths;

  explicit PackedDocuments(const OpProblem &problem) {
    Maker maker(problem.seed * 1'000'003 + 5);
    const auto tokens = static_cast<std::uint32_t>(problem.size("N"));
    for (std::int64_t j = 0; j < problem.size("Nd"); ++j) {
      std::uint32_t length = maker.one_in(8) ? 0 : maker.below(tokens + 1);
      if (!maker.one_in(4)) length = std::min(length, static_cast<std::uint32_t>(5'000));
      std::uint32_t start = maker.below(tokens - length + 1);
      if (problem.broken && maker.one_in(4)) {
        constexpr std::array<std::uint32_t, 4> kStarts = {0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, 0};
        if (maker.one_in(3))
          length = maker.one_in(2) ? 0x80000000 + maker.below(7) : 0x7FFFFFFF;
        else
          start = maker.one_in(5) ? tokens - length + 1 : kStarts.at(maker.below(4));
      }
      starts.push_back(start);
      lengths.push_back(length);
    }
  }
};

[[nodiscard]] inline Bits make_codes(Maker &maker, const OpProblem &problem, const Placement &at) {
  const std::int64_t count = problem.size("K");
  Bits bits(static_cast<std::size_t>(at.elements()));
  for (std::uint32_t &code : bits) {
    code = maker.below(static_cast<std::uint32_t>(count));
    if (!problem.broken || !maker.one_in(50)) continue;
    code = maker.one_in(2) ? static_cast<std::uint32_t>(count) : 0x80000000 + maker.below(0x7FFFFFFF);
  }
  return bits;
}

// The elements of an input, a function of the seed and the operand's place in the table: what else a problem has does
// not change them.
[[nodiscard]] inline Bits make_elements(const OpProblem &problem, std::size_t operand, const Placement &at) {
  Maker maker(problem.seed * 1'000'003 + 11 * (operand + 1));
  const DtypeRule &rule = problem.op->operands[operand].dtype;
  const OperandSpec &spec = problem.op->operands[operand];
  if (rule.kind != DtypeRule::Kind::fixed) return make_matrix(maker, problem, at.dtype, at);
  if (spec.content == Content::codes) return make_codes(maker, problem, at);
  if (spec.content == Content::starts) return PackedDocuments(problem).starts;
  if (rule.canonical == DType::i32 && find_named(problem.op->operands, "d_starts") >= 0) {
    return PackedDocuments(problem).lengths;
  }
  if (rule.canonical == DType::u8) {
    Bits bits(static_cast<std::size_t>(at.elements()));
    for (std::uint32_t &byte : bits) byte = maker.below(256);
    return bits;
  }
  if (rule.canonical == DType::i8) return make_mask(maker, at.dtype, at);
  if (rule.canonical == DType::i32) return make_lengths(maker, problem, at);
  Bits bits(static_cast<std::size_t>(at.elements()));
  for (std::uint32_t &scale : bits) scale = maker.scale(problem.fill);
  return bits;
}

}  // namespace msj::gpu
