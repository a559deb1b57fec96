// A dense_forward problem of a test: sizes, dtype, features, and how its tensors lie in memory.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpu/operand.h"
#include "maxsim_jit/maxsim_jit.hpp"
#include "ops/dense_forward.h"

namespace msj::gpu {

// The bits of dense_forward's feature set, in its table's order.
inline constexpr FeatureSet kQMask = 1;
inline constexpr FeatureSet kDMask = 2;
inline constexpr FeatureSet kNormalize = 4;
inline constexpr FeatureSet kArgmax = 8;
inline constexpr FeatureSet kAllFeatures = 15;
[[nodiscard]] inline std::string features_text(FeatureSet features) {
  return fmt::format("[{}]", fmt::join(feature_names(ops::dense_forward_spec(), features), " "));
}

inline constexpr std::array<DType, 3> kMatrixDtypes = {DType::bf16, DType::f16, DType::f32};

// By operand; an absent one is a default-made Tensor.
using Tensors = std::array<maxsim_jit::Tensor, MSJ_DENSE_FORWARD_OPERANDS>;
using Placements = std::array<std::optional<Placement>, MSJ_DENSE_FORWARD_OPERANDS>;

struct Problem {
  DType dtype = DType::bf16;
  std::int64_t Nq = 1, Nd = 1, Lq = 1, Ld = 1, d = 1;
  FeatureSet features = 0;
  bool d_lengths = false;
  bool neg_inf = false;
  Values values = Values::random;
  DType mask_dtype = DType::i8;
  Placing q = Placing::contiguous, documents = Placing::contiguous, others = Placing::contiguous;
  std::uint64_t seed = 1;
  std::size_t guard = 256;  // bytes around each operand; 0: memory checkers see the first byte past it

  [[nodiscard]] bool has(FeatureSet feature) const { return (features & feature) != 0; }
  [[nodiscard]] double multiply_adds() const;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] Placements placements() const;  // nothing for what is absent
  [[nodiscard]] maxsim_jit::Call call(const Tensors &tensors) const;
  // A call to prepare with: its tensors are nowhere, but aligned as an instance's.
  [[nodiscard]] maxsim_jit::Call call_to_prepare() const;
};

// The error that DESIGN section 5 allows, over B.
[[nodiscard]] inline double accuracy(DType dtype, std::int64_t d) {
  if (dtype == DType::f32) return d <= 1024 ? 2e-6 : 1e-5;
  return std::ldexp(static_cast<double>((d + 15) / 16 + 8), -24);
}

// msj_run, or the library's sentence as an exception.
inline void run(msj_context *context, const maxsim_jit::Call &call) {
  if (msj_run(context, call.get()) != MSJ_OK) throw std::runtime_error(msj_last_error());
}

// ---------------------------------------------------------------------------------------------------------------------

inline double Problem::multiply_adds() const {
  return static_cast<double>(Nq) * static_cast<double>(Nd) * static_cast<double>(Lq) * static_cast<double>(Ld) *
         static_cast<double>(d);
}

inline std::string Problem::text() const {
  return fmt::format("{} {} x {}, {} x {}, d {} {}{}{} q {}, d {}, others {}, seed {}", name(dtype), Nq, Nd, Lq, Ld, d,
                     features_text(features), d_lengths ? " lengths" : "", neg_inf ? " -inf" : "", gpu::name(q),
                     gpu::name(documents), gpu::name(others), seed);
}

inline Placements Problem::placements() const {
  Placements all;
  all[MSJ_DENSE_FORWARD_Q] = place(dtype, {Nq, Lq, d}, q);
  all[MSJ_DENSE_FORWARD_D] = place(dtype, {Nd, Ld, d}, documents);
  if (has(kQMask)) all[MSJ_DENSE_FORWARD_Q_MASK] = place(mask_dtype, {Nq, Lq}, others);
  if (has(kDMask)) all[MSJ_DENSE_FORWARD_D_MASK] = place(mask_dtype, {Nd, Ld}, others);
  if (d_lengths) all[MSJ_DENSE_FORWARD_D_LENGTHS] = place(DType::i32, {Nd}, others);
  all[MSJ_DENSE_FORWARD_SCORES] = place(DType::f32, {Nq, Nd}, others);
  if (has(kArgmax)) all[MSJ_DENSE_FORWARD_ARGMAX] = place(DType::i32, {Nq, Nd, Lq}, others);
  return all;
}

inline maxsim_jit::Call Problem::call(const Tensors &tensors) const {
  maxsim_jit::Call call(MSJ_DENSE_FORWARD);
  for (std::size_t i = 0; i < tensors.size(); ++i) call.operand(i, tensors[i]);
  call.param(MSJ_PARAM_EMPTY_DOC, std::int64_t{neg_inf ? MSJ_EMPTY_DOC_NEG_INF : MSJ_EMPTY_DOC_ZERO});
  call.flag(MSJ_FLAG_NORMALIZE, has(kNormalize));
  return call;
}

inline maxsim_jit::Call Problem::call_to_prepare() const {
  Tensors tensors;
  const Placements places = placements();
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto *base = reinterpret_cast<const void *>((std::uintptr_t{1} << 45) + (i << 40));
    if (places[i]) tensors[i] = places[i]->tensor(base);
  }
  return call(tensors);
}

}  // namespace msj::gpu
