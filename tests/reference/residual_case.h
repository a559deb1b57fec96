// An index of codes and residual bits made from a seed, and its rows by the definition of the format, written down once
// more: streams of bits, one at a time.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "reference/forward_case.h"

namespace host {

struct ResidualIndex {
  std::int64_t N, K, d, nbits;
  bool lsb_first;
  Tensor codes, residuals, centroids, weights;

  ResidualIndex(std::int64_t tokens, std::int64_t centroid_count, std::int64_t width, std::int64_t bits, bool lsb,
                msj::DType dtype, Order order)
      : N(tokens),
        K(centroid_count),
        d(width),
        nbits(bits),
        lsb_first(lsb),
        codes(msj::DType::i32, {N}, order),
        residuals(msj::DType::u8, {N, (d * nbits + 7) / 8}, order),
        centroids(dtype, {K, d}, order),
        weights(dtype, {std::int64_t{1} << nbits}, order) {}

  void fill(Random &random, bool bad_codes) {
    codes.fill([&] {
      if (bad_codes && pick(random, 0, 9) == 0) return pick(random, 0, 1) == 0 ? -1.0 : static_cast<double>(K);
      return static_cast<double>(pick(random, 0, K - 1));
    });
    residuals.fill([&] { return static_cast<double>(pick(random, 0, 255)); });
    centroids.fill([&] { return static_cast<double>(pick(random, -2, 2)); });
    weights.fill([&] { return static_cast<double>(pick(random, -3, 3)) / 2; });
  }

  // Bit j of a token's stream.
  [[nodiscard]] int bit(std::int64_t token, std::int64_t j) const {
    const std::int64_t bytes = (d * nbits + 7) / 8;
    const int byte = residuals.raw<std::uint8_t>(token * bytes + j / 8);
    const auto in_byte = static_cast<int>(j % 8);
    return lsb_first ? byte >> in_byte & 1 : byte >> (7 - in_byte) & 1;
  }

  [[nodiscard]] double row(std::int64_t token, std::int64_t k) const {
    const double code = codes.at(token);
    if (code < 0 || code >= static_cast<double>(K)) return std::nan("");
    std::int64_t index = 0;
    for (std::int64_t i = 0; i < nbits; ++i) index += std::int64_t{bit(token, k * nbits + i)} << i;
    return centroids.at(static_cast<std::int64_t>(code) * d + k) + weights.at(index);
  }

  // Operands and sizes of a call of an op that has them.
  void put_into(msj::BoundCall &call) {
    const auto size = [&](std::string_view name) -> std::int64_t & {
      return call.sizes[static_cast<std::size_t>(msj::find_named(call.op->sizes, name))];
    };
    const auto operand = [&](std::string_view name) -> msj::TensorView & {
      return call.operands[static_cast<std::size_t>(msj::find_named(call.op->operands, name))];
    };
    size("N") = N, size("K") = K, size("d") = d, size("nbits") = nbits;
    operand("codes") = codes.view();
    operand("residuals") = residuals.view();
    operand("centroids") = centroids.view();
    operand("bucket_weights") = weights.view();
  }
};

}  // namespace host
