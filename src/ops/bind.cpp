#include "ops/bind.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>
#include <string>

#include "base/error.h"
#include "ops/overlap.h"
#include "ops/registry.h"

namespace msj::ops {

namespace {

constexpr std::int64_t kMaxBytes = std::numeric_limits<std::int64_t>::max();

std::string accepted_names(std::span<const DType> dtypes) {
  std::string text;
  for (const DType dtype : dtypes) text += (text.empty() ? "" : ", ") + std::string(name(dtype));
  return text;
}

// Masks come as integers from many tokenizers.
std::string_view conversion_hint(const OperandSpec &operand) {
  const auto accepted = operand.dtype.accepted;
  if (std::find(accepted.begin(), accepted.end(), DType::boolean) == accepted.end()) return "";
  return "; nonzero keeps a token, and mask.astype(bool) in NumPy or mask.bool() in PyTorch converts it";
}

std::string shape_text(const OpSpec &op, const OperandSpec &operand) {
  std::string text = "[";
  for (int r = 0; r < operand.rank; ++r) {
    text += (r != 0 ? ", " : "") + std::string(dim_name(op, operand.dims[static_cast<std::size_t>(r)]));
  }
  return text + "]";
}

std::string numbers(const std::array<std::int64_t, kMaxRank> &values, int count) {
  std::string text;
  for (int r = 0; r < count; ++r) text += (r != 0 ? ", " : "") + std::to_string(values[static_cast<std::size_t>(r)]);
  return text;
}

// No place of a result may be written twice. Two dimensions that show it alone are named.
void check_places(const OperandSpec &operand, const TensorView &tensor) {
  const auto extent = [&](int r) -> Extent {
    return {tensor.shape[static_cast<std::size_t>(r)], tensor.strides[static_cast<std::size_t>(r)]};
  };
  for (int a = 0; a < tensor.rank; ++a) {
    if (extent(a).stride == 0 && extent(a).count > 1) {
      throw_error(MSJ_ERROR_INVALID_ARGUMENT,
                  "stride {} of {} is 0 over {} elements; a result needs a place for each element", a, operand.name,
                  extent(a).count);
    }
    for (int b = a + 1; b < tensor.rank; ++b) {
      if (!overlap(extent(a), extent(b)) || extent(b).stride == 0) continue;
      throw_error(MSJ_ERROR_INVALID_ARGUMENT,
                  "strides {} and {} of {} are {} and {} over {} and {} elements, some of them in one place; a result "
                  "needs a place for each element",
                  a, b, operand.name, extent(a).stride, extent(b).stride, extent(a).count, extent(b).count);
    }
  }
  if (tensor.rank <= 2) return;
  std::array<Extent, kMaxRank> extents{};
  for (int r = 0; r < tensor.rank; ++r) extents[static_cast<std::size_t>(r)] = extent(r);
  if (overlap({extents.data(), static_cast<std::size_t>(tensor.rank)}) == Answer::no) return;
  throw_error(
      MSJ_ERROR_INVALID_ARGUMENT,
      "strides of {} are [{}] over a shape of [{}], some elements in one place; a result needs a place for each "
      "element",
      operand.name, numbers(tensor.strides, tensor.rank), numbers(tensor.shape, tensor.rank));
}

// The bytes between the first and last element must be addressable.
void check_strides(const OperandSpec &operand, const TensorView &tensor) {
  std::int64_t low = 0;
  std::int64_t high = 0;
  bool overflows = false;
  for (int r = 0; r < tensor.rank; ++r) {
    const std::int64_t extent = tensor.shape[static_cast<std::size_t>(r)];
    const std::int64_t stride = tensor.strides[static_cast<std::size_t>(r)];
    std::int64_t reach = 0;
    overflows |= __builtin_mul_overflow(extent - 1, stride, &reach);
    std::int64_t &end = reach < 0 ? low : high;
    overflows |= __builtin_add_overflow(end, reach, &end);
  }
  std::int64_t span = 0;
  overflows |= __builtin_sub_overflow(high, low, &span) || span > kMaxBytes / bytes(tensor.dtype) - 1;
  if (overflows) {
    throw_error(MSJ_ERROR_INVALID_ARGUMENT, "shape and strides of {} span more than 2^63 bytes; less is accepted",
                operand.name);
  }
}

TensorView read_tensor(const OpSpec &op, const OperandSpec &operand, const msj_tensor &given, DataRule data) {
  check_struct(&given, sizeof(msj_tensor), MSJ_SIZE_UP_TO(msj_tensor, strides), std::string(operand.name).c_str());
  TensorView tensor;
  tensor.present = true;
  tensor.data = given.data;
  tensor.rank = given.rank;
  const auto dtype = dtype_from(given.dtype);
  if (!dtype) {
    throw_error(MSJ_ERROR_INVALID_ARGUMENT, "dtype of {} is {}, which is no msj_dtype", operand.name, given.dtype);
  }
  tensor.dtype = *dtype;
  const bool single = operand.may_be_single && given.rank == 1;
  if (given.rank != operand.rank && !single) {
    throw_error(MSJ_ERROR_INVALID_ARGUMENT, "rank of {} is {}; {} is accepted, for {}{}", operand.name, given.rank,
                operand.rank, shape_text(op, operand),
                operand.may_be_single ? ", or 1, for one value of shape [1]" : "");
  }
  if (single && given.shape[0] != 1) {
    throw_error(MSJ_ERROR_INVALID_ARGUMENT, "shape of {} is [{}]; [1], one value for all, or {} is accepted",
                operand.name, given.shape[0], shape_text(op, operand));
  }
  for (int r = 0; r < tensor.rank; ++r) {
    const auto i = static_cast<std::size_t>(r);
    tensor.shape[i] = given.shape[i];
    tensor.strides[i] = given.strides[i];
    if (given.shape[i] < 0) {
      throw_error(MSJ_ERROR_INVALID_ARGUMENT, "shape[{}] of {} is {}; 0 or more is accepted", r, operand.name,
                  given.shape[i]);
    }
  }
  if (has_elements(tensor)) {
    check_strides(operand, tensor);
    if (operand.is_result) check_places(operand, tensor);
    if (data == DataRule::needed && tensor.data == nullptr) {
      throw_error(MSJ_ERROR_INVALID_ARGUMENT, "data of {} is null; a pointer to {} is needed", operand.name,
                  shape_text(op, operand));
    }
    if (reinterpret_cast<std::uintptr_t>(tensor.data) % static_cast<unsigned>(bytes(tensor.dtype)) != 0) {
      throw_error(MSJ_ERROR_INVALID_ARGUMENT, "data of {} is {}, not a multiple of its element's {} bytes",
                  operand.name, tensor.data, bytes(tensor.dtype));
    }
  }
  if (single) tensor.strides = {};  // the value is everywhere
  return tensor;
}

std::string accepted_sizes(const SizeSpec &size) {
  std::string text;
  for (const std::int64_t value : size.accepted) text += (text.empty() ? "" : ", ") + std::to_string(value);
  return text;
}

// The size that an extent of 2^size gives.
std::int64_t size_of_power(const OpSpec &op, const OperandSpec &operand, int r, std::int64_t extent, std::size_t size) {
  if (extent < 1 || (extent & (extent - 1)) != 0) {
    throw_error(MSJ_ERROR_INVALID_ARGUMENT, "shape[{}] of {} is {}; 2^{} is accepted, {} {}", r, operand.name, extent,
                op.sizes[size].name, op.sizes[size].name, accepted_sizes(op.sizes[size]));
  }
  return std::countr_zero(static_cast<std::uint64_t>(extent));
}

void bind_sizes(const OpSpec &op, const OperandSpec &operand, const TensorView &tensor, BoundCall &bound,
                std::array<std::string_view, kMaxSizes> &giver) {
  if (tensor.rank != operand.rank) return;  // one value for all
  for (int r = 0; r < tensor.rank; ++r) {
    std::int64_t extent = tensor.shape[static_cast<std::size_t>(r)];
    auto size = static_cast<std::size_t>(operand.dims[static_cast<std::size_t>(r)]);
    if (const ExtentSpec *follows = extent_at(op, operand.dims[static_cast<std::size_t>(r)])) {
      if (follows->rule != ExtentSpec::Rule::power_of_two) continue;  // checked when all sizes are known
      size = static_cast<std::size_t>(follows->size);
      extent = size_of_power(op, operand, r, extent, size);
    }
    if (giver[size].empty()) {
      giver[size] = operand.name;
      bound.sizes[size] = extent;
    } else if (bound.sizes[size] != extent) {
      throw_error(MSJ_ERROR_INVALID_ARGUMENT, "shape[{}] of {} is {} where {} gives {} = {}; they must be equal", r,
                  operand.name, extent, giver[size], op.sizes[size].name, bound.sizes[size]);
    }
  }
}

void check_sizes(const OpSpec &op, const BoundCall &bound) {
  for (std::size_t i = 0; i < op.sizes.size(); ++i) {
    const SizeSpec &size = op.sizes[i];
    if (!size.accepted.empty() &&
        std::find(size.accepted.begin(), size.accepted.end(), bound.sizes[i]) == size.accepted.end()) {
      throw_error(MSJ_ERROR_INVALID_ARGUMENT, "{} is {}; {} is accepted", size.name, bound.sizes[i],
                  accepted_sizes(size));
    }
    if (size.is_static && bound.sizes[i] < 1) {
      throw_error(MSJ_ERROR_INVALID_ARGUMENT, "{} is {}; 1 to {} is accepted", size.name, bound.sizes[i], size.max);
    }
    if (bound.sizes[i] > size.max) {
      throw_error(MSJ_ERROR_UNSUPPORTED, "{} is {}; at most {} is supported", size.name, bound.sizes[i], size.max);
    }
  }
}

void check_companions(const OpSpec &op, const BoundCall &bound) {
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    if (op.operands[i].together_with < 0) continue;
    const auto other = static_cast<std::size_t>(op.operands[i].together_with);
    if (!bound.operands[i].present || bound.operands[other].present) continue;
    throw_error(MSJ_ERROR_INVALID_ARGUMENT, "{} is absent where {} is given; both or neither is accepted",
                op.operands[other].name, op.operands[i].name);
  }
}

// Dimensions that follow from sizes have to agree with them.
void check_extents(const OpSpec &op, const BoundCall &bound) {
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const OperandSpec &operand = op.operands[i];
    const TensorView &tensor = bound.operands[i];
    if (!tensor.present || tensor.rank != operand.rank) continue;
    for (int r = 0; r < tensor.rank; ++r) {
      const ExtentSpec *extent = extent_at(op, operand.dims[static_cast<std::size_t>(r)]);
      if (extent == nullptr || tensor.shape[static_cast<std::size_t>(r)] == extent->of(bound.sizes)) continue;
      const auto size = static_cast<std::size_t>(extent->size);
      const auto bits = static_cast<std::size_t>(extent->bits);
      throw_error(MSJ_ERROR_INVALID_ARGUMENT, "shape[{}] of {} is {}; {} is accepted, the bytes of {} {} of {} {}", r,
                  operand.name, tensor.shape[static_cast<std::size_t>(r)], extent->of(bound.sizes), op.sizes[size].name,
                  bound.sizes[size], op.sizes[bits].name, bound.sizes[bits]);
    }
  }
}

