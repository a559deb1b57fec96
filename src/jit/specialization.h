// A specialization: op + tile config + features + dtypes + static sizes + layout class + target → one translation unit.
#pragma once

#include <array>
#include <string>

#include "base/op_spec.h"
#include "cuda/architecture.h"
#include "jit/source.h"

namespace msj::jit {

struct Specialization {
  const OpSpec *op = nullptr;
  TileConfig config;
  FeatureSet features = 0;
  std::array<DType, kMaxOperands> dtypes{};  // canonical tuple
  Sizes static_sizes{};                      // entries of static sizes; the others are not looked at
  Layout layout = Layout::aligned16;
  cuda::Architecture architecture;

  // Stable, readable JSON of all of the above: the in-memory key, and what inspect shows of a cubin.
  [[nodiscard]] std::string key() const;
};

// Prologue (the constexpr values and the Args struct, from the op's table) + expanded kernel source.
[[nodiscard]] std::string translation_unit(const Specialization &specialization, KernelSources &sources);

// Canonical options: nothing that depends on paths or on NVRTC's version.
[[nodiscard]] const std::vector<std::string> &compile_options();

}  // namespace msj::jit
