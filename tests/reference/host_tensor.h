// Host tensors for tests of the reference: logical float64 values beside their encoding in some dtype, at any strides.
// Encoding and decoding are the definition of the formats written down once more, by ldexp and frexp, and share nothing
// with what they test.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/call.h"

namespace host {

struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;  // else the top exponent holds numbers, and all ones is NaN
};
inline constexpr Format kF16 = {5, 10, true};
inline constexpr Format kBf16 = {8, 7, true};
inline constexpr Format kE4m3 = {4, 3, false};
inline constexpr Format kE5m2 = {5, 2, true};

inline double decode(const Format &format, unsigned bits) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const unsigned top = (1u << format.exponent_bits) - 1;
  const unsigned mantissa = bits % (1u << format.mantissa_bits);
  const unsigned exponent = (bits >> format.mantissa_bits) & top;
  const double sign = (bits >> (format.exponent_bits + format.mantissa_bits)) != 0 ? -1.0 : 1.0;
  const unsigned all_ones = (1u << format.mantissa_bits) - 1;
  if (exponent == top && format.has_infinity) {
    return std::copysign(mantissa == 0 ? std::numeric_limits<double>::infinity() : std::nan(""), sign);
  }
  if (exponent == top && mantissa == all_ones) return std::copysign(std::nan(""), sign);
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - format.mantissa_bits);
  return sign *
         std::ldexp(mantissa + (1u << format.mantissa_bits), static_cast<int>(exponent) - bias - format.mantissa_bits);
}

// Towards zero; the value must be below the end of the normal range, infinite or NaN.
inline unsigned encode(const Format &format, double value) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const unsigned top = (1u << format.exponent_bits) - 1;
  const unsigned sign = std::signbit(value) ? 1u << (format.exponent_bits + format.mantissa_bits) : 0;
  if (std::isnan(value)) return sign | (top << format.mantissa_bits) | ((1u << format.mantissa_bits) - 1);
  if (std::isinf(value)) return sign | (top << format.mantissa_bits);
  if (std::fabs(value) < std::ldexp(1.0, 1 - bias)) {
    return sign | static_cast<unsigned>(std::ldexp(std::fabs(value), bias - 1 + format.mantissa_bits));
  }
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(value), &exponent);  // in [0.5, 1)
  const auto mantissa = static_cast<unsigned>(std::ldexp(fraction * 2 - 1, format.mantissa_bits));
  return sign | (static_cast<unsigned>(exponent - 1 + bias) << format.mantissa_bits) | mantissa;
}

// The nearest number of the format, of two the one with an even mantissa, by the spacing of its numbers there. As if
// exponents had no end.
inline double nearest(const Format &format, double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int least_exponent = 2 - (1 << (format.exponent_bits - 1));
  const double spacing = std::ldexp(1.0, std::max(std::ilogb(value), least_exponent) - format.mantissa_bits);
  return std::nearbyint(value / spacing) * spacing;
}

// How a tensor lies in memory.
enum class Order { contiguous, reversed_dimensions, negative, every_other, broadcast_rows };

class Tensor {
 public:
  Tensor() = default;
  Tensor(msj::DType dtype, std::vector<std::int64_t> shape, Order order = Order::contiguous) : shape_(shape) {
    view_.dtype = dtype;
    view_.rank = static_cast<int>(shape.size());
    view_.present = true;
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    values_.assign(static_cast<std::size_t>(count), 0.0);
    lay_out(order);
  }