// The canonical tuple: from the table and the dtypes of required operands, the same whatever is present.
void bind_dtypes(const OpSpec &op, BoundCall &bound) {
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const OperandSpec &operand = op.operands[i];
    const TensorView &tensor = bound.operands[i];
    const auto is_accepted = [&] {
      return std::find(operand.dtype.accepted.begin(), operand.dtype.accepted.end(), tensor.dtype) !=
             operand.dtype.accepted.end();
    };
    switch (operand.dtype.kind) {
      case DtypeRule::Kind::own:
      case DtypeRule::Kind::fixed:
        if (tensor.present && !is_accepted()) {
          throw_error(MSJ_ERROR_INVALID_ARGUMENT, "dtype of {} is {}; {} is accepted{}", operand.name,
                      name(tensor.dtype), accepted_names(operand.dtype.accepted), conversion_hint(operand));
        }
        bound.dtypes[i] = operand.dtype.kind == DtypeRule::Kind::own ? tensor.dtype : operand.dtype.canonical;
        break;
      case DtypeRule::Kind::follows: {
        const auto leader = static_cast<std::size_t>(operand.dtype.follows);
        bound.dtypes[i] = bound.operands[leader].dtype;
        if (tensor.present && tensor.dtype != bound.dtypes[i] && !is_accepted()) {
          throw_error(MSJ_ERROR_INVALID_ARGUMENT, "dtype of {} is {} where {} has {}; {}", operand.name,
                      name(tensor.dtype), op.operands[leader].name, name(bound.dtypes[i]),
                      operand.dtype.accepted.empty()
                          ? std::string("they must be equal")
                          : fmt::format("that or {} is accepted", accepted_names(operand.dtype.accepted)));
        }
        break;
      }
    }
  }
}

