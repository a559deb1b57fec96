// A problem of any op, said in the words of its table: sizes, dtypes, features, and how its tensors lie in memory.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/op_spec.h"
#include "gpu/operand.h"
#include "maxsim_jit/maxsim_jit.hpp"
#include "ops/registry.h"

namespace msj::gpu {

// What the matrices of an op are filled with; masks, lengths and scales go along.
enum class Fill : std::uint8_t {
  random,    // every bit of the significand, magnitudes below 1 over four binades; scales of any value
  wide,      // any finite bits
  integers,  // -1, 0 or 1, so that sums are exact and ties many; a projection has few of them; scales 1/2, 1 or 2
  special,   // rows (of a single scale: whole tensors) of zeros, subnormals, tiny and huge numbers, NaN and infinities
};
[[nodiscard]] inline std::string name(Fill fill) {
  constexpr std::array<const char *, 4> kNames = {"random", "wide", "integers", "special"};
  return kNames[static_cast<std::size_t>(fill)];
}

// By operand; an absent one is a default-made Tensor.
using OpTensors = std::array<maxsim_jit::Tensor, kMaxOperands>;
using OpPlacements = std::array<std::optional<Placement>, kMaxOperands>;

struct OpProblem {
  const OpSpec *op = nullptr;
  Sizes sizes{};
  std::vector<DType> own;  // of the operands that have a dtype of their own, in the table's order
  FeatureSet features = 0;
  bool extras = false;          // with the optional operands that make no feature: d_lengths
  bool singles = false;         // with one scale for all where a scale is no feature; else none
  std::size_t alternative = 0;  // which accepted dtype masks and biases have, modulo their number
  bool neg_inf = false;         // empty_doc, of an op that has it
  bool broken = false;          // with codes that are no centroid's and documents that are not inside the index
  Fill fill = Fill::random;
  Placing streamed = Placing::contiguous, others = Placing::contiguous;
  std::uint64_t seed = 1;
  std::size_t guard = 256;  // bytes around each operand; 0: memory checkers see the first byte past it

  [[nodiscard]] std::int64_t size(std::string_view name) const;
  void resize(std::initializer_list<std::pair<std::string_view, std::int64_t>> named);
  [[nodiscard]] bool has(std::string_view feature) const;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] DType dtype(std::size_t operand) const;
  [[nodiscard]] bool is_present(std::size_t operand) const;
  [[nodiscard]] OpPlacements placements() const;  // nothing for what is absent
  [[nodiscard]] maxsim_jit::Call call(const OpTensors &tensors) const;
  // A call to prepare with: its tensors are nowhere, but aligned as an instance's.
  [[nodiscard]] maxsim_jit::Call call_to_prepare() const;

 private:
  // The feature that the operand's full rank or presence is; -1: none.
  [[nodiscard]] int feature_of(std::size_t operand) const;
  [[nodiscard]] bool is_single(std::size_t operand) const;
};

[[nodiscard]] const OpSpec &op_of(msj_op id);
[[nodiscard]] std::size_t operand_of(const OpSpec &op, std::string_view name);
// The set of these features, by their names.
[[nodiscard]] FeatureSet features_of(const OpSpec &op, std::initializer_list<std::string_view> names);

// ---------------------------------------------------------------------------------------------------------------------

inline const OpSpec &op_of(msj_op id) {
  const ops::Op *op = ops::find_op(id);
  if (op == nullptr) throw std::runtime_error(fmt::format("the registry has no op {}", id));
  return *op->spec;
}

template <typename Spec>
inline std::size_t index_named(std::span<const Spec> specs, std::string_view wanted) {
  const int index = find_named(specs, wanted);
  if (index < 0) throw std::runtime_error(fmt::format("the table has no {}", wanted));
  return static_cast<std::size_t>(index);
}

inline std::size_t operand_of(const OpSpec &op, std::string_view name) { return index_named(op.operands, name); }

inline FeatureSet features_of(const OpSpec &op, std::initializer_list<std::string_view> names) {
  FeatureSet set = 0;
  for (const std::string_view name : names) set |= FeatureSet{1} << index_named(op.features, name);
  return set;
}

inline std::int64_t OpProblem::size(std::string_view name) const { return sizes[index_named(op->sizes, name)]; }

inline void OpProblem::resize(std::initializer_list<std::pair<std::string_view, std::int64_t>> named) {
  for (const auto &[name, value] : named) sizes[index_named(op->sizes, name)] = value;
}

