// What `bench` found, drawn: the efficiency of each case, and all of them under the roofline, as one SVG.
#pragma once

#include <span>
#include <string>

#include "cli/bench_row.h"

namespace msj::cli {

[[nodiscard]] std::string bench_svg(std::span<const BenchRow> rows);

}  // namespace msj::cli
