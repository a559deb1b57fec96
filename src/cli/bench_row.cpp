#include "cli/bench_row.h"

#include <algorithm>

namespace msj::cli {
namespace {

// Where the clock tells no difference there is no ratio.
std::optional<double> ratio(double over, double under) {
  if (over <= 0 || under <= 0) return std::nullopt;
  return over / under;
}

}  // namespace

std::optional<double> BenchRow::matrix_ms() const {
  if (!matrix_rate) return std::nullopt;
  return 2 * multiply_adds / (*matrix_rate * 1e9);
}

std::optional<double> BenchRow::floor_ms() const {
  if (!matrix_rate) return std::nullopt;
  return std::max(read_ms, *matrix_ms());
}

std::optional<double> BenchRow::efficiency() const { return ratio(floor_ms().value_or(0), own_ms()); }
std::optional<double> BenchRow::least_efficiency() const { return ratio(read_ms, own_ms()); }
std::optional<double> BenchRow::achieved_rate() const { return ratio(2 * multiply_adds / 1e9, own_ms()); }
std::optional<double> BenchRow::intensity() const { return ratio(2 * multiply_adds, static_cast<double>(read_bytes)); }

BenchRow row_of(const BenchCase &of, const Json &measurement) {
  BenchRow row;
  row.of = of;
  row.time = regret_of(of.key(), measurement);
  row.rounds = row.time.rounds;
  row.environment = measurement.at("environment").get<std::string>();
  const Json &ceilings = measurement.at("ceilings");
  row.empty_ms = ceilings.at("empty_ms").get<double>();
  row.read_ms = std::max(0.0, ceilings.at("read_ms").get<double>() - row.empty_ms);
  row.read_bytes = ceilings.at("read_bytes").get<std::int64_t>();
  row.multiply_adds = ceilings.at("multiply_adds").get<double>();
  return row;
}

std::optional<double> read_rate(std::span<const BenchRow> rows) {
  std::optional<double> best;
  for (const BenchRow &row : rows) {
    if (const auto rate = ratio(static_cast<double>(row.read_bytes) / 1e9, row.read_ms))
      best = std::max(best.value_or(0), *rate);
  }
  return best;
}

std::map<std::string, double> matrix_rates(std::span<const BenchRow> rows) {
  std::map<std::string, double> rates;
  for (const BenchRow &row : rows) {
    if (row.matrix_rate) rates.emplace(name(row.of.dtype), *row.matrix_rate);
  }
  return rates;
}

}  // namespace msj::cli
