// What a shared winner costs: its time over the best candidate's, for one feature set or one point of a bucket.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/output.h"

namespace msj::cli {

// One measurement (maxsim-jit/measure/1) under a name: a feature set, a place in the bucket.
struct Regret {
  std::string what;
  double shared_ms = 0;  // the shared winner's time
  double best_ms = 0;    // the fastest candidate's
  std::string shared;    // their configs, as text
  std::string best;
  std::string source;       // of the shared one: "tuned", "shipped" or "default"
  double dispersion = 0;    // of the two times, the larger: what is below it is noise
  std::int64_t rounds = 0;  // that the shared one was timed
  [[nodiscard]] double ratio() const { return shared_ms / best_ms - 1; }
};

// Throws Failure where the measurement has no time of the config that the call launches.
[[nodiscard]] Regret regret_of(const std::string &what, const Json &measurement);

struct RegretSummary {
  double median = 0;
  double worst = 0;
};
[[nodiscard]] RegretSummary summary_of(std::span<const Regret> regrets);

// "portable block_doc=64 …" of a config.
[[nodiscard]] std::string config_text(const Json &config);

}  // namespace msj::cli
