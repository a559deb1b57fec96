#include "cli/bench_row.h"

#include <algorithm>

namespace msj::cli {
namespace {

// Where one is not known, or the clock tells no difference, there is no ratio.
std::optional<double> ratio(std::optional<double> over, std::optional<double> under) {
  if (!over || !under || *over <= 0 || *under <= 0) return std::nullopt;
  return *over / *under;
}

std::optional<double> rate_of(const BenchCeilings &ceilings) {
  return ratio(static_cast<double>(ceilings.read_bytes) / 1e9, ceilings.read_ms);
}

}  // namespace

std::optional<double> BenchRow::own_ms() const {
  if (!ceilings) return std::nullopt;
  return time.shared_ms - ceilings->empty_ms;
}

std::optional<double> BenchRow::matrix_ms() const {
  if (!matrix_rate || !ceilings) return std::nullopt;
  return 2 * ceilings->multiply_adds / (*matrix_rate * 1e9);
}

std::optional<double> BenchRow::floor_ms() const {
  const auto matrix = matrix_ms();
  if (!matrix) return std::nullopt;
  return std::max(ceilings->read_ms, *matrix);
}

std::optional<double> BenchRow::efficiency() const { return ratio(floor_ms(), own_ms()); }

std::optional<double> BenchRow::least_efficiency() const {
  if (!ceilings) return std::nullopt;
  return ratio(ceilings->read_ms, own_ms());
}

std::optional<double> BenchRow::achieved_rate() const {
  if (!ceilings) return std::nullopt;
  return ratio(2 * ceilings->multiply_adds / 1e9, own_ms());
}

std::optional<double> BenchRow::intensity() const {
  if (!ceilings) return std::nullopt;
  return ratio(2 * ceilings->multiply_adds, static_cast<double>(ceilings->read_bytes));
}

BenchRow row_of(const BenchCase &of, const Json &measurement) {
  BenchRow row;
  row.of = of;
  row.time = regret_of(of.key(), measurement);
  row.rounds = row.time.rounds;
  row.environment = measurement.at("environment").get<std::string>();
  const Json &timed = measurement.at("ceilings");
  if (timed.is_null()) return row;
  const double empty_ms = timed.at("empty_ms").get<double>();
  const auto read = [&](const char *way) { return std::max(0.0, timed.at(way).get<double>() - empty_ms); };
  row.ceilings = {.empty_ms = empty_ms,
                  .read_ms = read("read_ms"),
                  .loads_ms = read("loads_ms"),
                  .read_bytes = timed.at("read_bytes").get<std::int64_t>(),
                  .multiply_adds = timed.at("multiply_adds").get<double>()};
  if (!timed.at("bulk_ms").is_null()) row.ceilings->bulk_ms = read("bulk_ms");
  return row;
}

std::optional<double> read_rate(std::span<const BenchRow> rows) {
  constexpr double kLeastEmptyLaunches = 10;
  std::optional<double> best;
  const BenchCeilings *largest = nullptr;
  for (const BenchRow &row : rows) {
    if (!row.ceilings) continue;
    const BenchCeilings &timed = *row.ceilings;
    if (largest == nullptr || timed.read_bytes > largest->read_bytes) largest = &timed;
    if (timed.read_ms < kLeastEmptyLaunches * timed.empty_ms) continue;
    if (const auto rate = rate_of(timed)) best = std::max(best.value_or(0), *rate);
  }
  if (best || largest == nullptr) return best;
  return rate_of(*largest);
}

std::map<std::string, double> matrix_rates(std::span<const BenchRow> rows) {
  std::map<std::string, double> rates;
  for (const BenchRow &row : rows) {
    if (row.matrix_rate) rates.emplace(name(row.of.dtype), *row.matrix_rate);
  }
  return rates;
}

}  // namespace msj::cli
