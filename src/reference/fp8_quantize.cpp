#include "reference/fp8_quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "reference/lookup.h"
#include "reference/numeric.h"
#include "reference/parallel.h"

namespace msj::reference {

namespace {

constexpr float kLeastScale = 0x1p-100f;

float magnitude_of(std::span<const float> values) {
  float most = 0;
  for (const float x : values) {
    if (std::fabs(x) > most) most = std::fabs(x);  // never true of a NaN
  }
  return std::min(most, std::numeric_limits<float>::max());
}

float scale_of(float magnitude, float largest) {
  return magnitude == 0 ? 1.0f : std::max(magnitude / largest, kLeastScale);
}

struct Problem {
  explicit Problem(const BoundCall &call)
      : x(operand(call, "x")),
        quantized(operand(call, "quantized")),
        scales(operand(call, "scales")),
        L(size(call, "L")),
        width(size(call, "d")),
        tokens(size(call, "N") * L) {}

  const TensorView &x, &quantized, &scales;
  std::int64_t L, width;
  std::int64_t tokens;  // of all items

  [[nodiscard]] float scale(float magnitude) const {
    return scale_of(magnitude, quantized.dtype == DType::fp8_e4m3 ? 448.0f : 57344.0f);
  }
};

// One token's row, in one thread's memory.
class Row {
 public:
  explicit Row(const Problem &problem)
      : p_(problem), widened_(static_cast<std::size_t>(p_.width)), values_(static_cast<std::size_t>(p_.width)) {}

  void read(std::int64_t token) {
    n_ = token / p_.L;
    l_ = token % p_.L;
    convert_row(p_.x.dtype, p_.x.data, offset(p_.x, n_, l_), p_.x.strides[2], p_.width, widened_.data(), 1);
    std::ranges::transform(widened_, values_.begin(), [](double x) { return static_cast<float>(x); });  // exact
  }

  [[nodiscard]] float magnitude() const { return magnitude_of(values_); }

  void write_scale(float scale) const { store(p_.scales.data, offset(p_.scales, n_, l_), scale); }

  void quantize(float scale) const {
    const bool is_e4m3 = p_.quantized.dtype == DType::fp8_e4m3;
    const std::int64_t first = offset(p_.quantized, n_, l_);
    for (std::int64_t k = 0; k < p_.width; ++k) {
      const float x = values_[static_cast<std::size_t>(k)];
      const float quotient = std::isnan(x) ? std::numeric_limits<float>::quiet_NaN() : x / scale;  // without a sign
      const std::uint8_t bits = is_e4m3 ? to_fp8_e4m3(quotient) : to_fp8_e5m2(quotient);
      store(p_.quantized.data, first + k * p_.quantized.strides[2], bits);
    }
  }

 private:
  const Problem &p_;
  std::int64_t n_ = 0, l_ = 0;
  std::vector<double> widened_;
  std::vector<float> values_;
};

// body(row) for every token, its row read.
template <typename Body>
void for_each_row(const Problem &problem, std::vector<Row> &rows, const Body &body) {
  for_each_item(problem.tokens, static_cast<int>(rows.size()), [&](std::int64_t token, int worker) {
    Row &row = rows[static_cast<std::size_t>(worker)];
    row.read(token);
    body(row, static_cast<std::size_t>(worker));
  });
}

}  // namespace

void fp8_quantize(const BoundCall &call, int threads) {
  const Problem problem(call);
  std::vector<Row> rows(static_cast<std::size_t>(worker_count(problem.tokens, threads)), Row(problem));
  if (has_feature(call, "per_token")) {
    for_each_row(problem, rows, [&](const Row &row, std::size_t) {
      const float scale = problem.scale(row.magnitude());
      row.write_scale(scale);
      row.quantize(scale);
    });
    return;
  }
  std::vector<float> most(rows.size(), 0.0f);
  for_each_row(problem, rows,
               [&](const Row &row, std::size_t worker) { most[worker] = std::max(most[worker], row.magnitude()); });
  const float scale = problem.scale(*std::ranges::max_element(most));
  store(problem.scales.data, 0, scale);
  for_each_row(problem, rows, [&](const Row &row, std::size_t) { row.quantize(scale); });
}

void fp8_quantize(const BoundCall &call) { fp8_quantize(call, 0); }

}  // namespace msj::reference
