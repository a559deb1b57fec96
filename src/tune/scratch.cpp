#include "tune/scratch.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"

namespace msj::tune {

namespace {

constexpr std::size_t kBlockBytes = std::size_t{4} << 20;
constexpr std::size_t kSlack = 256;  // behind each operand: room for the offset of layout class `any`
constexpr unsigned char kPoison = 0xFF;

// Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
class SplitMix64 {
 public:
  explicit SplitMix64(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15U);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_;
};

// Sign, exponent, mantissa, from the top bit down.
struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
};

FloatFormat format_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return {8, 23};
    case DType::f16:
      return {5, 10};
    case DType::bf16:
      return {8, 7};
    case DType::fp8_e4m3:
      return {4, 3};
    case DType::fp8_e5m2:
      return {5, 2};
    default:
      return {0, 0};
  }
}

// Built from bits, so that no dtype needs a conversion: magnitudes in [2^-6, 1), nearly uniform, or in [1, 1.125).
std::uint64_t random_float(const FloatFormat &format, bool near_one, std::uint64_t random) {
  const std::uint64_t bias = (std::uint64_t{1} << (format.exponent_bits - 1)) - 1;
  std::uint64_t mantissa = (random >> 32) & ((std::uint64_t{1} << format.mantissa_bits) - 1);
  if (near_one) return (bias << format.mantissa_bits) | (mantissa >> 3);
  const auto below = static_cast<std::uint64_t>(std::min(std::countr_zero(random | 0x20U), 5));
  const std::uint64_t sign = (random >> 31) & 1U;
  return (((sign << format.exponent_bits) | (bias - 1 - below)) << format.mantissa_bits) | mantissa;
}

// Documents one after another, visited in large steps.
std::int64_t scattered_start(std::size_t index, std::int64_t length, std::int64_t end) {
  constexpr std::uint64_t kStep = 2'147'483'647;
  const std::int64_t places = std::max<std::int64_t>(end / std::max<std::int64_t>(length, 1), 1);
  return static_cast<std::int64_t>(index * kStep % static_cast<std::uint64_t>(places)) * length;
}

std::uint64_t random_element(Fill fill, DType dtype, std::uint64_t random, std::int64_t length) {
  const FloatFormat format = format_of(dtype);
  switch (fill) {
    case Fill::mask:
      return random % 8 == 0 ? 0 : 1;
    case Fill::lengths:
      return static_cast<std::uint64_t>(length - static_cast<std::int64_t>(random % 1024) * length / 4096);
    case Fill::whole_lengths:
      return static_cast<std::uint64_t>(length);
    case Fill::codes:
      return random % static_cast<std::uint64_t>(std::max<std::int64_t>(length, 1));
    case Fill::values:
    case Fill::near_one:
      return format.exponent_bits == 0 ? random : random_float(format, fill == Fill::near_one, random);
    case Fill::starts:  // not random
    case Fill::poison:
      break;
  }
  return ~std::uint64_t{0};
}

}  // namespace

Fill fill_of(const OperandSpec &operand, DType dtype) {
  if (operand.is_result) return Fill::poison;
  if (operand.content == Content::codes) return Fill::codes;
  if (operand.content == Content::starts) return Fill::starts;
  if (operand.streamed) return Fill::values;
  switch (dtype) {
    case DType::i8:
    case DType::u8:
    case DType::boolean:
      return Fill::mask;
    case DType::i32:
    case DType::i64:
      return Fill::lengths;
    default:
      return Fill::near_one;
  }
}

std::int64_t document_tokens(const OpSpec &op, const Sizes &sizes) {
  const int index = find_named(op.sizes, "Ld");
  if (index < 0) return 0;
  std::int64_t tokens = sizes[static_cast<std::size_t>(index)];
  for (const OperandSpec &operand : op.operands) {
    if (operand.content != Content::starts) continue;
    tokens = std::min(tokens, sizes[static_cast<std::size_t>(operand.content_size)]);
  }
  return tokens;
}

std::string random_block(Fill fill, DType dtype, std::size_t bytes, std::uint64_t seed, std::int64_t length,
                         std::int64_t end) {
  const auto width = static_cast<std::size_t>(msj::bytes(dtype));
  std::string block(bytes / width * width, '\0');
  SplitMix64 random(seed);
  for (std::size_t at = 0; at < block.size(); at += width) {
    const std::uint64_t element = fill == Fill::starts
                                      ? static_cast<std::uint64_t>(scattered_start(at / width, length, end))
                                      : random_element(fill, dtype, random.next(), length);
    std::memcpy(block.data() + at, &element, width);  // little-endian, as every CUDA host is
  }
  return block;
}

