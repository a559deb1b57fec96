// What a sweep needs of the world: time these compiled candidates on this problem. The GPU's clock is the only thing
// that tests replace.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jit/specializer.h"
#include "tune/autotune_key.h"

namespace msj::tune {

struct Trial {
  TileConfig config;
  Layout layout = Layout::aligned16;
  std::shared_ptr<const jit::Cubin> cubin;
};

// How a measurement differs from a sweep.
struct Measuring {
  int least_rounds = 0;  // of what is not given up; 0: as a sweep
  TileConfig launched;   // never given up, however slow it is
};

struct SweepProblem {
  const OpSpec *op = nullptr;
  Sizes sizes{};  // representative; those of the call in a measurement
  Sizes static_sizes{};
  DtypeTuple dtypes;
  FeatureSet features = 0;
  int sm_count = 0;
  std::int64_t l2_bytes = 0;
  int compute_capability = 0;               // 90; a sweep does not need it
  std::optional<Measuring> measuring = {};  // absent: a sweep
};

struct Timing {
  double median_ms = 0;
  double dispersion = 0;  // median absolute deviation / median
  int rounds = 0;         // 0: it was not timed
  std::string error;      // why it could not run; "" if it ran
};

// What a problem is measured against; see tune/ceilings.h.
struct Ceilings {
  double empty_ms = 0;                 // a launch that does nothing
  double loads_ms = 0;                 // a pure read of what the op streams, its launch included
  std::optional<double> bulk_ms = {};  // the same by bulk copies, where the GPU has them
  std::int64_t read_bytes = 0;
  [[nodiscard]] double read_ms() const { return std::min(loads_ms, bulk_ms.value_or(loads_ms)); }
};

class Timer {
 public:
  virtual ~Timer() = default;
  // One Timing per trial, in order. The CUDA context to work in is current.
  [[nodiscard]] virtual std::vector<Timing> time(const SweepProblem &problem, std::span<const Trial> trials) = 0;
  // `cubin` holds the ceilings' kernels. A timer that has no GPU has no ceilings.
  [[nodiscard]] virtual Ceilings ceilings(const SweepProblem &, std::string_view /*cubin*/) { return {}; }
};

}  // namespace msj::tune
