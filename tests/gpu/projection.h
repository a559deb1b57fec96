// The projected rows of fused_head_forward as a test computes them, apart from the library: E = H Wᵀ + bias in float64,
// normalized where asked, rounded to the dtype; and how far a float32 sum may take each of them from that.
//
// An element may be rounded to a neighbour only if the float64 value lies nearer to the border between two numbers than
// float32 sums err. So its error is one step, or nothing: far less than a bound over all elements would allow.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "gpu/op_instance.h"
#include "gpu/problem.h"  // accuracy

namespace msj::gpu {

struct Projection {
  std::vector<double> rows;    // [Nd, Ld, d_out], rounded
  std::vector<double> errors;  // likewise
};

[[nodiscard]] inline Projection project(const OpInstance &instance);

// ---------------------------------------------------------------------------------------------------------------------

class Projector {
 public:
  explicit Projector(const OpInstance &instance)
      : problem_(instance.problem()),
        dtype_(problem_.dtype(MSJ_FUSED_HEAD_FORWARD_Q)),
        d_out_(static_cast<std::size_t>(problem_.size("d_out"))),
        d_model_(static_cast<std::size_t>(problem_.size("d_model"))),
        h_(decode(dtype_, instance.elements(MSJ_FUSED_HEAD_FORWARD_H))),
        w_(decode(dtype_, instance.elements(MSJ_FUSED_HEAD_FORWARD_W))),
        bias_(decode(problem_.dtype(MSJ_FUSED_HEAD_FORWARD_BIAS), instance.elements(MSJ_FUSED_HEAD_FORWARD_BIAS))) {}

  [[nodiscard]] Projection all() const {
    Projection result{std::vector<double>(h_.size() / d_model_ * d_out_), {}};
    result.errors = result.rows;
    in_parallel(h_.size() / d_model_, [&](std::size_t row) {
      double *e = result.rows.data() + row * d_out_;
      double *error = result.errors.data() + row * d_out_;
      sum(row, e, error);
      if (problem_.has("normalize")) normalize(e, error);
      for (std::size_t i = 0; i < d_out_; ++i) round(e[i], error[i]);
    });
    return result;
  }

 private:
  void sum(std::size_t row, double *e, double *error) const {
    const double coefficient = accuracy(dtype_, static_cast<std::int64_t>(d_model_));
    const double *h = h_.data() + row * d_model_;
    for (std::size_t i = 0; i < d_out_; ++i) {
      const double *w = w_.data() + i * d_model_;
      double value = bias_.empty() ? 0.0 : bias_[i];
      double magnitude = std::abs(value);
      for (std::size_t k = 0; k < d_model_; ++k) {
        value += h[k] * w[k];
        magnitude += std::abs(h[k] * w[k]);
      }
      e[i] = value;
      error[i] = coefficient * magnitude;
    }
  }

  // The norm errs by the errors of its terms and by its own sum in float32.
  void normalize(double *e, double *error) const {
    double squares = 0;
    double error_squares = 0;
    for (std::size_t i = 0; i < d_out_; ++i) {
      squares += e[i] * e[i];
      error_squares += error[i] * error[i];
    }
    const double norm = std::max(std::sqrt(squares), 1e-12);
    const double relative = std::sqrt(error_squares) / norm + std::ldexp(static_cast<double>(d_out_ + 8), -24);
    for (std::size_t i = 0; i < d_out_; ++i) {
      e[i] /= norm;
      error[i] = error[i] / norm + std::abs(e[i]) * relative;
    }
  }

  void round(double &e, double &error) const {
    const double step = step_at(dtype_, e);
    const double part = e / step - std::floor(e / step);
    const double to_border = std::abs(part - 0.5) * step;
    const bool may_differ = error >= to_border || dtype_ == DType::f32;
    e = round_to(dtype_, e);
    error = may_differ ? error + step : 0.0;
  }

  const OpProblem &problem_;
  DType dtype_;
  std::size_t d_out_, d_model_;
  std::vector<double> h_, w_, bias_;
};

inline Projection project(const OpInstance &instance) { return Projector(instance).all(); }

}  // namespace msj::gpu
