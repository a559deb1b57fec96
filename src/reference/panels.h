// Products of float64 rows with panels: rows beside one another for each k, so that one vector instruction serves all
// of a panel's dot products without reordering any sum.
#pragma once

#include <cstdint>

namespace msj::reference {

inline constexpr std::int64_t kPanel = 8;  // rows side by side in a panel
inline constexpr std::int64_t kRows = 4;   // other rows that meet a panel at a time

// What a row has besides its values: its dot products are divided and multiplied by them.
struct Factors {
  double divisor = 1;
  double multiplier = 1;
};

// Where rows of `width` float64 values go. Value k of row n is row(n)[k * lanes].
struct RowBlock {
  double *values;
  std::int64_t width;
  std::int64_t lanes;  // rows side by side: kPanel, or 1 for rows after one another
  Factors *factors;    // of each row, 1 until written; null where nobody asks for them

  [[nodiscard]] double *row(std::int64_t n) const { return values + (n - n % lanes) * width + n % lanes; }
};

// dots[r][lane] = Σ_k rows[r][k] · panel[k][lane], summed in ascending k. The bits do not depend on the machine where
// every value has at most 24 significant bits.
void multiply(const double *const (&rows)[kRows], const double *panel, std::int64_t width,
              double (&dots)[kRows][kPanel]);

// The same of rows first … first + kRows - 1 of `count` rows after one another; where there are fewer, the last again.
void multiply(const RowBlock &rows, std::int64_t count, std::int64_t first, const double *panel,
              double (&dots)[kRows][kPanel]);

}  // namespace msj::reference
