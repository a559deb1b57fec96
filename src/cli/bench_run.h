// The cases of `bench`, one after another: what one of them throws is its failure alone, and rows stay.
#pragma once

#include <functional>
#include <vector>

#include "cli/bench_report.h"
#include "cli/console.h"

namespace msj::cli {

// Throws what it likes.
using MeasureCase = std::function<BenchRow(const BenchCase &)>;

// No case is started after `seconds`. All but the report's `least_rounds`.
[[nodiscard]] BenchReport run_cases(const std::vector<BenchCase> &cases, double seconds, const MeasureCase &measure,
                                    Console &console);

}  // namespace msj::cli
