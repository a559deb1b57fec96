// Autotune entries on disk: v1/<environment>/autotune/<op>/<key>.json, one file each, as text. What a valid entry says
// is tune/entry.h's business; this is reading, trust and publishing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "store/cache_root.h"
#include "store/check.h"

namespace msj::store {

struct EntryFile {
  std::string environment;
  std::string op;
  std::string key;  // file name without ".json"
  std::string text;
  std::string path;  // for messages
};

// Thread-safe.
class EntryStore {
 public:
  EntryStore(CacheRoot &root, Log &log) : root_(root), log_(log) {}
  // From the first layer that has a trusted file of that name that passes `check` (none: any text does). What fails it
  // is a miss with one warning, what it passes over one without; neither hides an entry of a lower layer.
  [[nodiscard]] std::optional<EntryFile> load(const std::string &environment, const std::string &op,
                                              const std::string &key, const Check &check = {});
  // Publishes into the writable layer, over whatever is there; failing is one warning.
  void save(const EntryFile &file);
  // All layers, in order of path; an upper layer's file hides a lower one, as in `load`. What fails the check is left
  // out with one warning; what it passes over is in the list where no layer has another of that path.
  [[nodiscard]] std::vector<EntryFile> list(const PlacedCheck &check = {});

 private:
  CacheRoot &root_;
  Log &log_;
};

}  // namespace msj::store
