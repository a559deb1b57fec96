// An autotune entry: the winners of one key, every candidate's timing, and where it came from; JSON there and back.
//
// The text ends with a checksum over all of it but the date, so that a flipped bit is a miss and not another winner.
// docs/cache-files.md describes the format.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tune/autotune_key.h"
#include "tune/space.h"
#include "tune/timer.h"

namespace msj::tune {

inline constexpr std::string_view kEntrySchema = "maxsim-jit/autotune/1";

struct CandidateRecord {
  TileConfig config;
  Layout layout = Layout::aligned16;
  Timing timing;
  std::string rejected;  // "" if it was timed
};

struct Provenance {
  int driver_version = 0;
  std::string nvrtc_version;
  std::string library_version;
  std::string source_hash;
  std::string date;  // ISO 8601, UTC
};

struct Entry {
  std::string op;
  int tuning_epoch = 0;
  std::string environment;
  ConfigPair configs;
  Sizes sizes{};  // representative sizes that were timed
  std::vector<CandidateRecord> candidates;
  Provenance provenance;
};

// Stable text: the same entry gives the same bytes.
[[nodiscard]] std::string to_json(const Entry &entry, const AutotuneKey &key);
// Checks schema, epoch, bucket version, the whole key and environment; nullopt with one sentence in `why` otherwise.
[[nodiscard]] std::optional<Entry> parse_entry(std::string_view json, const AutotuneKey &key,
                                               std::string_view environment, std::string &why);
// A sound entry of this key but for another bucket version or tuning epoch: a miss that is nobody's fault.
[[nodiscard]] bool is_of_other_version(std::string_view json, const AutotuneKey &key);
// For `cache verify` and inspect, which have no key in hand: schema and shape only. "" if it is an entry.
[[nodiscard]] std::string entry_problem(std::string_view json);

}  // namespace msj::tune
