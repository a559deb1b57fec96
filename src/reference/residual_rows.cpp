#include "reference/residual_rows.h"

#include <limits>

#include "reference/lookup.h"
#include "reference/numeric.h"

namespace msj::reference {

ResidualRows::ResidualRows(const BoundCall &call)
    : codes_(operand(call, "codes")),
      residuals_(operand(call, "residuals")),
      centroids_(operand(call, "centroids")),
      tokens_(size(call, "N")),
      centroid_count_(size(call, "K")),
      width_(size(call, "d")),
      nbits_(size(call, "nbits")),
      lsb_first_(has_feature(call, "lsb_first")),
      weights_(std::size_t{1} << nbits_) {
  const TensorView &weights = operand(call, "bucket_weights");
  convert_row(weights.dtype, weights.data, 0, weights.strides[0], std::int64_t{1} << nbits_, weights_.data(), 1);
}

std::size_t ResidualRows::index(std::int64_t token, std::int64_t k) const {
  std::size_t index = 0;
  for (std::int64_t i = 0; i < nbits_; ++i) {
    const std::int64_t bit = k * nbits_ + i;
    const auto byte = load<std::uint8_t>(residuals_.data, offset(residuals_, token, bit / 8));
    const std::int64_t shift = lsb_first_ ? bit % 8 : 7 - bit % 8;
    index |= static_cast<std::size_t>((byte >> shift) & 1) << i;
  }
  return index;
}

void ResidualRows::decode(std::int64_t token, const RowBlock &out, std::int64_t n) const {
  double *row = out.row(n);
  const auto code = static_cast<std::int64_t>(load<std::int32_t>(codes_.data, token * codes_.strides[0]));
  if (code < 0 || code >= centroid_count_) {
    for (std::int64_t k = 0; k < width_; ++k) row[k * out.lanes] = std::numeric_limits<double>::quiet_NaN();
    return;
  }
  convert_row(centroids_.dtype, centroids_.data, code * centroids_.strides[0], centroids_.strides[1], width_, row,
              out.lanes);
  for (std::int64_t k = 0; k < width_; ++k) row[k * out.lanes] += weights_[index(token, k)];
}

bool is_inside(std::int64_t start, std::int64_t length, std::int64_t tokens) {
  return start >= 0 && length >= 0 && start <= tokens && length <= tokens - start;
}

}  // namespace msj::reference
