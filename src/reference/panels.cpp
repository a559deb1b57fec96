#include "reference/panels.h"

#include <algorithm>

namespace msj::reference {

namespace {

// Four float64 side by side, in whatever registers the machine has.
using Lanes = double __attribute__((vector_size(32)));
using LanesInMemory = double __attribute__((vector_size(32), aligned(alignof(double)), may_alias));
constexpr std::int64_t kVectors = kPanel / 4;

}  // namespace

// One more code for machines with wider vectors and fused multiply-adds. The bits agree: a product of two numbers of at
// most 24 bits is exact in float64, so that it does not matter whether it is rounded before the sum.
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define MSJ_WIDE_VECTORS __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define MSJ_WIDE_VECTORS
#endif

MSJ_WIDE_VECTORS void multiply(const double *const (&rows)[kRows], const double *panel, std::int64_t width,
                               double (&dots)[kRows][kPanel]) {
  Lanes sums[kRows][kVectors] = {};
  for (std::int64_t k = 0; k < width; ++k, panel += kPanel) {
    const auto *lanes = reinterpret_cast<const LanesInMemory *>(panel);
#pragma GCC unroll 4
    for (std::int64_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (std::int64_t v = 0; v < kVectors; ++v) sums[r][v] += rows[r][k] * lanes[v];
    }
  }
#pragma GCC unroll 4
  for (std::int64_t r = 0; r < kRows; ++r) {
    auto *out = reinterpret_cast<LanesInMemory *>(dots[r]);
#pragma GCC unroll 4
    for (std::int64_t v = 0; v < kVectors; ++v) out[v] = sums[r][v];
  }
}

void multiply(const RowBlock &rows, std::int64_t count, std::int64_t first, const double *panel,
              double (&dots)[kRows][kPanel]) {
  const double *pointers[kRows];
  for (std::int64_t r = 0; r < kRows; ++r) pointers[r] = rows.row(std::min(first + r, count - 1));
  multiply(pointers, panel, rows.width, dots);
}

}  // namespace msj::reference