inline bool OpProblem::has(std::string_view feature) const {
  return ((features >> index_named(op->features, feature)) & 1U) != 0;
}

inline std::string OpProblem::text() const {
  std::string all(op->name);
  for (const DType dtype : own) all += " " + std::string(msj::name(dtype));
  for (std::size_t i = 0; i < op->sizes.size(); ++i) all += fmt::format(", {} {}", op->sizes[i].name, sizes[i]);
  return fmt::format("{} [{}]{}{}{} {}, streamed {}, others {}, alternative {}, seed {}", all,
                     fmt::join(feature_names(*op, features), " "), extras ? " lengths" : "", singles ? " singles" : "",
                     neg_inf  ? broken ? " -inf broken" : " -inf"
                     : broken ? " broken"
                              : "",
                     gpu::name(fill), gpu::name(streamed), gpu::name(others), alternative, seed);
}

inline DType OpProblem::dtype(std::size_t operand) const {
  const DtypeRule &rule = op->operands[operand].dtype;
  if (rule.kind == DtypeRule::Kind::own) {
    std::size_t before = 0;
    for (std::size_t i = 0; i < operand; ++i) before += op->operands[i].dtype.kind == DtypeRule::Kind::own ? 1 : 0;
    return own.at(before);
  }
  if (rule.kind == DtypeRule::Kind::fixed) return rule.accepted[alternative % rule.accepted.size()];
  const std::size_t other = alternative % (rule.accepted.size() + 1);
  return other > 0 ? rule.accepted[other - 1] : dtype(static_cast<std::size_t>(rule.follows));
}

inline int OpProblem::feature_of(std::size_t operand) const {
  for (std::size_t f = 0; f < op->features.size(); ++f) {
    if (op->features[f].operand == static_cast<int>(operand)) return static_cast<int>(f);
  }
  return -1;
}

inline bool OpProblem::is_single(std::size_t operand) const {
  const int feature = feature_of(operand);
  return feature >= 0 && op->features[static_cast<std::size_t>(feature)].source == FeatureSpec::Source::rank &&
         ((features >> feature) & 1U) == 0;
}

inline bool OpProblem::is_present(std::size_t operand) const {
  if (!op->operands[operand].optional) return true;
  const int feature = feature_of(operand);
  if (feature < 0) return extras;
  if (((features >> feature) & 1U) != 0) return true;
  return is_single(operand) && singles;
}

inline OpPlacements OpProblem::placements() const {
  OpPlacements all;
  for (std::size_t i = 0; i < op->operands.size(); ++i) {
    if (!is_present(i)) continue;
    const OperandSpec &operand = op->operands[i];
    std::vector<std::int64_t> shape = {1};
    if (!is_single(i)) {
      shape.clear();
      for (int r = 0; r < operand.rank; ++r) {
        shape.push_back(dim_size(*op, sizes, operand.dims[static_cast<std::size_t>(r)]));
      }
    }
    all[i] = place(dtype(i), shape, operand.streamed ? streamed : others);
  }
  return all;
}

inline maxsim_jit::Call OpProblem::call(const OpTensors &tensors) const {
  maxsim_jit::Call call(op->id);
  for (std::size_t i = 0; i < op->operands.size(); ++i) call.operand(i, tensors[i]);
  if (find_named(op->params, "empty_doc") >= 0) {
    call.param(MSJ_PARAM_EMPTY_DOC, std::int64_t{neg_inf ? MSJ_EMPTY_DOC_NEG_INF : MSJ_EMPTY_DOC_ZERO});
  }
  for (std::size_t f = 0; f < op->features.size(); ++f) {
    if (op->features[f].source != FeatureSpec::Source::flag) continue;
    call.flag(op->features[f].flag, ((features >> f) & 1U) != 0);
  }
  for (const ParamSpec &param : op->params) {
    if (param.size >= 0) call.param(param.id, sizes[static_cast<std::size_t>(param.size)]);
  }
  return call;
}

inline maxsim_jit::Call OpProblem::call_to_prepare() const {
  OpTensors tensors;
  const OpPlacements places = placements();
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto *base = reinterpret_cast<const void *>((std::uintptr_t{1} << 45) + (i << 40));
    if (places[i]) tensors[i] = places[i]->tensor(base);
  }
  return call(tensors);
}

}  // namespace msj::gpu
