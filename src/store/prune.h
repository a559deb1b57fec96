// Ridding the writable layer of what no lookup takes, and of cubins above the cap.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "store/check.h"
#include "store/trust.h"

namespace msj::store {

// Why a temporary is listed or removed.
inline constexpr std::string_view kLeftover = "is a leftover: the temporary of an interrupted write";

struct Pruning {
  PlacedCheck reason;  // its problem is why a file that can be trusted and read is to go; "": it stays
  std::int64_t limit_bytes;
};

struct Pruned {
  struct File {
    std::string path;
    std::string reason;
    std::string relative = {};
  };
  std::vector<File> removed;
  std::vector<File> left;  // no lookup takes them, yet they are still there: why
  std::int64_t bytes_before = 0;
  std::int64_t bytes_after = 0;  // of all files below the folder
};

// `folder` is the open v1/ of a layer. Removes, of the names that are the cache's own: what can't be trusted, what
// there is a reason for, leftovers, and locks that nobody holds; then the cubins used longest ago, until they take no
// more than the limit. A file that can't be opened or read just now may be sound: it stays, and is told. Empty
// directories go too. No link is followed: it is removed itself. What another process has put in the place of a file
// since that was looked at stays, and is nobody's fault; one that it puts there at the very moment of the removal,
// which POSIX can't rule out, is a miss like any other: it is made again.
[[nodiscard]] Pruned prune_files(Files &files, const Opened &folder, const Pruning &pruning);

}  // namespace msj::store
