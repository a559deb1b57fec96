// A call of any op, made from its table: sizes, dtypes, features and strides in, an msj_call out.
//
// Its tensors lie at addresses that nobody may read or write: the fake driver only records a launch, and a library that
// looked at a caller's data would crash here.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/op_spec.h"
#include "maxsim_jit/maxsim_jit.h"
#include "ops/registry.h"

namespace msj::testing {

enum class Strides : std::uint8_t { contiguous, offset_by_one, odd_rows, inner_two };
inline constexpr std::array<Strides, 4> kStrides = {Strides::contiguous, Strides::offset_by_one, Strides::odd_rows,
                                                    Strides::inner_two};
[[nodiscard]] inline std::string name(Strides strides) {
  constexpr std::array<const char *, 4> kNames = {"contiguous", "offset by one element", "odd row stride",
                                                  "inner stride 2"};
  return kNames[static_cast<std::size_t>(strides)];
}
[[nodiscard]] inline Layout layout_of(Strides strides) {
  return strides == Strides::contiguous ? Layout::aligned16 : Layout::any;
}

struct CallShape {
  const OpSpec *op = nullptr;
  Sizes sizes{};
  std::vector<DType> own;  // of the operands that have a dtype of their own, in order
  FeatureSet features = 0;
  Strides streamed = Strides::contiguous;  // of the operands that decide the layout class
  Strides others = Strides::contiguous;    // of masks, lengths, results, …
  std::size_t alternative = 0;  // which accepted dtype the operands of a fixed dtype have, modulo their number
  bool featureless = false;     // with the optional operands that make no feature (d_lengths, a scale for all)
};

// ---- shapes -------------------------------------------------------------------------------------------------------

// Small and off any tile, but for the static sizes: `statics`, as far as the op takes it.
[[nodiscard]] inline Sizes small_sizes(const OpSpec &op, std::int64_t statics = 128) {
  Sizes sizes{};
  std::int64_t next = 5;
  for (std::size_t i = 0; i < op.sizes.size(); ++i) {
    const SizeSpec &size = op.sizes[i];
    sizes[i] = size.default_value != 0 ? size.default_value : size.is_static ? std::min(statics, size.max) : next;
    if (!size.accepted.empty()) sizes[i] = size.accepted[size.accepted.size() / 2 - 1];
    next += 14;
  }
  return sizes;
}

// Sizes of which 0 leaves no element in any result, where results have their full rank.
[[nodiscard]] inline std::vector<int> sizes_of_every_result(const OpSpec &op) {
  std::vector<int> sizes;
  for (int size = 0; size < static_cast<int>(op.sizes.size()); ++size) {
    const bool in_all = std::all_of(op.operands.begin(), op.operands.end(), [&](const OperandSpec &operand) {
      const auto last = operand.dims.begin() + operand.rank;
      return !operand.is_result || operand.optional || std::find(operand.dims.begin(), last, size) != last;
    });
    if (in_all && !op.sizes[static_cast<std::size_t>(size)].is_static) sizes.push_back(size);
  }
  return sizes;
}

// Every choice of dtypes for the operands that have their own, in the table's order.
[[nodiscard]] inline std::vector<std::vector<DType>> own_dtypes(const OpSpec &op) {
  std::vector<std::vector<DType>> choices = {{}};
  for (const OperandSpec &operand : op.operands) {
    if (operand.dtype.kind != DtypeRule::Kind::own) continue;
    std::vector<std::vector<DType>> longer;
    for (const auto &choice : choices) {
      for (const DType dtype : operand.dtype.accepted) {
        longer.push_back(choice);
        longer.back().push_back(dtype);
      }
    }
    choices = std::move(longer);
  }
  return choices;
}

[[nodiscard]] inline std::vector<FeatureSet> all_feature_sets(const OpSpec &op) {
  std::vector<FeatureSet> sets;
  for (FeatureSet set = 0; set <= op.all_features(); ++set) sets.push_back(set);
  return sets;
}

[[nodiscard]] inline CallShape small_call(const OpSpec &op, FeatureSet features = 0,
                                          Strides streamed = Strides::contiguous) {
  CallShape shape;
  shape.op = &op;
  shape.sizes = small_sizes(op);
  shape.own = own_dtypes(op).front();
  shape.features = features;
  shape.streamed = streamed;
  return shape;
}

// ---- calls --------------------------------------------------------------------------------------------------------

class OpCall {
 public:
  explicit OpCall(const CallShape &shape) : op_(*shape.op) {
    std::size_t next_own = 0;
    for (std::size_t i = 0; i < op_.operands.size(); ++i) {
      const OperandSpec &operand = op_.operands[i];
      switch (operand.dtype.kind) {
        case DtypeRule::Kind::own:
          dtypes_[i] = shape.own.at(next_own++);
          break;
        case DtypeRule::Kind::follows:
          dtypes_[i] = dtypes_[static_cast<std::size_t>(operand.dtype.follows)];
          if (const std::size_t other = shape.alternative % (operand.dtype.accepted.size() + 1); other > 0) {
            dtypes_[i] = operand.dtype.accepted[other - 1];
          }
          break;
        case DtypeRule::Kind::fixed:
          dtypes_[i] = operand.dtype.accepted[shape.alternative % operand.dtype.accepted.size()];
          break;
      }
      if (is_present(shape, static_cast<int>(i))) fill(shape, i);
    }
    call_.struct_size = sizeof call_;
    call_.op = op_.id;
    call_.operands = pointers_.data();
    call_.operand_count = op_.operands.size();
    for (const ParamSpec &param : op_.params) {
      if (param.size < 0) continue;
      msj_param &given = params_[call_.param_count++];
      given.id = param.id;
      given.value.i = shape.sizes[static_cast<std::size_t>(param.size)];
    }
    call_.params = params_.data();
    call_.workspace = reinterpret_cast<void *>(kFirstAddress - kBetween);
    call_.workspace_size = static_cast<std::size_t>(kBetween);  // more than any config needs
    for (std::size_t f = 0; f < op_.features.size(); ++f) {
      if (op_.features[f].source == FeatureSpec::Source::flag && ((shape.features >> f) & 1U) != 0) {
        call_.flags |= op_.features[f].flag;
      }
    }
  }
  OpCall(const OpCall &) = delete;
  OpCall &operator=(const OpCall &) = delete;