void bind_features(const OpSpec &op, std::uint64_t flags, BoundCall &bound) {
  std::uint64_t known = 0;
  for (std::size_t f = 0; f < op.features.size(); ++f) {
    const FeatureSpec &feature = op.features[f];
    bool on = false;
    switch (feature.source) {
      case FeatureSpec::Source::flag:
        on = (flags & feature.flag) != 0;
        known |= feature.flag;
        break;
      case FeatureSpec::Source::presence:
        on = bound.operands[static_cast<std::size_t>(feature.operand)].present;
        break;
      case FeatureSpec::Source::rank: {
        const TensorView &tensor = bound.operands[static_cast<std::size_t>(feature.operand)];
        on = tensor.present && tensor.rank == op.operands[static_cast<std::size_t>(feature.operand)].rank;
        break;
      }
    }
    if (on) bound.features |= FeatureSet{1} << f;
  }
  if ((flags & ~known) != 0) {
    throw_error(MSJ_ERROR_INVALID_ARGUMENT, "flags is {:#x}; {} accepts {:#x}", flags, op.name, known);
  }
}

void bind_params(const OpSpec &op, const msj_call &call, BoundCall &bound) {
  for (std::size_t p = 0; p < op.params.size(); ++p) bound.params[p] = op.params[p].default_int;
  if (call.param_count != 0 && call.params == nullptr) {
    throw_error(MSJ_ERROR_INVALID_ARGUMENT, "params is null while param_count is {}", call.param_count);
  }
  std::uint32_t seen = 0;
  for (std::size_t i = 0; i < call.param_count; ++i) {
    const msj_param &given = call.params[i];
    std::size_t p = 0;
    while (p < op.params.size() && op.params[p].id != given.id) ++p;
    if (p == op.params.size()) {
      throw_error(MSJ_ERROR_INVALID_ARGUMENT, "params[{}].id is {}, which {} does not know", i, given.id, op.name);
    }
    const ParamSpec &param = op.params[p];
    if (given.zero != 0) throw_error(MSJ_ERROR_INVALID_ARGUMENT, "params[{}].zero is {}; 0 is accepted", i, given.zero);
    if ((seen >> p) & 1U) throw_error(MSJ_ERROR_INVALID_ARGUMENT, "params has {} twice; once is accepted", param.name);
    seen |= 1U << p;
    if (!param.is_double && (given.value.i < param.min_int || given.value.i > param.max_int)) {
      throw_error(MSJ_ERROR_INVALID_ARGUMENT, "{} is {}; {} to {} is accepted", param.name, given.value.i,
                  param.min_int, param.max_int);
    }
    bound.params[p] = given.value.i;
  }
  for (std::size_t p = 0; p < op.params.size(); ++p) {
    if (op.params[p].size >= 0) bound.sizes[static_cast<std::size_t>(op.params[p].size)] = bound.params[p];
  }
}

