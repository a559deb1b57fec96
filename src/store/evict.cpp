#include "store/evict.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <tuple>
#include <vector>

#include "store/kind.h"
#include "store/lock.h"
#include "store/path.h"
#include "store/publish.h"

namespace msj::store {

namespace {

constexpr std::time_t kTemporarySeconds = 3'600;  // an hour
constexpr std::time_t kLockSeconds = 86'400;      // a day

struct Kept {
  std::int64_t seconds;
  std::int64_t nanoseconds;
  std::string relative;
  std::int64_t bytes;
};

// Clocks of machines that share a file system differ by seconds.
constexpr std::time_t kSkewSeconds = 60;

// A time as far in the future says nothing, and would hold for ever: it counts as long past.
bool older_than(const struct stat &status, std::time_t seconds) {
  return std::abs(status.st_mtim.tv_sec - std::time(nullptr)) > seconds;
}

// When it was last used; a time that is yet to come: before all others.
struct timespec last_use(const struct stat &status) {
  return status.st_mtim.tv_sec > std::time(nullptr) + kSkewSeconds ? timespec{0, 0} : status.st_mtim;
}

// The others are not ours: neither counted nor removed.
bool counts(const Visit &visit) { return is_temporary(visit.name) || visit.name.ends_with(kCubinEnding); }

bool is_gone(int removed) { return removed == 0 || removed == -ENOENT; }

std::vector<Kept> files_below(Files &files, const Opened &folder, const std::string &relative,
                              const Eviction &eviction) {
  std::vector<Kept> kept;
  const auto on_file = [&](const Visit &visit) {
    if (is_leftover(visit) && is_gone(files.remove(visit.folder.handle.get(), visit.name))) return;
    const struct timespec used = last_use(visit.status);
    if (!counts(visit)) return;
    kept.push_back({used.tv_sec, used.tv_nsec, visit.relative, visit.status.st_size});
  };
  walk(files, folder, relative, {.file = on_file, .refused = eviction.refused});
  return kept;
}

// Removes a file at `below`, a path relative to `folder`.
bool remove_below(Files &files, const Opened &folder, std::string_view below, const Eviction &eviction) {
  Opened at = open_directory(files, folder, ".", Missing::leave);
  at = open_below(files, std::move(at), parent_of(below), Missing::leave);
  if (at.absent()) return true;
  if (at) {
    const int removed = files.remove(at.handle.get(), std::string(name_of(below)));
    if (is_gone(removed)) return true;
    at.handle = Handle();
    at.problem = "does not let a file be removed: " + error_text(removed);
    at.error = -removed;
  }
  eviction.refused(at);
  return false;
}

}  // namespace

bool is_leftover(const Visit &visit) { return is_temporary(visit.name) && older_than(visit.status, kTemporarySeconds); }

std::int64_t evict_files(Files &files, const Opened &folder, const std::string &relative, const Eviction &eviction) {
  std::vector<Kept> kept = files_below(files, folder, relative, eviction);
  std::int64_t total = 0;
  for (const Kept &file : kept) total += file.bytes;
  if (total <= eviction.limit_bytes) return total;

  std::ranges::sort(kept, {}, [](const Kept &file) { return std::tie(file.seconds, file.nanoseconds, file.relative); });
  for (const Kept &file : kept) {
    if (total <= eviction.target_bytes) break;
    if (file.relative == eviction.keep || is_temporary(name_of(file.relative))) continue;
    const std::string_view below = std::string_view(file.relative).substr(relative.empty() ? 0 : relative.size() + 1);
    if (!remove_below(files, folder, below, eviction)) continue;
    total -= file.bytes;
    if (eviction.evicted) eviction.evicted(file.relative, file.bytes);
  }
  return total;
}

std::int64_t counted_bytes(Files &files, const Opened &folder) {
  std::int64_t total = 0;
  const auto on_file = [&](const Visit &visit) { total += counts(visit) ? visit.status.st_size : 0; };
  walk(files, folder, {}, {.file = on_file, .refused = [](const Opened &) {}});
  return total;
}

void evict_locks(Files &files, const Opened &folder) {
  const auto on_file = [&](const Visit &visit) {
    if (older_than(visit.status, kLockSeconds)) (void)remove_idle_lock(files, visit.folder, visit.name);
  };
  walk(files, folder, {}, {.file = on_file, .refused = [](const Opened &) {}});
}

}  // namespace msj::store
