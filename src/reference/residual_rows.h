// The rows of an index that keeps each token as a centroid's number and a few bits a feature, decoded to float64.
//
//     row[k] = centroids[code][k] + bucket_weights[index k]
//
// index k is bits k·nbits … of the token's stream, low bit first; stream bit j is bit 7 − j mod 8 of byte j / 8, with
// `lsb_first` bit j mod 8.
#pragma once

#include <vector>

#include "base/call.h"
#include "reference/panels.h"

namespace msj::reference {

class ResidualRows {
 public:
  // Of a call whose table names codes, residuals, centroids, bucket_weights, lsb_first, N, K, d and nbits. The call
  // outlives this.
  explicit ResidualRows(const BoundCall &call);

  [[nodiscard]] std::int64_t tokens() const { return tokens_; }
  [[nodiscard]] std::int64_t width() const { return width_; }
  // Row n of `out` is that of `token` of the index; NaN where its code is no centroid's.
  void decode(std::int64_t token, const RowBlock &out, std::int64_t n) const;

 private:
  [[nodiscard]] std::size_t index(std::int64_t token, std::int64_t k) const;

  const TensorView &codes_, &residuals_, &centroids_;
  std::int64_t tokens_, centroid_count_, width_, nbits_;
  bool lsb_first_;
  std::vector<double> weights_;
};

// Whether [start, start + length) lies inside [0, tokens).
[[nodiscard]] bool is_inside(std::int64_t start, std::int64_t length, std::int64_t tokens);

}  // namespace msj::reference
