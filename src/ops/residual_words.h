// What the tables of the residual ops say in the same words.
#pragma once

#include "ops/table_words.h"

namespace msj::ops {

inline constexpr std::array<std::int64_t, 4> kNbits = {1, 2, 4, 8};
inline constexpr std::int64_t kDefaultCentroids = 65536;
inline constexpr std::int64_t kMaxCentroids = std::int64_t{1} << 31;  // codes are int32

// Sizes d and nbits, at these places of the table, make the other dimensions.
constexpr std::array<ExtentSpec, 2> residual_extents(int d, int nbits) {
  return {{{.name = "P", .rule = ExtentSpec::Rule::packed_bits, .size = d, .bits = nbits},
           {.name = "2^nbits", .rule = ExtentSpec::Rule::power_of_two, .size = nbits}}};
}

// Operands that say the same in each table.
constexpr OperandSpec codes_operand(int tokens, int centroids) {
  return {.name = "codes",
          .rank = 1,
          .dims = {tokens},
          .dtype = kInt32,
          .doc = "the centroid of each token",
          .content = Content::codes,
          .content_size = centroids};
}
constexpr OperandSpec residuals_operand(int tokens, int row_bytes) {
  return {.name = "residuals",
          .rank = 2,
          .dims = {tokens, row_bytes},
          .dtype = kBytes,
          .streamed = true,
          .doc = "nbits bits for each feature of each token"};
}

}  // namespace msj::ops