constexpr std::int64_t kBulkRows = std::int64_t{1} << 31;  // coordinates of bulk copies are int32

// What bulk copies take as an outer dimension; a stride has 40 bits of bytes.
bool is_bulk_dimension(std::int64_t size, std::int64_t stride, std::int64_t element_bytes) {
  constexpr std::int64_t kStrides = std::int64_t{1} << 40;
  if (size == 1) return true;
  return size < kBulkRows && stride > 0 && stride < kStrides / element_bytes && stride * element_bytes % 16 == 0;
}

bool is_aligned16(const TensorView &tensor) {
  const auto inner = static_cast<std::size_t>(tensor.rank - 1);
  if (!has_elements(tensor)) {  // kernels count its rows all the same
    return std::all_of(tensor.shape.begin(), tensor.shape.begin() + inner,
                       [](std::int64_t size) { return size < kBulkRows; });
  }
  if (reinterpret_cast<std::uintptr_t>(tensor.data) % 16 != 0) return false;
  if (tensor.shape[inner] != 1 && tensor.strides[inner] != 1) return false;
  for (std::size_t i = 0; i < inner; ++i) {
    if (!is_bulk_dimension(tensor.shape[i], tensor.strides[i], bytes(tensor.dtype))) return false;
  }
  return true;
}

}  // namespace

