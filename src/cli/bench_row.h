// One measured case: its time against the floor that the same run measured.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "cli/bench_case.h"
#include "cli/regret.h"

namespace msj::cli {

// What the library timed beside a case.
struct BenchCeilings {
  double empty_ms = 0;                 // a launch that does nothing
  double read_ms = 0;                  // a pure read of the same bytes, less that: the faster of the two below
  double loads_ms = 0;                 // by loads
  std::optional<double> bulk_ms = {};  // by bulk copies, where the GPU has them
  std::int64_t read_bytes = 0;
  double multiply_adds = 0;
};

struct BenchRow {
  BenchCase of;
  Regret time;              // the launched config's time is `shared_ms`
  std::int64_t rounds = 0;  // that it was timed
  std::string environment;
  std::optional<BenchCeilings> ceilings = {};  // absent where the library could not time them: it has warned
  std::optional<double> matrix_rate = {};      // TFLOP/s of a large product in this dtype, where it is known
  std::map<std::string, double> peers = {};

  // Where no ceilings are known, none of these is.
  [[nodiscard]] std::optional<double> own_ms() const;      // less the empty launch
  [[nodiscard]] std::optional<double> matrix_ms() const;   // of the same multiplications at that rate
  [[nodiscard]] std::optional<double> floor_ms() const;    // the larger of the two
  [[nodiscard]] std::optional<double> efficiency() const;  // floor / own time
  // Of the read alone: where no rate is known, no less than this is the efficiency.
  [[nodiscard]] std::optional<double> least_efficiency() const;
  [[nodiscard]] std::optional<double> achieved_rate() const;  // TFLOP/s
  [[nodiscard]] std::optional<double> intensity() const;      // FLOP / byte
};

// From a measurement (maxsim-jit/measure/1); throws Failure where it does not time the launched config.
[[nodiscard]] BenchRow row_of(const BenchCase &of, const Json &measurement);

// Terabytes a second of the fastest read among those of ten empty launches and more: of shorter ones the clock tells
// little. Of the largest where all are short; absent where none was timed.
[[nodiscard]] std::optional<double> read_rate(std::span<const BenchRow> rows);
// TFLOP/s of the dtypes whose rate is known.
[[nodiscard]] std::map<std::string, double> matrix_rates(std::span<const BenchRow> rows);

}  // namespace msj::cli
