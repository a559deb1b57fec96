// Random problems of the forward ops: sizes by a budget of multiply-adds, layouts, masks, lengths.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "gpu/op_problem.h"

namespace msj::gpu {

class OpShapes {
 public:
  explicit OpShapes(std::uint64_t seed) : random_(seed) {}

  [[nodiscard]] std::int64_t whole(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  [[nodiscard]] double real(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }
  [[nodiscard]] bool one_in(std::int64_t count) { return whole(0, count - 1) == 0; }
  // 1 to `most`, each order of magnitude as often.
  [[nodiscard]] std::int64_t tokens(double most) {
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::exp2(real(0, std::log2(std::max(most, 1.0))))));
  }

  // How the tensors lie, half of them in the class `aligned16`; lengths, empty_doc, one scale for all or none.
  void arrange(OpProblem &p) {
    p.streamed = one_in(2) ? Placing::padded : placing();
    p.others = placing();
    p.extras = one_in(2);
    p.singles = one_in(2);
    p.neg_inf = one_in(2);
    p.seed = static_cast<std::uint64_t>(whole(1, 1'000'000'000));
  }
  [[nodiscard]] Placing placing() { return kPlacings[static_cast<std::size_t>(whole(0, 4))]; }

 private:
  std::mt19937_64 random_;
};

}  // namespace msj::gpu