bool takes_part(const OpSpec &op, std::size_t operand, FeatureSet features) {
  if (!op.operands[operand].optional) return true;
  for (std::size_t f = 0; f < op.features.size(); ++f) {
    const bool is_on = ((features >> f) & 1U) != 0;
    if (is_on && op.features[f].operand == static_cast<int>(operand)) return true;
  }
  return false;
}

Scratch::Scratch(std::shared_ptr<const cuda::Driver> driver, const cuda::Stream &stream, const SweepProblem &problem)
    : driver_(std::move(driver)), stream_(stream), problem_(problem) {
  const OpSpec &op = *problem.op;
  const auto dtypes = problem.dtypes.all();
  try {
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      if (!takes_part(op, i, problem.features)) continue;
      auto bytes = static_cast<std::size_t>(msj::bytes(dtypes[i]));
      for (int r = 0; r < op.operands[i].rank; ++r) {
        bytes *=
            static_cast<std::size_t>(dim_size(op, problem.sizes, op.operands[i].dims[static_cast<std::size_t>(r)]));
      }
      buffers_[i] = std::make_unique<cuda::Buffer>(driver_, bytes + kSlack);
    }
  } catch (const Error &error) {
    if (error.status() != MSJ_ERROR_OUT_OF_MEMORY) throw;
    throw_error(MSJ_ERROR_OUT_OF_MEMORY,
                "a sweep of {} needs {:.0f} bytes of scratch memory on the GPU: {}; free some, or run with "
                "MAXSIM_JIT_TUNE=cached to do without sweeps",
                op.name, operand_bytes(op, problem.sizes, dtypes), error.what());
  }
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    if (buffers_[i]) fill(i, *buffers_[i]);
  }
}

std::int64_t Scratch::length_of(const OperandSpec &operand) const {
  if (operand.content != Content::codes) return document_tokens(*problem_.op, problem_.sizes);
  return problem_.sizes[static_cast<std::size_t>(operand.content_size)];
}

void Scratch::fill(std::size_t operand, const cuda::Buffer &buffer) {
  const DType dtype = problem_.dtypes.all()[operand];
  Fill fill = fill_of(problem_.op->operands[operand], dtype);
  if (fill == Fill::lengths && problem_.measuring) fill = Fill::whole_lengths;
  if (fill == Fill::poison) {
    driver_->check(driver_->MemsetD8Async(buffer.get(), kPoison, buffer.bytes(), stream_.get()), "cuMemsetD8Async");
    return;
  }
  const OperandSpec &spec = problem_.op->operands[operand];
  const std::int64_t end =
      spec.content == Content::starts ? problem_.sizes[static_cast<std::size_t>(spec.content_size)] : 0;
  const std::string block =
      random_block(fill, dtype, std::min(buffer.bytes(), kBlockBytes), operand + 1, length_of(spec), end);
  driver_->check(driver_->MemcpyHtoDAsync(buffer.get(), block.data(), block.size(), stream_.get()),
                 "cuMemcpyHtoDAsync");
  for (std::size_t filled = block.size(); filled < buffer.bytes();) {
    const std::size_t more = std::min(filled, buffer.bytes() - filled);
    driver_->check(driver_->MemcpyDtoDAsync(buffer.get() + filled, buffer.get(), more, stream_.get()),
                   "cuMemcpyDtoDAsync");
    filled += more;
  }
  driver_->check(driver_->StreamSynchronize(stream_.get()), "filling a sweep's inputs");
}

BoundCall Scratch::call(Layout layout) const {
  const OpSpec &op = *problem_.op;
  BoundCall call;
  call.op = &op;
  call.sizes = problem_.sizes;
  call.features = problem_.features;
  call.layout = layout;
  call.dtypes = problem_.dtypes.array();
  for (std::size_t i = 0; i < op.params.size(); ++i) {
    const ParamSpec &param = op.params[i];
    call.params[i] =
        param.is_double ? std::bit_cast<std::int64_t>(static_cast<double>(param.default_int)) : param.default_int;
  }
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    if (!buffers_[i]) continue;
    const OperandSpec &operand = op.operands[i];
    TensorView &view = call.operands[i];
    view.present = true;
    view.dtype = call.dtypes[i];
    view.rank = operand.rank;
    std::int64_t stride = 1;
    for (auto r = static_cast<std::size_t>(operand.rank); r-- > 0;) {
      view.shape[r] = dim_size(op, problem_.sizes, operand.dims[r]);
      view.strides[r] = stride;
      stride *= view.shape[r];
    }
    const bool offset = layout == Layout::any && operand.streamed;
    view.data = reinterpret_cast<void *>(buffers_[i]->get() + (offset ? static_cast<unsigned>(bytes(view.dtype)) : 0U));
  }
  return call;
}

}  // namespace msj::tune
