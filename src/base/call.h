// A checked call: operands bound to the op's sizes, features derived, nothing left to validate. POD, no allocation.
#pragma once

#include <array>
#include <cstdint>

#include "base/op_spec.h"

namespace msj {

struct TensorView {
  void *data = nullptr;
  DType dtype = DType::f32;
  int rank = 0;
  std::array<std::int64_t, kMaxRank> shape{};
  std::array<std::int64_t, kMaxRank> strides{};  // elements
  bool present = false;
};

struct BoundCall {
  const OpSpec *op = nullptr;
  std::array<TensorView, kMaxOperands> operands{};
  Sizes sizes{};
  FeatureSet features = 0;
  Layout layout = Layout::aligned16;
  std::array<DType, kMaxOperands> dtypes{};       // the canonical tuple, one for every operand
  std::array<std::int64_t, kMaxParams> params{};  // in table order; doubles as their bits
};

}  // namespace msj
