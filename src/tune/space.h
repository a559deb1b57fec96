// Candidate spaces: configs/spaces/<op>.json, and which candidates a key and a device admit, with a reason for the
// rest.
//
// The file, in order of general preference (the first admissible candidate is the default):
//   {"version": 1, "candidates": [
//     {"path": "portable", "tunables": {"block_doc": 64, …}, "layouts": ["aligned16", "any"], "dtypes": ["bf16",
//     "f16"]}, …]}
// "dtypes" are those of the op's first operand and may be left out: all. One config may appear twice for dtypes of
// which none is in both, so that the order can differ from dtype to dtype.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/op_spec.h"
#include "tune/autotune_key.h"
#include "tune/embedded_configs.h"

namespace msj::tune {

struct Candidate {
  TileConfig config;
  std::vector<DType> dtypes;                     // of the op's first operand; empty: all
  std::array<bool, 2> layouts = {false, false};  // by Layout

  [[nodiscard]] bool takes(Layout layout) const { return layouts[static_cast<std::size_t>(layout)]; }
  [[nodiscard]] bool takes(DType dtype) const;
};

struct CandidateSpace {
  int version = 0;
  std::vector<Candidate> candidates;  // in order of general preference

  // Throws Error(MSJ_ERROR_INTERNAL): an unknown path, a tunable missing or too many, a duplicate.
  [[nodiscard]] static CandidateSpace parse(const OpSpec &op, std::string_view json);
  [[nodiscard]] static CandidateSpace embedded(const OpSpec &op, const ConfigTexts &configs = embedded_configs());

  // Whether this config is a candidate for that dtype and layout class.
  [[nodiscard]] bool contains(const TileConfig &config, DType dtype, Layout layout) const;
};

struct Admitted {
  TileConfig config;
  Layout layout = Layout::any;
};
struct Rejected {
  TileConfig config;
  Layout layout = Layout::any;
  std::string reason;
};
struct Admission {
  std::vector<Admitted> admitted;  // every (candidate, layout class) pair that a sweep compiles and times
  std::vector<Rejected> rejected;
};

// The candidates for the key's dtype, each in every layout class that it takes.
[[nodiscard]] Admission admit(const CandidateSpace &space, const AutotuneKey &key, const DeviceLimits &limits);
// Whether one config can run this key; "" if it can, else one sentence why not. Takes any config, however wrong (used
// on entries from disk: never trust a config that is not admissible now).
[[nodiscard]] std::string admission_problem(const AutotuneKey &key, const TileConfig &config, Layout layout,
                                            const DeviceLimits &limits);

// A pair of configs: one for each layout class.
struct ConfigPair {
  TileConfig config;      // for aligned16: the best of all
  TileConfig config_any;  // the best of the candidates that take any layout
  [[nodiscard]] const TileConfig &of(Layout layout) const { return layout == Layout::aligned16 ? config : config_any; }
  friend bool operator==(const ConfigPair &, const ConfigPair &) = default;
  friend auto operator<=>(const ConfigPair &, const ConfigPair &) = default;
};
// The first admissible candidate for each class. Throws Error(MSJ_ERROR_UNSUPPORTED) if there is none, with reasons.
[[nodiscard]] ConfigPair default_configs(const CandidateSpace &space, const AutotuneKey &key,
                                         const DeviceLimits &limits);

}  // namespace msj::tune
