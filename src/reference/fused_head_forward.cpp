// W is widened once into panels, so that one vector instruction serves 8 outputs; the hidden rows of a tile meet each
// panel while it is in the cache.
#include "reference/fused_head_forward.h"

#include <algorithm>
#include <vector>

#include "reference/lookup.h"
#include "reference/maxsim.h"
#include "reference/numeric.h"

namespace msj::reference {

namespace {

class Head {
 public:
  explicit Head(const BoundCall &call)
      : h_(operand(call, "h")),
        dtype_(operand(call, "q").dtype),
        d_out_(size(call, "d_out")),
        d_model_(size(call, "d_model")),
        normalize_(has_feature(call, "normalize")),
        bias_(static_cast<std::size_t>(d_out_)),
        weights_(static_cast<std::size_t>((d_out_ + kPanel - 1) / kPanel * kPanel * d_model_)) {
    const TensorView &w = operand(call, "w");
    const RowBlock panels = {weights_.data(), d_model_, kPanel, nullptr};
    for (std::int64_t o = 0; o < d_out_; ++o) {
      convert_row(w.dtype, w.data, o * w.strides[0], w.strides[1], d_model_, panels.row(o), kPanel);
    }
    const TensorView &bias = operand(call, "bias");
    if (bias.present) convert_row(bias.dtype, bias.data, 0, bias.strides[0], d_out_, bias_.data(), 1);
  }

  // Rows of E.
  void project(std::int64_t item, std::span<const std::int64_t> tokens, const RowBlock &out) const {
    const auto count = static_cast<std::int64_t>(tokens.size());
    std::vector<double> values(static_cast<std::size_t>(count * d_model_));
    const RowBlock hidden = {values.data(), d_model_, 1, nullptr};
    widen(h_, item, tokens, hidden);
    for (std::int64_t o = 0; o < d_out_; o += kPanel) {
      for (std::int64_t n = 0; n < count; n += kRows) {
        double sums[kRows][kPanel];
        multiply(hidden, count, n, weights_.data() + o * d_model_, sums);
        for (std::int64_t r = 0; r < std::min(kRows, count - n); ++r) {
          double *row = out.row(n + r) + o * out.lanes;
          for (std::int64_t lane = 0; lane < std::min(kPanel, d_out_ - o); ++lane)
            row[lane * out.lanes] = sums[r][lane];
        }
      }
    }
    for (std::int64_t n = 0; n < count; ++n) finish(out, n);
  }

 private:
  void finish(const RowBlock &rows, std::int64_t n) const {
    double *row = rows.row(n);
    for (std::int64_t o = 0; o < d_out_; ++o) row[o * rows.lanes] += bias_[static_cast<std::size_t>(o)];
    const double divisor = normalize_ ? floored_norm(rows, n) : 1.0;
    for (std::int64_t o = 0; o < d_out_; ++o) {
      double &value = row[o * rows.lanes];
      value = nearest(dtype_, value / divisor);
    }
  }

  const TensorView &h_;
  DType dtype_;
  std::int64_t d_out_, d_model_;
  bool normalize_;
  std::vector<double> bias_;     // zeros where there is none
  std::vector<double> weights_;  // [d_out / kPanel, d_model, kPanel]
};

}  // namespace

void fused_head_forward(const BoundCall &call, int threads) {
  const Head head(call);
  const TensorView &q = operand(call, "q");
  const TokenRows queries = {.width = size(call, "d_out"),
                             .has_factors = false,
                             .read = [&](std::int64_t item, std::span<const std::int64_t> tokens, const RowBlock &out) {
                               widen(q, item, tokens, out);
                             }};
  const TokenRows documents = {.width = queries.width,
                               .has_factors = false,
                               .read = [&](std::int64_t item, std::span<const std::int64_t> tokens,
                                           const RowBlock &out) { head.project(item, tokens, out); }};
  maxsim(call, queries, documents, threads);
}

void fused_head_forward(const BoundCall &call) { fused_head_forward(call, 0); }

}  // namespace msj::reference
