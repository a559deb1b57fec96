// Cubins on disk: v1/cubins/<aa>/<hash>.cubin = header (magic, version, lengths, hash, checksum) + key text +
// provenance + cubin. The name is the hash of what the cubin was made from; the key text (a JSON that says what that
// was) is for the caller to compare on reading, the provenance is for people. docs/cache-files.md describes the format.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "store/cache_root.h"
#include "store/cubin_format.h"

namespace msj::store {

// What is wrong with the texts of a sound cubin file, in one sentence; "" if nothing.
using CubinCheck = std::function<std::string(const CubinFile &)>;

// For `cache verify`: whether these bytes are a valid cubin file at the place where its hash belongs, and pass the
// check; "" if so.
[[nodiscard]] std::string cubin_problem(std::string_view relative, std::string_view bytes,
                                        const CubinCheck &check = {});

// Thread-safe.
class CubinStore {
 public:
  CubinStore(CacheRoot &root, Log &log) : root_(root), log_(log) {}

  // From the first layer that has it, can be trusted and, if `key` is not "", holds this key text. Anything else is a
  // miss with one warning. A hit refreshes the file's time (for eviction) where the layer can be written.
  [[nodiscard]] std::optional<CubinFile> load(const std::string &hash, std::string_view key = {});
  // Publishes into the writable layer, then evicts the least recently used above the size cap, never this one. Failing
  // is one warning.
  void save(const CubinFile &file);
  // Removes a cubin that would not load (from the writable layer).
  void remove(const std::string &hash);
  // Every valid cubin of every layer, in order of hash, without the cubin bytes: for inspect. What fails the check is
  // left out with one warning.
  [[nodiscard]] std::vector<CubinFile> list(const CubinCheck &check = {});

 private:
  [[nodiscard]] std::optional<CubinFile> read(const std::string &hash, const CubinCheck &check, bool is_use);
  void evict(const std::string &relative);

  CacheRoot &root_;
  Log &log_;
  std::atomic<std::int64_t> room_{0};  // bytes that may be saved before the directory is looked at again
  std::mutex evicting_;
};

}  // namespace msj::store
