// Inputs that a test spells out, element by element.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "gpu/operand.h"

namespace msj::gpu {

// Of bf16 or f16, for values that it can hold (NaN and infinities too; no f16 subnormals); rounds toward zero.
[[nodiscard]] inline std::uint16_t short_bits(DType dtype, float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (dtype == DType::bf16) return static_cast<std::uint16_t>(bits >> 16 | (std::isnan(value) ? 0x40U : 0U));
  const std::uint32_t sign = bits >> 16 & 0x8000U;
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7E00U);
  if (std::isinf(value)) return static_cast<std::uint16_t>(sign | 0x7C00U);
  if (value == 0) return static_cast<std::uint16_t>(sign);
  return static_cast<std::uint16_t>(sign | ((bits >> 23 & 0xFFU) - 127 + 15) << 10 | (bits & 0x7FFFFFU) >> 13);
}

inline void set_values(const Operand &operand, const std::vector<float> &values) {
  const DType dtype = operand.placement().dtype;
  if (dtype == DType::f32) return operand.set(values);
  std::vector<std::uint16_t> shorts;
  for (const float value : values) shorts.push_back(short_bits(dtype, value));
  operand.set(shorts);
}

// Overwrites one element, given in C order.
inline void plant(const Operand &operand, std::size_t at, float value) {
  const DType dtype = operand.placement().dtype;
  if (dtype == DType::f32) {
    auto all = operand.elements<float>();
    all.at(at) = value;
    return operand.set(all);
  }
  auto all = operand.elements<std::uint16_t>();
  all.at(at) = short_bits(dtype, value);
  operand.set(all);
}

}  // namespace msj::gpu