  [[nodiscard]] msj_call &call() { return call_; }
  [[nodiscard]] msj_tensor &tensor(std::size_t operand) { return tensors_[operand]; }
  [[nodiscard]] msj_tensor &tensor(std::string_view operand) {
    return tensors_.at(static_cast<std::size_t>(find_named(op_.operands, operand)));
  }
  // Whether an operand that is there, or a parameter, tells this size; else the call has 0 of it.
  [[nodiscard]] bool gives(int size) const {
    for (const ParamSpec &param : op_.params) {
      if (param.size == size) return true;
    }
    for (std::size_t i = 0; i < op_.operands.size(); ++i) {
      const OperandSpec &operand = op_.operands[i];
      if (pointers_[i] == nullptr || tensors_[i].rank != operand.rank) continue;
      for (int r = 0; r < operand.rank; ++r) {
        const int dim = operand.dims[static_cast<std::size_t>(r)];
        const ExtentSpec *extent = extent_at(op_, dim);
        if (extent != nullptr ? extent->size == size : dim == size) return true;
      }
    }
    return false;
  }
  void drop(std::string_view operand) {
    pointers_.at(static_cast<std::size_t>(find_named(op_.operands, operand))) = {};
  }

 private:
  [[nodiscard]] bool is_present(const CallShape &shape, int operand) const {
    if (!op_.operands[static_cast<std::size_t>(operand)].optional) return true;
    for (std::size_t f = 0; f < op_.features.size(); ++f) {
      if (op_.features[f].operand != operand) continue;
      if (((shape.features >> f) & 1U) != 0) return true;
      if (op_.features[f].source == FeatureSpec::Source::presence) return false;
    }
    return shape.featureless;
  }

  // One value for all, as a feature that follows from the operand's rank wants it where it is off.
  [[nodiscard]] bool is_single(const CallShape &shape, std::size_t operand) const {
    for (std::size_t f = 0; f < op_.features.size(); ++f) {
      const FeatureSpec &feature = op_.features[f];
      if (feature.source == FeatureSpec::Source::rank && feature.operand == static_cast<int>(operand)) {
        return ((shape.features >> f) & 1U) == 0;
      }
    }
    return false;
  }

  void fill(const CallShape &shape, std::size_t i) {
    const OperandSpec &operand = op_.operands[i];
    const Strides strides = operand.streamed ? shape.streamed : shape.others;
    const std::int64_t element = bytes(dtypes_[i]);
    msj_tensor &tensor = tensors_[i];
    tensor.struct_size = sizeof tensor;
    tensor.dtype = static_cast<msj_dtype>(dtypes_[i]);
    tensor.rank = is_single(shape, i) ? 1 : operand.rank;
    tensor.shape[0] = tensor.strides[0] = 1;
    std::int64_t stride = strides == Strides::inner_two ? 2 : 1;
    for (int r = tensor.rank == operand.rank ? operand.rank - 1 : -1; r >= 0; --r) {
      const auto dim = static_cast<std::size_t>(r);
      tensor.shape[dim] = dim_size(op_, shape.sizes, operand.dims[dim]);
      tensor.strides[dim] = stride;
      // A call of sizes beyond all limits has strides that are no numbers; it is refused for its sizes.
      if (__builtin_mul_overflow(stride, std::max<std::int64_t>(tensor.shape[dim], 1), &stride)) stride = 1;
      if (r == operand.rank - 1 && strides == Strides::odd_rows) {
        do ++stride;
        while (stride * element % 16 == 0);
      }
    }
    const std::uintptr_t base = kFirstAddress + i * kBetween;
    tensor.data =
        reinterpret_cast<void *>(base + (strides == Strides::offset_by_one ? static_cast<std::uintptr_t>(element) : 0));
    pointers_[i] = &tensor;
  }

  // Room for the largest tensors that a test speaks of; fake_libcuda takes what lies there for device memory.
  static constexpr std::uintptr_t kFirstAddress = std::uintptr_t{1} << 58;
  static constexpr std::uintptr_t kBetween = std::uintptr_t{1} << 48;

  const OpSpec &op_;
  std::array<DType, kMaxOperands> dtypes_{};
  std::array<msj_tensor, kMaxOperands> tensors_{};
  std::array<const msj_tensor *, kMaxOperands> pointers_{};
  std::array<msj_param, kMaxParams> params_{};
  msj_call call_{};
};

}  // namespace msj::testing
