#include "cli/score_input.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "cli/convert.h"
#include "cli/failure.h"

namespace msj::cli {
namespace {

bool accepts(const OperandInfo &operand, std::optional<DType> dtype) {
  return dtype && std::ranges::find(operand.accepted, *dtype) != operand.accepted.end();
}

std::string shape_text(const std::vector<std::int64_t> &shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::string dims_text(const OperandInfo &operand) { return fmt::format("[{}]", fmt::join(operand.dims, ", ")); }

// Whether the file's elements are the bits of other numbers, which --dtype tells.
bool is_bits(NpyType type) { return type == NpyType::u8 || type == NpyType::raw8 || type == NpyType::u16; }

// How a file of bits can be meant, if the operand has dtypes of that size.
std::string bits_hint(const OperandInfo &operand, NpyType type) {
  std::vector<std::string_view> as_wide;
  for (const DType dtype : operand.accepted) {
    if (bytes(dtype) == bytes(type)) as_wide.push_back(name(dtype));
  }
  if (as_wide.empty()) return "";
  return fmt::format(", or {} with --dtype {}, which says what they are", bytes(type) == 1 ? "bytes" : name(type),
                     fmt::join(as_wide, " or "));
}

// What the file's elements become: one of the operand's dtypes. Throws Failure where there is no way.
DType target_dtype(const OperandInfo &operand, const NpyArray &array, std::optional<DType> wanted,
                   const std::string &source) {
  const auto own = dtype_of(array.type);
  if (operand.kind == OperandInfo::DTypeKind::fixed) {
    if (accepts(operand, own)) return *own;
    const bool widens = is_float(array.type) && operand.canonical == DType::f32;
    const bool narrows = array.type == NpyType::i64 && operand.canonical == DType::i32;
    if (widens || narrows) return operand.canonical;
    const bool is_mask = accepts(operand, DType::boolean);
    failure("{} holds {}; {} is accepted for {}{}", source, name(array.type), names(operand.accepted), operand.name,
            is_mask ? "; nonzero keeps a token, and mask.astype(bool) in NumPy converts it" : "");
  }
  if (wanted && accepts(operand, wanted)) {
    if (is_float(array.type)) return *wanted;
    if (is_bits(array.type) && bytes(*wanted) == bytes(array.type)) return *wanted;
  } else {
    if (accepts(operand, own)) return *own;
    if (array.type == NpyType::f64 && accepts(operand, DType::f32)) return DType::f32;
  }
  std::string hint;
  if (is_float(array.type)) hint = "; --dtype converts to one of them";
  if (is_bits(array.type)) hint = bits_hint(operand, array.type);
  failure("{} holds {}; {} is accepted for {}{}", source, name(array.type), names(operand.accepted), operand.name,
          hint);
}

template <typename Owner>
void take(HostTensor &tensor, std::shared_ptr<Owner> owner, const std::byte *data) {
  tensor.data = data;
  tensor.owner = std::move(owner);
}

void take_copy(HostTensor &tensor, std::vector<std::byte> copy) {
  const auto owner = std::make_shared<std::vector<std::byte>>(std::move(copy));
  take(tensor, owner, owner->data());
}

bool is_aligned(const std::byte *data, std::int64_t alignment) {
  return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(alignment) == 0;
}

// The same numbers: in place, but for files of the other byte order or whose data starts at an odd byte.
void take_as_is(HostTensor &tensor, const NpyArray &array) {
  if (!array.is_swapped && is_aligned(array.data, bytes(tensor.dtype))) {
    take(tensor, array.owner, array.data);
  } else {
    take_copy(tensor, copy_npy(array));
  }
}

void take_converted(HostTensor &tensor, const NpyArray &array, bool asked_for, Console &console) {
  Converted converted = convert_floats(array, tensor.dtype);
  if (!asked_for && array.type == NpyType::f64) {
    console.note(fmt::format("{} holds float64: converted to {}", tensor.source, name(tensor.dtype)));
  }
  if (converted.overflows > 0) {
    console.note(fmt::format("{}: values beyond the range of {}, now {}: {}", tensor.source, name(tensor.dtype),
                             tensor.dtype == DType::fp8_e4m3 ? "NaN" : "infinite", converted.overflows));
  }
  take_copy(tensor, std::move(converted.data));
}

// ---- sizes

bool is_single_value(const HostTensor &tensor) {
  return tensor.operand->may_be_single && tensor.shape == std::vector<std::int64_t>{1};
}

bool is_batch_size(const OpInfo &op, const std::string &size) {
  const auto result = std::ranges::find(op.operands, true, &OperandInfo::is_result);
  return result != op.operands.end() && std::ranges::find(result->dims, size) != result->dims.end();
}

void add_batch_dimension(const OpInfo &op, HostTensor &tensor) {
  const auto &dims = tensor.operand->dims;
  if (tensor.shape.size() + 1 != dims.size() || !is_batch_size(op, dims.front())) return;
  tensor.shape.insert(tensor.shape.begin(), 1);
  tensor.strides.insert(tensor.strides.begin(), std::max<std::int64_t>(tensor.elements(), 1));
}

// The size that an extent of 2^size gives.
std::int64_t size_of_power(const OpInfo &op, const HostTensor &tensor, const ExtentInfo &extent, std::int64_t count) {
  if (count < 1 || (count & (count - 1)) != 0) {
    failure("{} has {} elements; {} is accepted for {} of {}", tensor.source, count, extent.name, tensor.operand->name,
            op.name);
  }
  return std::countr_zero(static_cast<std::uint64_t>(count));
}

// What no call takes, said of the file that has it.
void check_size(const OpInfo &op, const std::string &dim, std::int64_t size, const HostTensor &tensor,
                const std::vector<std::int64_t> &file_shape) {
  const auto info = std::ranges::find(op.sizes, dim, &SizeInfo::name);
  if (info == op.sizes.end()) return;
  const std::int64_t least = info->is_static ? 1 : 0;
  const bool listed = info->accepted.empty() || std::ranges::find(info->accepted, size) != info->accepted.end();
  if (listed && size >= least && (info->max == 0 || size <= info->max)) return;
  failure("{} has shape {}, which makes {} = {}; {} is accepted for {} of {}", tensor.source, shape_text(file_shape),
          dim, size,
          info->accepted.empty() ? fmt::format("{} to {}", least, info->max)
                                 : fmt::format("{}", fmt::join(info->accepted, ", ")),
          dim, op.name);
}

void bind_tensor(const OpInfo &op, HostTensor &tensor, const std::vector<std::int64_t> &file_shape, SizeMap &sizes,
                 std::map<std::string, std::string> &givers) {
  const OperandInfo &operand = *tensor.operand;
  if (tensor.shape.size() != operand.dims.size()) {
    failure("{} has shape {}; {} is accepted for {}", tensor.source, shape_text(file_shape), dims_text(operand),
            operand.name);
  }
  for (std::size_t i = 0; i < operand.dims.size(); ++i) {
    const ExtentInfo *extent = op.find_extent(operand.dims[i]);
    if (extent != nullptr && !extent->bits.empty()) continue;  // once all sizes are known
    const std::string &dim = extent == nullptr ? operand.dims[i] : extent->size;
    const std::int64_t size = extent == nullptr ? tensor.shape[i] : size_of_power(op, tensor, *extent, tensor.shape[i]);
    const auto [bound, is_new] = sizes.emplace(dim, size);
    if (is_new) {
      check_size(op, dim, size, tensor, file_shape);
      givers[dim] = tensor.source;
    } else if (bound->second != size) {
      failure("{} has shape {}, which makes {} = {}, but {} makes it {}; {} is accepted for {}", tensor.source,
              shape_text(file_shape), dim, tensor.shape[i], givers[dim], bound->second, dims_text(operand),
              operand.name);
    }
  }
}

// Dimensions of packed bits follow from sizes that other files may give.
void check_packed(const OpInfo &op, const std::vector<HostTensor> &tensors, const SizeMap &sizes) {
  for (const HostTensor &tensor : tensors) {
    for (std::size_t i = 0; i < tensor.operand->dims.size() && !is_single_value(tensor); ++i) {
      const ExtentInfo *extent = op.find_extent(tensor.operand->dims[i]);
      if (extent == nullptr || extent->bits.empty()) continue;
      if (!sizes.contains(extent->size) || !sizes.contains(extent->bits)) continue;
      const std::int64_t wanted = op.dim_size(sizes, extent->name);
      if (tensor.shape[i] == wanted) continue;
      failure("{} has shape {}; {} = {} is accepted, the bytes of {} {} of {} {}", tensor.source,
              shape_text(tensor.shape), extent->name, wanted, extent->size, sizes.at(extent->size), extent->bits,
              sizes.at(extent->bits));
    }
  }
}

void check_followers(const std::vector<HostTensor> &tensors) {
  for (const HostTensor &tensor : tensors) {
    if (tensor.operand->kind != OperandInfo::DTypeKind::follows) continue;
    const auto leader =
        std::ranges::find_if(tensors, [&](const HostTensor &t) { return t.operand->name == tensor.operand->follows; });
    const auto &others = tensor.operand->others;
    if (std::ranges::find(others, tensor.dtype) != others.end()) continue;
    if (leader != tensors.end() && leader->dtype != tensor.dtype) {
      failure("{} holds {}, but {} holds {}; they must be equal, and --dtype converts both", tensor.source,
              name(tensor.dtype), leader->source, name(leader->dtype));
    }
  }
}

}  // namespace

std::int64_t HostTensor::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) product *= size;
  return product;
}

