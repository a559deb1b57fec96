// The cache's directories: a writable layer and read-only layers below it, with the trust rules of each file.
//
// A cubin is code, so files and directories from the root down must belong to this user or to root, must not be
// writable by group or others, and must be no symlinks. Directories above the root may be symlinks where others cannot
// write them (sticky /tmp allowed). docs/cache-files.md is the page on all of it.
//
// Nothing here throws for what the disk does: a file that can't be read is a miss, one that can't be kept is lost, and
// each file, directory or root that is to blame is named in one warning per context. All functions are thread-safe and
// keep nothing open between calls, so a cache that is removed and made anew in between does no harm.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/settings.h"
#include "store/check.h"
#include "store/files.h"
#include "store/kind.h"
#include "store/lock.h"
#include "store/prune.h"
#include "store/publish.h"
#include "store/trust.h"

namespace msj::store {

class CacheRoot {
 public:
  // Nothing is created or checked yet.
  CacheRoot(const Settings &settings, std::shared_ptr<Files> files, Log &log);

  // The writable layer's root, created 0700 where it is missing; "" if it can't be used: no HOME, read-only, untrusted
  // (with one warning per context), or none wanted. The library then goes on in memory.
  [[nodiscard]] const std::string &writable();

  struct Reading {
    Check check = {};             // what fails it is a miss with one warning, and the next layer is asked
    bool or_passed_over = false;  // what the check passes over will do where no layer has better
    bool is_use = false;          // refreshes the file's time, for eviction, where it is in the writable layer
    bool only_writable = false;   // the read-only layers are not asked
  };
  // A file at `relative` (below the root, e.g. "v1/cubins/ab/….cubin") from the first layer in which it exists, is
  // trusted and passes the check. `path` receives where it was found.
  [[nodiscard]] std::optional<std::string> read(const std::string &relative, std::string *path = nullptr) {
    return read(relative, path, Reading());
  }
  [[nodiscard]] std::optional<std::string> read(const std::string &relative, std::string *path, const Reading &reading);

  // Publishes by unique temporary + fsync + rename (+ fsync of the directory), making directories 0700. False with one
  // warning if it could not (none where no writable layer is wanted), and the reason in `why`; the temporary is gone
  // then.
  bool publish(const std::string &relative, std::string_view bytes, std::string *why = nullptr);

  struct Kept {
    std::int64_t files = 0;   // published, and still there
    std::int64_t failed = 0;  // that could not be published, or were published or used and are gone again
    std::string problem;      // the first failure's: where, and why; else what is known of those that are gone
    bool logged = false;      // whether the log has had a warning of what could not be published
  };
  [[nodiscard]] Kept kept();  // by this object so far; looks at the disk

  bool remove(const std::string &relative);  // from the writable layer; whether it was there and is gone

  // Relative paths of the regular files below `relative_dir` in all layers, sorted, unique, without temporaries.
  // `unread` receives the first layer or directory, and why, that could not be looked into; else it is left alone.
  [[nodiscard]] std::vector<std::string> list(const std::string &relative_dir, std::string *unread = nullptr);

  struct Found {
    std::string path;
    std::string problem;   // "" for a file that is right
    bool is_root = false;  // no file: a layer's root, none of whose files can be used
  };
  // Every file of every layer: trust first, then `check` on its relative path and bytes. Temporaries
  // appear only as leftovers of an hour or more; lock files and roots only if they are wrong. Nothing is made: a
  // writable root that is missing is wrong only if the first use could not make it.
  [[nodiscard]] std::vector<Found> verify(const PlacedCheck &check);
  struct Cleared {
    std::vector<std::string> removed;
    std::vector<Found> left;  // what could not be removed, or is not ours
  };
  // Removes everything of ours below the writable layer's root (v1/), nothing else. A lock that is held stays, and so
  // does a temporary of the last hour, which somebody is writing; what is made again meanwhile is nobody's fault.
  Cleared clear();
  // Removes from the writable layer's v1/ what `reason` gives a reason for, or what can't be trusted, then cubins down
  // to the cap: see store/prune.h.
  [[nodiscard]] Pruned prune(const PlacedCheck &reason);
  // If the cubins below `relative_dir` take more than `limit_bytes`, removes the least recently used, but never `keep`,
  // until they take 7/8 of it; also temporaries older than an hour and idle locks older than a day. Returns the bytes
  // that remain.
  std::int64_t evict(const std::string &relative_dir, std::int64_t limit_bytes, const std::string &keep = {});
  [[nodiscard]] std::int64_t limit_bytes() const { return limit_bytes_; }

  // An exclusive lock named `name` across threads, contexts and processes (v1/locks/<name>). Null after `timeout`, or
  // where there is no writable layer: the caller goes on alone.
  class Lock {
   public:
    virtual ~Lock() = default;
  };
  [[nodiscard]] std::unique_ptr<Lock> lock(const std::string &name, std::chrono::duration<double> timeout);

  struct ExaminedLayer {
    std::string path;
    std::string problem;  // "" for one that can be used
    bool writable;        // is meant to be
  };
  // Each layer's root, the writable one first, and why it can't be used. Nothing is logged. A writable root that is
  // missing is made, or with `ask` only asked for.
  [[nodiscard]] std::vector<ExaminedLayer> examine_layers(Missing missing = Missing::create);

  [[nodiscard]] std::vector<std::string> layers() const;  // all roots, the writable one first
  [[nodiscard]] Files &files() { return *files_; }        // the file system that it is on

 private:
  struct Layer {
    std::string path;
    bool writable;
  };

  [[nodiscard]] Opened open_folder(const Layer &layer, std::string_view relative, Missing missing);
  struct Read {
    std::string bytes;
    bool is_passed_over = false;
  };
  [[nodiscard]] std::optional<Read> read_from(const Layer &layer, const std::string &relative, const Reading &reading);
  [[nodiscard]] const Layer *writable_layer();
  [[nodiscard]] std::string publish_problem(const std::string &relative, std::string_view bytes);
  using Place = std::pair<dev_t, ino_t>;  // of a directory, by whatever path it was reached
  void verify_layer(const Layer &layer, std::vector<Found> &found, std::set<Place> &seen, const PlacedCheck &check);
  void not_used(const Opened &refused);
  void not_locked(const LockResult &failed);
  void not_kept(const Layer &layer, const std::string &path, const std::string &problem);
  void not_kept(const Layer &layer, const Opened &refused);
  void not_kept(const Layer &layer, const std::string &path, const Published &failed);

  std::vector<Layer> layers_;
  std::string writable_problem_;
  std::string home_;
  std::shared_ptr<Files> files_;
  Log &log_;
  std::int64_t limit_bytes_;
  bool warns_;  // whether the log takes warnings
  const std::string none_;
  struct Known {
    std::int64_t bytes = 0;
    bool published = false;  // else only used
  };
  void know(const std::string &relative, std::size_t bytes, bool published);
  void forget(const std::string &relative);
  struct Gone {
    std::int64_t files = 0;
    std::int64_t bytes = 0;        // of the cubins among them
    std::int64_t known_bytes = 0;  // of all cubins that are known, gone or not
    std::string not_seen;          // why the first of them can't be looked for; "": it isn't there
  };
  [[nodiscard]] std::string gone_problem(const Gone &gone);
  [[nodiscard]] std::string looking_problem(const std::string &relative);

  std::mutex kept_mutex_;  // guards what follows
  std::int64_t failed_ = 0;
  std::string first_problem_;
  std::map<std::string, Known> known_;  // files of the writable layer that this object published or used
};

}  // namespace msj::store