  // Writes and rounds; what at() gives afterwards is the rounded value.
  void set(std::int64_t flat, double value) {
    char *place = element(flat);
    const auto put = [&](auto encoded) { std::memcpy(place, &encoded, sizeof(encoded)); };
    double &rounded = values_[static_cast<std::size_t>(flat)];
    const auto put_format = [&](const Format &format, auto zero) {
      const unsigned bits = encode(format, value);
      rounded = decode(format, bits);
      put(static_cast<decltype(zero)>(bits));
    };
    switch (view_.dtype) {
      case msj::DType::f32:
        rounded = static_cast<float>(value);
        return put(static_cast<float>(value));
      case msj::DType::f16:
        return put_format(kF16, std::uint16_t{});
      case msj::DType::bf16:
        return put_format(kBf16, std::uint16_t{});
      case msj::DType::fp8_e4m3:
        return put_format(kE4m3, std::uint8_t{});
      case msj::DType::fp8_e5m2:
        return put_format(kE5m2, std::uint8_t{});
      case msj::DType::i32:
        rounded = value;
        return put(static_cast<std::int32_t>(value));
      default:
        rounded = value;
        return put(static_cast<std::int8_t>(value));
    }
  }
  template <typename Fill>
  void fill(const Fill &next) {
    for (std::int64_t i = 0; i < size(); ++i) set(i, next());
    if (order_ == Order::broadcast_rows) reread_broadcast();
  }

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(values_.size()); }
  [[nodiscard]] double at(std::int64_t flat) const { return values_[static_cast<std::size_t>(flat)]; }
  template <typename T>
  [[nodiscard]] T raw(std::int64_t flat) const {
    T value;
    std::memcpy(&value, const_cast<Tensor *>(this)->element(flat), sizeof(T));
    return value;
  }
  // Valid while this tensor lives and is not moved.
  [[nodiscard]] msj::TensorView view() {
    msj::TensorView view = view_;
    view.data = bytes_.empty() ? nullptr : bytes_.data() + origin_ * width();
    return view;
  }
  // One value for all, as a call binds it.
  [[nodiscard]] msj::TensorView single_view() {
    msj::TensorView single = view();
    single.rank = 1;
    single.shape = {1};
    single.strides = {};
    return single;
  }
  [[nodiscard]] const std::vector<char> &memory() const { return bytes_; }

 private:
  [[nodiscard]] std::int64_t width() const { return msj::bytes(view_.dtype); }

  void lay_out(Order order) {
    order_ = order;
    std::int64_t step = order == Order::every_other ? 2 : 1;
    const int rank = view_.rank;
    for (int i = 0; i < rank; ++i) {
      const auto dim = static_cast<std::size_t>(order == Order::reversed_dimensions ? i : rank - 1 - i);
      view_.shape[dim] = shape_[dim];
      view_.strides[dim] = step;
      step *= shape_[dim];
    }
    if (order == Order::broadcast_rows) view_.strides[0] = 0;
    if (order == Order::negative) {
      for (std::size_t dim = 0; dim < shape_.size(); ++dim) {
        if (shape_[dim] > 0) origin_ += (shape_[dim] - 1) * view_.strides[dim];
        view_.strides[dim] = -view_.strides[dim];
      }
    }
    bytes_.assign(static_cast<std::size_t>(step * width()), char{0x5a});
  }

  // Where rows share memory, the last one written is what all of them hold.
  void reread_broadcast() {
    if (size() == 0 || shape_[0] == 0) return;
    const std::int64_t row = size() / shape_[0];
    for (std::int64_t i = 0; i < size(); ++i) {
      values_[static_cast<std::size_t>(i)] = at((shape_[0] - 1) * row + i % row);
    }
  }

  char *element(std::int64_t flat) {
    std::int64_t offset = origin_;
    for (int dim = view_.rank - 1; dim >= 0; --dim) {
      const std::int64_t size = shape_[static_cast<std::size_t>(dim)];
      offset += flat % size * view_.strides[static_cast<std::size_t>(dim)];
      flat /= size;
    }
    return bytes_.data() + offset * width();
  }

  msj::TensorView view_;
  Order order_ = Order::contiguous;
  std::vector<std::int64_t> shape_;
  std::vector<double> values_;
  std::vector<char> bytes_;
  std::int64_t origin_ = 0;
};

}  // namespace host
