// What `bench` measures: the shapes of bench_shapes.json, each with an op, a dtype and features. The file is embedded
// in the command; tests/bench reads it too.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/warm_request.h"

namespace msj::cli {

struct BenchCase {
  std::string shape;  // "rerank-10k"
  const OpInfo *op = nullptr;
  SizeMap sizes;
  DType dtype{};  // of all matrices
  FeatureSet features = 0;

  [[nodiscard]] std::string features_text() const;  // "q_mask normalize"; "": none
  [[nodiscard]] std::string key() const;            // "dense_forward rerank-10k bf16", as tests/bench/peers.py has it
};

struct BenchChoice {
  std::string ops;       // "a,b"; "": all
  std::string shapes;    // likewise
  std::string features;  // "none", "all" or "a,b", in place of the cases' own; "": those
  bool quick = false;    // one shape of each kind
};

// Each once, in the file's order. Throws UsageError where a name is unknown or nothing is left. `ops` must outlive
// them.
[[nodiscard]] std::vector<BenchCase> bench_cases(std::span<const OpInfo> ops, const BenchChoice &choice);

// "bench_shapes.json" → its text; generated from it at build.
[[nodiscard]] const std::map<std::string, std::string_view, std::less<>> &embedded_bench_shapes();

}  // namespace msj::cli
