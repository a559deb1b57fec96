#include "cli/npy.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace msj::cli {
namespace {

constexpr bool in_order() {
  for (std::size_t i = 0; i < kNpyTypes.size(); ++i) {
    if (static_cast<std::size_t>(kNpyTypes[i].type) != i) return false;
  }
  return true;
}
static_assert(in_order());

const NpyTypeInfo &info(NpyType type) { return kNpyTypes.at(static_cast<std::size_t>(type)); }

}  // namespace

std::string_view name(NpyType type) { return info(type).name; }

std::string_view descr(NpyType type) { return info(type).descr; }

std::int64_t bytes(NpyType type) { return info(type).bytes; }

std::int64_t npy_elements(std::span<const std::int64_t> shape, NpyType type, std::string_view file) {
  if (shape.size() > kNpyMaxRank) {
    npy_failure(file, "the array has {} dimensions; at most {} are accepted", shape.size(), kNpyMaxRank);
  }
  std::int64_t total = bytes(type);  // with sizes of 0 as 1, so that strides fit as well
  for (const std::int64_t size : shape) {
    if (__builtin_mul_overflow(total, std::max<std::int64_t>(size, 1), &total)) {
      npy_failure(file, "the shape {} needs more than 2^63 bytes", npy_shape_text(shape));
    }
  }
  return std::ranges::find(shape, 0) == shape.end() ? total / bytes(type) : 0;
}

std::string npy_shape_text(std::span<const std::int64_t> shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

}  // namespace msj::cli