void check_results_apart(const BoundCall &call) {
  const OpSpec &op = *call.op;
  std::array<Span, kMaxOperands> spans{};
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    if (call.operands[i].present && has_elements(call.operands[i])) spans[i] = span_of(call.operands[i]);
  }
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    if (!op.operands[i].is_result) continue;
    for (std::size_t j = 0; j < op.operands.size(); ++j) {
      // Two results meet once, the later one with the earlier.
      if (i == j || (op.operands[j].is_result && j > i) || !meet(spans[i], spans[j])) continue;
      const Answer shares = share_bytes(call.operands[i], call.operands[j]);
      if (shares == Answer::no) continue;
      throw_error(MSJ_ERROR_INVALID_ARGUMENT,
                  "{} at {} shares bytes with {} at {}{}; memory of its own is accepted for a result",
                  op.operands[i].name, call.operands[i].data, op.operands[j].name, call.operands[j].data,
                  shares == Answer::unknown ? ", as far as a bounded search of their strides can tell" : "");
    }
  }
}

void check_struct(const void *given, std::size_t known_size, std::size_t least, const char *what) {
  if (given == nullptr) throw_error(MSJ_ERROR_INVALID_ARGUMENT, "{} is null", what);
  std::size_t size = 0;
  __builtin_memcpy(&size, given, sizeof size);
  if (size < least) {
    throw_error(MSJ_ERROR_INVALID_ARGUMENT, "struct_size of {} is {}; sizeof the struct, {}, is accepted", what, size,
                known_size);
  }
  constexpr std::size_t kSaneSize = 65536;
  if (size > kSaneSize) {
    throw_error(MSJ_ERROR_INVALID_ARGUMENT, "struct_size of {} is {}; sizeof the struct, {}, is accepted", what, size,
                known_size);
  }
  const auto *bytes = static_cast<const unsigned char *>(given);
  for (std::size_t i = known_size; i < size; ++i) {
    if (bytes[i] != 0) {
      throw_error(MSJ_ERROR_INVALID_ARGUMENT,
                  "{} has a nonzero byte at {}, past the {} bytes that this version of the library knows", what, i,
                  known_size);
    }
  }
}

BoundCall bind(const msj_call &call, DataRule data) {
  const Op *entry = find_op(call.op);
  if (entry == nullptr) throw_error(MSJ_ERROR_INVALID_ARGUMENT, "op is {}, which is no msj_op", call.op);
  const OpSpec &op = *entry->spec;
  if (call.operand_count != 0 && call.operands == nullptr) {
    throw_error(MSJ_ERROR_INVALID_ARGUMENT, "operands is null while operand_count is {}", call.operand_count);
  }
  BoundCall bound;
  bound.op = &op;
  std::array<std::string_view, kMaxSizes> giver;
  for (std::size_t i = 0; i < std::max(op.operands.size(), call.operand_count); ++i) {
    const msj_tensor *given = i < call.operand_count ? call.operands[i] : nullptr;
    if (i >= op.operands.size()) {
      if (given != nullptr) {
        throw_error(MSJ_ERROR_INVALID_ARGUMENT, "operands[{}] is given; {} has {} operands", i, op.name,
                    op.operands.size());
      }
      continue;
    }
    const OperandSpec &operand = op.operands[i];
    if (given == nullptr) {
      if (!operand.optional) {
        throw_error(MSJ_ERROR_INVALID_ARGUMENT, "{} is absent; {} needs it as {}", operand.name, op.name,
                    shape_text(op, operand));
      }
      continue;
    }
    bound.operands[i] = read_tensor(op, operand, *given, data);
    bind_sizes(op, operand, bound.operands[i], bound, giver);
    if (operand.streamed && !is_aligned16(bound.operands[i])) bound.layout = Layout::any;
  }
  check_companions(op, bound);
  check_sizes(op, bound);
  check_extents(op, bound);
  bind_dtypes(op, bound);
  bind_features(op, call.flags, bound);
  bind_params(op, call, bound);
  return bound;
}

bool has_elements(const TensorView &tensor) {
  return std::all_of(tensor.shape.begin(), tensor.shape.begin() + tensor.rank, [](std::int64_t n) { return n > 0; });
}

bool has_no_result(const BoundCall &call) {
  for (std::size_t i = 0; i < call.op->operands.size(); ++i) {
    const TensorView &tensor = call.operands[i];
    if (call.op->operands[i].is_result && tensor.present && has_elements(tensor)) return false;
  }
  return true;
}

}  // namespace msj::ops
