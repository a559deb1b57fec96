// The cache's entries and cubins as one tar archive, to carry to another machine or into an image, and back.
//
// Throws Error(MSJ_ERROR_IO), one sentence that names the archive, where it can't be written, or is none. What is wrong
// with a single file of it is told, and the others are imported.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "store/cache_root.h"

namespace msj::store {

struct Exporting {
  PlacedCheck
      check;  // what fails it is left out with one warning, and a lower layer is asked, as for what it passes over
  std::function<bool(const std::string &relative, std::string_view bytes)> is_wanted;
  std::string wanted = {};  // what is wanted of all, in words; where there is none of it, nothing is written
};

struct Exported {
  std::int64_t entries = 0;
  std::int64_t cubins = 0;
  std::int64_t bytes = 0;  // of both
};

// Of each relative path the first valid file of all layers, as a lookup finds it (what the check passes over where
// there is no other), in order of path; "v1/…" in the archive. The same files give the same bytes. The archive appears
// whole at `file` or not at all, over what was there.
[[nodiscard]] Exported export_archive(CacheRoot &root, const std::string &file, const Exporting &exporting);

struct Importing {
  PlacedCheck check;     // what fails it is refused
  PlacedCheck obsolete;  // its problem is why no lookup takes a file that passes the check; "": one may
};

struct Imported {
  struct Refused {
    std::string path;  // as in the archive; shortened if no file could have it
    std::string problem;
  };
  std::int64_t entries = 0;
  std::int64_t cubins = 0;
  std::int64_t bytes = 0;      // of both
  std::int64_t identical = 0;  // were there already, with the same bytes
  std::int64_t kept = 0;       // the writable layer's own, which are valid: they were not replaced
  std::vector<Refused> refused;
};

// Publishes the valid members in the writable layer, but over no valid file, unless that one is obsolete and the new
// one is not. The whole archive is checked to be one first; where it is none any more on the second reading, the Error
// says how many files were taken before. Directories and lock files in it are passed over; whatever else is no valid
// entry or cubin at its place is refused. A file that can't be kept ends it with an Error.
[[nodiscard]] Imported import_archive(CacheRoot &root, const std::string &file, const Importing &importing);

}  // namespace msj::store