HostTensor make_tensor(const OperandInfo &operand, std::string source, DType dtype, std::vector<std::int64_t> shape,
                       const std::shared_ptr<std::vector<std::byte>> &data) {
  HostTensor tensor;
  tensor.operand = &operand;
  tensor.source = std::move(source);
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.strides.resize(tensor.shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = tensor.shape.size(); i-- > 0;) {
    tensor.strides[i] = stride;
    stride *= std::max<std::int64_t>(tensor.shape[i], 1);
  }
  take(tensor, data, data->data());
  return tensor;
}

HostTensor load_operand(const OperandInfo &operand, const std::string &file, std::optional<DType> wanted,
                        Console &console, const std::string &source) {
  const NpyArray array = read_npy(file);
  HostTensor tensor;
  tensor.operand = &operand;
  tensor.source = source.empty() ? fmt::format("{} {}", option_name(operand.name), file) : source;
  tensor.shape = array.shape;
  tensor.strides = array.strides;
  tensor.dtype = target_dtype(operand, array, wanted, tensor.source);
  if (!is_float(array.type) || dtype_of(array.type) == tensor.dtype) {
    if (array.type == NpyType::i64 && tensor.dtype == DType::i32) {
      take_copy(tensor, narrow_integers(array, tensor.source));
    } else {
      take_as_is(tensor, array);
    }
  } else {
    take_converted(tensor, array, wanted.has_value(), console);
  }
  return tensor;
}

SizeMap bind_sizes(const OpInfo &op, std::vector<HostTensor> &tensors) {
  SizeMap sizes;
  std::map<std::string, std::string> givers;
  for (HostTensor &tensor : tensors) {
    if (is_single_value(tensor)) continue;
    const std::vector<std::int64_t> file_shape = tensor.shape;
    add_batch_dimension(op, tensor);
    bind_tensor(op, tensor, file_shape, sizes, givers);
  }
  check_packed(op, tensors, sizes);
  check_followers(tensors);
  for (const OperandInfo &operand : op.operands) {
    for (const std::string &dim : operand.dims) {
      if (operand.is_result && !sizes.contains(dim)) failure("no file gives the size {} of {}", dim, op.name);
    }
  }
  return sizes;
}

}  // namespace msj::cli
