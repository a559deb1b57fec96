// What `bench` found, as text for people and as JSON.
#pragma once

#include <string>
#include <vector>

#include "cli/bench_row.h"
#include "cli/output.h"

namespace msj::cli {

struct BenchFailure {
  BenchCase of;
  std::string status;
  std::string sentence;
};

struct BenchReport {
  int least_rounds = 0;
  double seconds = 0;
  std::vector<BenchRow> rows;
  std::vector<BenchFailure> failed;
  std::vector<BenchCase> left_out;  // there was no time for them
};

[[nodiscard]] std::string bench_text(const BenchReport &report);
// "maxsim-jit/bench/1". What no file and no measurement told is null.
[[nodiscard]] Json bench_json(const BenchReport &report, const msj_counters &counters);

// "98.3 %", "≥ 98.3 %" where only the read is known, "-" where nothing is.
[[nodiscard]] std::string efficiency_text(const BenchRow &row);

}  // namespace msj::cli
