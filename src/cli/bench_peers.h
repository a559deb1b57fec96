// What tests/bench/peers.py measured on the same machine: matrix rates, and other libraries' times.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/bench_case.h"

namespace msj::cli {

class BenchPeers {
 public:
  BenchPeers() = default;  // knows nothing
  // {"ceilings": {dtype: TFLOP/s}, "cases": {case: {"features": "…", peer: {"ms": …}}}}; each part may be missing.
  // Throws Failure that names the file.
  [[nodiscard]] static BenchPeers read(const std::filesystem::path &file);

  // TFLOP/s of a large matrix product.
  [[nodiscard]] std::optional<double> matrix_rate(DType dtype) const;
  // Milliseconds of each peer that was timed with the same features.
  [[nodiscard]] std::map<std::string, double> times(const BenchCase &of) const;

 private:
  nlohmann::json ceilings_ = nlohmann::json::object();
  nlohmann::json cases_ = nlohmann::json::object();
};

}  // namespace msj::cli
