// Conversions between number formats: float files to the dtypes of matrices, rounded once, to nearest even.
//
// Values beyond a format's range become what its own arithmetic says, as in PyTorch and ml_dtypes: an infinity, or NaN
// in fp8_e4m3, which has no infinity. They are counted, so that the command can say so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "cli/dtype.h"
#include "cli/npy_read.h"

namespace msj::cli {

[[nodiscard]] bool is_float(NpyType type);
[[nodiscard]] bool is_float(DType dtype);

// The dtype of the same bits; raw8 has none of its own and counts as u8. No float64 or uint16 in the
// library: nullopt.
[[nodiscard]] std::optional<DType> dtype_of(NpyType type);

struct Converted {
  std::vector<std::byte> data;
  std::int64_t overflows = 0;  // finite values that are not any more
};

// All elements in memory order. Both types must be floats.
[[nodiscard]] Converted convert_floats(const NpyArray &array, DType to);

// int64 to int32. Throws Failure with `what` in the sentence where a value does not fit.
[[nodiscard]] std::vector<std::byte> narrow_integers(const NpyArray &array, std::string_view what);

// Single values, for tests: the exact value of a pattern, and the pattern of the nearest value.
[[nodiscard]] double decode(DType dtype, std::uint32_t bits);
[[nodiscard]] std::uint32_t encode(DType dtype, double value);

}  // namespace msj::cli
