// Keeping a directory small: least recently used first, and what dead processes left behind.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "store/trust.h"
#include "store/walk.h"

namespace msj::store {

struct Eviction {
  std::int64_t limit_bytes;
  std::int64_t target_bytes;                           // at most the limit
  std::string keep;                                    // this relative path stays
  std::function<void(const Opened &refused)> refused;  // what could not be looked at or removed
  std::function<void(const std::string &relative, std::int64_t bytes)> evicted = {};
};

// 7/8 of the limit: a target for which a full cache isn't combed at every new file.
[[nodiscard]] constexpr std::int64_t target_below(std::int64_t limit_bytes) { return limit_bytes - limit_bytes / 8; }

// A temporary older than an hour, or dated more than that in the future. Younger ones count as being written: the
// writer may be on another machine.
[[nodiscard]] bool is_leftover(const Visit &visit);

// If the cubins below `folder` (which is at `relative`), with temporaries, take more than the limit, removes those used
// longest ago until they take no more than the target. Leftovers go in any case.
// Use is the modification time, which hits refresh; one in the future counts as the oldest. Returns the bytes that
// remain.
std::int64_t evict_files(Files &files, const Opened &folder, const std::string &relative, const Eviction &eviction);

// What counts against the limit below `folder`: cubins and temporaries.
[[nodiscard]] std::int64_t counted_bytes(Files &files, const Opened &folder);

// Removes lock files older than a day that nobody holds.
void evict_locks(Files &files, const Opened &folder);

}  // namespace msj::store
