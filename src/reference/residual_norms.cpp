#include "reference/residual_norms.h"

#include <algorithm>
#include <vector>

#include "reference/lookup.h"
#include "reference/maxsim.h"
#include "reference/numeric.h"
#include "reference/parallel.h"
#include "reference/residual_rows.h"

namespace msj::reference {

void residual_norms(const BoundCall &call) {
  const ResidualRows rows(call);
  const TensorView &norms = operand(call, "inv_norms");
  const TensorView &starts = operand(call, "d_starts");
  const TensorView &lengths = operand(call, "d_lengths");
  const auto write = [&](std::int64_t first, std::int64_t count) {
    std::vector<double> values(static_cast<std::size_t>(rows.width()));
    const RowBlock row = {values.data(), rows.width(), 1, nullptr};
    for (std::int64_t token = first; token < first + count; ++token) {
      rows.decode(token, row, 0);
      store(norms.data, token * norms.strides[0], static_cast<float>(1 / floored_norm(row, 0)));
    }
  };
  if (starts.present) {  // documents may overlap: one after another
    for (std::int64_t j = 0; j < size(call, "Nd"); ++j) {
      const auto start = load<std::int64_t>(starts.data, j * starts.strides[0]);
      const std::int64_t length = load<std::int32_t>(lengths.data, j * lengths.strides[0]);
      if (is_inside(start, length, rows.tokens())) write(start, length);
    }
    return;
  }
  constexpr std::int64_t kShare = 4096;
  const std::int64_t shares = (rows.tokens() + kShare - 1) / kShare;
  for_each_item(shares, worker_count(shares, 0), [&](std::int64_t share, int) {
    write(share * kShare, std::min(kShare, rows.tokens() - share * kShare));
  });
}

}  // namespace msj::reference
