#include "store/cache_root.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "base/hash.h"
#include "store/evict.h"
#include "store/kind.h"
#include "store/path.h"
#include "store/prune.h"
#include "store/walk.h"

namespace msj::store {

namespace {

// Where a directory vanishes under our hands: another process clears the cache, perhaps again and again.
constexpr int kAttempts = 10;

class HeldLock final : public CacheRoot::Lock {
 public:
  explicit HeldLock(std::unique_ptr<FileLock> lock) : lock_(std::move(lock)) {}

 private:
  std::unique_ptr<FileLock> lock_;
};

// Names of locks come from keys and GPUs; what can't be a file name becomes one.
std::string lock_file_name(const std::string &name) {
  const auto plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.'; };
  const bool fits = !name.empty() && name.size() <= 128 && name.front() != '.' && std::ranges::all_of(name, plain);
  return fits ? name : hash_name(name);
}

// What someone else baked must be readable by those who are to use it.
Opened advised(bool is_own, Opened opened) {
  if (!is_own && opened.error == EACCES) opened.problem += " (its owner shares the cache by chmod -R go+rX)";
  return opened;
}

}  // namespace

CacheRoot::CacheRoot(const Settings &settings, std::shared_ptr<Files> files, Log &log)
    : writable_problem_(settings.cache_dir_problem),
      home_(settings.home),
      files_(std::move(files)),
      log_(log),
      limit_bytes_(settings.cache_limit_bytes),
      warns_(settings.log_level != "off" && settings.log_level != "error") {
  if (!settings.cache_dir.empty()) layers_.push_back({settings.cache_dir, true});
  for (const std::string &directory : settings.read_only_dirs) layers_.push_back({directory, false});
}

// ---- warnings: one per culprit -------------------------------------------------------------------------------------

void CacheRoot::not_used(const Opened &refused) {
  if (refused.absent()) return;
  log_.warn_once("cache " + refused.path, fmt::format("cache: {} {}; it is not used", refused.path, refused.problem));
}

// Of what lies at a lock's name, or a file system without locks: files are read and kept all the same.
void CacheRoot::not_locked(const LockResult &failed) {
  log_.warn_once("cache " + failed.path,
                 fmt::format("cache: {} {}; going on without a lock", failed.path, failed.problem));
}

// Keyed by the root: a full disk is told once, not at each file.
void CacheRoot::not_kept(const Layer &layer, const std::string &path, const std::string &problem) {
  log_.warn_once("cache " + layer.path,
                 fmt::format("cache: {} {}; going on in memory where it can't be kept", path, problem));
}

// A thing that is wrong in itself is told once, whether reading or writing met it first.
void CacheRoot::not_kept(const Layer &layer, const Opened &refused) {
  if (!refused.absent() && refused.error == 0) return not_used(refused);
  not_kept(layer, refused.path, refused.absent() ? "can't be made" : refused.problem);
}

// A directory at a file's name is to blame itself, as on reading.
void CacheRoot::not_kept(const Layer &layer, const std::string &path, const Published &failed) {
  if (failed.error != EISDIR) return not_kept(layer, path, failed.problem);
  Opened in_the_way;
  in_the_way.path = path;
  in_the_way.problem = "is a directory, not a file";
  not_used(in_the_way);
}

// ---- layers --------------------------------------------------------------------------------------------------------

std::vector<std::string> CacheRoot::layers() const {
  std::vector<std::string> paths;
  for (const Layer &layer : layers_) paths.push_back(layer.path);
  return paths;
}

Opened CacheRoot::open_folder(const Layer &layer, std::string_view relative, Missing missing) {
  Opened root = open_root(*files_, layer.path, missing, home_);
  if (root.absent() && !layer.writable) {
    root.path = layer.path;
    root.problem = "does not exist";
  }
  // Above the root, any part may be to blame; the warning is the root's.
  if (!root && !root.problem.empty() && root.path != layer.path) {
    root.problem = fmt::format("can't be reached: {} {}", root.path, root.problem);
    root.path = layer.path;
  }
  return advised(layer.writable, open_below(*files_, std::move(root), relative, missing));
}

const CacheRoot::Layer *CacheRoot::writable_layer() {
  if (!layers_.empty() && layers_.front().writable) return &layers_.front();
  if (!writable_problem_.empty()) log_.warn_once("cache", writable_problem_ + "; going on in memory");
  return nullptr;
}

const std::string &CacheRoot::writable() {
  const Layer *layer = writable_layer();
  if (layer == nullptr) return none_;
  const Opened root = open_folder(*layer, {}, Missing::create);
  if (!root) {
    not_kept(*layer, root);
    return none_;
  }
  const int denied = files_->may_write(root.handle.get());
  if (denied < 0) {
    not_kept(*layer, root.path, "can't be written: " + error_text(denied));
    return none_;
  }
  return layer->path;
}

std::vector<CacheRoot::ExaminedLayer> CacheRoot::examine_layers(Missing missing) {
  std::vector<ExaminedLayer> found;
  if (!writable_problem_.empty()) found.push_back({"", writable_problem_, true});
  for (const Layer &layer : layers_) {
    const Opened root = open_folder(layer, {}, layer.writable ? missing : Missing::leave);
    std::string problem;
    if (root.absent() && layer.writable && missing == Missing::ask) {
      problem = "";  // it can be made
    } else if (!root) {
      problem = fmt::format("{} {}", root.path, root.problem.empty() ? "can't be made" : root.problem);
    } else if (const int denied = layer.writable ? files_->may_write(root.handle.get()) : 0; denied < 0) {
      problem = fmt::format("{} can't be written: {}", root.path, error_text(denied));
    }
    found.push_back({layer.path, problem, layer.writable});
  }
  return found;
}

// ---- reading -------------------------------------------------------------------------------------------------------

std::optional<CacheRoot::Read> CacheRoot::read_from(const Layer &layer, const std::string &relative,
                                                    const Reading &reading) {
  const Opened folder = open_folder(layer, parent_of(relative), Missing::leave);
  if (!folder) {
    not_used(folder);
    return std::nullopt;
  }
  Opened file = advised(layer.writable, open_file(*files_, folder, std::string(name_of(relative)), O_RDONLY));
  Read read;
  if (file) file.problem = read_all(*files_, file, read.bytes);
  if (file && file.problem.empty() && reading.check) {
    Verdict verdict = reading.check(read.bytes);
    file.problem = std::move(verdict.problem);
    read.is_passed_over = verdict.is_passed_over;
  }
  if (!file || !file.problem.empty()) {
    if (!file.problem.empty()) not_used(file);
    return std::nullopt;
  }
  if (read.is_passed_over) return read;
  // Where the time can't be set, the file only seems older than it is.
  if (reading.is_use && layer.writable) {
    (void)files_->touch(file.handle.get());
    know(relative, read.bytes.size(), false);
  }
  return read;
}

std::optional<std::string> CacheRoot::read(const std::string &relative, std::string *path, const Reading &reading) {
  if (!stays_below(relative)) return std::nullopt;
  std::optional<std::string> bytes;
  for (const Layer &layer : layers_) {
    if (reading.only_writable && !layer.writable) break;
    std::optional<Read> read = read_from(layer, relative, reading);
    if (!read || (read->is_passed_over && (bytes || !reading.or_passed_over))) continue;
    bytes = std::move(read->bytes);
    if (path != nullptr) *path = join(layer.path, relative);
    if (!read->is_passed_over) break;
  }
  return bytes;
}

std::vector<std::string> CacheRoot::list(const std::string &relative_dir, std::string *unread) {
  std::set<std::string> found;
  const auto on_file = [&](const Visit &visit) {
    if (!S_ISREG(visit.status.st_mode)) return not_used(open_file(*files_, visit.folder, visit.name, O_RDONLY));
    if (!is_temporary(visit.name)) found.insert(visit.relative);
  };
  const Visitor visitor = {.file = on_file, .refused = [&](const Opened &refused) {
                             not_used(refused);
                             if (unread != nullptr && unread->empty())
                               *unread = fmt::format("{} {}", refused.path, refused.problem);
                           }};
  for (const Layer &layer : layers_) {
    const Opened folder = open_folder(layer, relative_dir, Missing::leave);
    if (folder) {
      walk(*files_, folder, relative_dir, visitor);
    } else if (!folder.absent()) {
      visitor.refused(folder);
    }
  }
  return {found.begin(), found.end()};
}

// ---- writing -------------------------------------------------------------------------------------------------------

bool CacheRoot::publish(const std::string &relative, std::string_view bytes, std::string *why) {
  std::string problem = publish_problem(relative, bytes);
  if (why != nullptr) *why = problem;
  if (problem.empty()) {
    know(relative, bytes.size(), true);
    return true;
  }
  const std::scoped_lock lock(kept_mutex_);
  if (failed_++ == 0) first_problem_ = std::move(problem);
  return false;
}

void CacheRoot::know(const std::string &relative, std::size_t bytes, bool published) {
  const std::scoped_lock lock(kept_mutex_);
  Known &known = known_[relative];
  known = {static_cast<std::int64_t>(bytes), known.published || published};
}

void CacheRoot::forget(const std::string &relative) {
  const std::scoped_lock lock(kept_mutex_);
  known_.erase(relative);
}

// The disk is asked, since any process evicts: a file counts as kept only if the next process will find it.
CacheRoot::Kept CacheRoot::kept() {
  std::unique_lock lock(kept_mutex_);
  const bool is_wanted = !writable_problem_.empty() || (!layers_.empty() && layers_.front().writable);
  Kept kept = {0, failed_, first_problem_, failed_ > 0 && is_wanted && warns_};
  const std::map<std::string, Known> known = known_;  // before the disk: what is published meanwhile is not missed
  lock.unlock();
  if (known.empty()) return kept;
  const std::vector<std::string> there = list(std::string(kFormat));  // sorted
  Gone gone;
  for (const auto &[relative, file] : known) {
    const bool is_there = std::ranges::binary_search(there, relative);
    kept.files += is_there && file.published ? 1 : 0;
    const std::int64_t counted = relative.ends_with(kCubinEnding) ? file.bytes : 0;
    gone.known_bytes += counted;
    if (is_there) continue;
    gone.bytes += counted;
    if (gone.files++ == 0) gone.not_seen = looking_problem(relative);
  }
  kept.failed += gone.files;
  if (gone.files > 0 && kept.problem.empty()) kept.problem = gone_problem(gone);
  return kept;
}

// Why a file of the writable layer can't be looked for; "" if it can, there or not.
std::string CacheRoot::looking_problem(const std::string &relative) {
  const Layer *layer = writable_layer();
  if (layer == nullptr) return {};
  const Opened folder = open_folder(*layer, parent_of(relative), Missing::leave);
  if (!folder) return folder.absent() ? std::string() : fmt::format("{} {}", folder.path, folder.problem);
  struct stat status {};
  const int error = files_->status_at(folder.handle.get(), std::string(name_of(relative)), status);
  if (error == -ENOENT) return {};
  if (error < 0)
    return fmt::format("{} can't be examined: {}", join(folder.path, name_of(relative)), error_text(error));
  return fmt::format("{} can't be listed, or holds it as something that is no file", folder.path);
}

// Eviction goes down to 7/8 of the cap, and no further than it must. So the cap is not to blame where what lies there
// now and what is gone would fit in that; where all that this object knows does not, no other process is.
std::string CacheRoot::gone_problem(const Gone &gone) {
  constexpr std::int64_t kMegabyte = std::int64_t{1} << 20;
  if (!gone.not_seen.empty()) return fmt::format("{} can't be found: {}", gone.files, gone.not_seen);
  const std::int64_t needed = gone.known_bytes * 8 / 7;
  const Opened folder = open_folder(layers_.front(), kCubins, Missing::leave);
  const std::int64_t there = folder ? counted_bytes(*files_, folder) : 0;
  if ((there + gone.bytes) * 8 / 7 <= limit_bytes_) {
    return fmt::format("{} are no longer in {}: another process removed them", gone.files, layers_.front().path);
  }
  const std::string cap = fmt::format("the cache's size cap removed {} again: MAXSIM_JIT_CACHE_LIMIT_MB is {}",
                                      gone.files, limit_bytes_ / kMegabyte);
  if (needed <= limit_bytes_) return cap + ", and most of it is taken by other files";
  return fmt::format("{}, and all of them need {}", cap, (needed + kMegabyte - 1) / kMegabyte);
}

std::string CacheRoot::publish_problem(const std::string &relative, std::string_view bytes) {
  const Layer *layer = writable_layer();
  if (layer == nullptr) return writable_problem_.empty() ? "no writable directory is set" : writable_problem_;
  const std::string path = join(layer->path, relative);
  if (!stays_below(relative)) {
    not_kept(*layer, path, "is no name for a cache file");
    return path + " is no name for a cache file";
  }
  for (int attempt = 1;; ++attempt) {
    const Opened folder = open_folder(*layer, parent_of(relative), Missing::create);
    const Published result = folder ? publish_file(*files_, folder, std::string(name_of(relative)), bytes)
                                    : Published{false, {}, folder.error};
    if (result.error == ENOENT && attempt < kAttempts) continue;
    if (!folder) {
      not_kept(*layer, folder);
      return fmt::format("{} {}", folder.path, folder.absent() ? "can't be made" : folder.problem);
    }
    if (!result.problem.empty()) not_kept(*layer, path, result);
    return result.done ? std::string() : fmt::format("{} {}", path, result.problem);
  }
}

bool CacheRoot::remove(const std::string &relative) {
  const Layer *layer = writable_layer();
  if (layer == nullptr || !stays_below(relative)) return false;
  const Opened folder = open_folder(*layer, parent_of(relative), Missing::leave);
  if (!folder) {
    not_used(folder);
    return false;
  }
  const int removed = files_->remove(folder.handle.get(), std::string(name_of(relative)));
  forget(relative);  // not wanted any more, so not missed
  if (removed < 0 && removed != -ENOENT) {
    not_kept(*layer, join(folder.path, name_of(relative)), "can't be removed: " + error_text(removed));
  }
  return removed == 0;
}

std::int64_t CacheRoot::evict(const std::string &relative_dir, std::int64_t limit_bytes, const std::string &keep) {
  const Layer *layer = writable_layer();
  if (layer == nullptr) return 0;
  const Opened locks = open_folder(*layer, kLocks, Missing::leave);
  if (locks) evict_locks(*files_, locks);
  const Opened folder = open_folder(*layer, relative_dir, Missing::leave);
  if (!folder) {
    not_used(folder);
    return 0;
  }
  const auto refused = [&](const Opened &what) { not_kept(*layer, what); };
  return evict_files(*files_, folder, relative_dir, {limit_bytes, target_below(limit_bytes), keep, refused});
}

std::unique_ptr<CacheRoot::Lock> CacheRoot::lock(const std::string &name, std::chrono::duration<double> timeout) {
  const Layer *layer = writable_layer();
  if (layer == nullptr) return nullptr;
  for (int attempt = 1;; ++attempt) {
    const Opened folder = open_folder(*layer, kLocks, Missing::create);
    LockResult result;
    if (folder) result = lock_file(files_, folder, lock_file_name(name), timeout);
    const bool again = folder.error == ENOENT || result.folder_gone;
    if (again && attempt < kAttempts) continue;
    if (!folder) not_kept(*layer, folder);
    if (!result.problem.empty()) {
      result.is_kept_out ? not_kept(*layer, result.path, result.problem) : not_locked(result);
    }
    return result.lock ? std::make_unique<HeldLock>(std::move(result.lock)) : nullptr;
  }
}

// ---- the whole cache -----------------------------------------------------------------------------------------------

void CacheRoot::verify_layer(const Layer &layer, std::vector<Found> &found, std::set<Place> &seen,
                             const PlacedCheck &check) {
  const auto refused = [&](const Opened &what) { found.push_back({what.path, what.problem}); };
  const auto on_file = [&](const Visit &visit) {
    if (is_temporary(visit.name)) {
      if (is_leftover(visit)) found.push_back({visit.path(), std::string(kLeftover)});
      return;
    }
    Opened file = open_file(*files_, visit.folder, visit.name, O_RDONLY);
    if (file.absent()) return;  // gone meanwhile
    std::string bytes;
    if (file) file.problem = read_all(*files_, file, bytes);
    if (file.problem.empty() && is_lock(visit.relative)) return;
    if (file.problem.empty()) file.problem = check(visit.relative, bytes).problem;
    found.push_back({file.path, file.problem});
  };
  const auto left = [&](const Visit &visit) {
    if (has_our_ending(visit.name) || is_lock(visit.relative))
      found.push_back({visit.path(), "is a directory, not a file"});
  };
  Opened root = open_folder(layer, {}, layer.writable ? Missing::ask : Missing::leave);
  if (!root) {
    const auto is_same = [&](const Found &other) { return other.is_root && other.path == root.path; };
    if (!root.absent() && std::ranges::none_of(found, is_same)) found.push_back({root.path, root.problem, true});
    return;
  }
  if (!seen.emplace(root.status.st_dev, root.status.st_ino).second) return;  // a layer listed twice
  const Opened folder = advised(layer.writable, open_below(*files_, std::move(root), kFormat, Missing::leave));
  if (folder) {
    walk(*files_, folder, std::string(kFormat), {.file = on_file, .left = left, .refused = refused});
  } else if (!folder.absent()) {
    refused(folder);
  }
}

std::vector<CacheRoot::Found> CacheRoot::verify(const PlacedCheck &check) {
  std::vector<Found> found;
  std::set<Place> seen;
  for (const Layer &layer : layers_) verify_layer(layer, found, seen, check);
  return found;
}

CacheRoot::Cleared CacheRoot::clear() {
  Cleared cleared;
  const Layer *layer = writable_layer();
  if (layer == nullptr) return cleared;
  const Opened root = open_folder(*layer, {}, Missing::leave);
  const Opened folder = root ? open_directory(*files_, root, std::string(kFormat), Missing::leave) : Opened();
  if (!folder) {
    const Opened &to_blame = root ? folder : root;
    if (!to_blame.absent()) cleared.left.push_back({to_blame.path, to_blame.problem});
    not_used(to_blame);
    return cleared;
  }
  const auto leave = [&](const Visit &visit, std::string_view problem) {
    cleared.left.push_back({visit.path(), std::string(problem)});
  };
  const auto refused = [&](const Opened &what) {
    cleared.left.push_back({what.path, what.problem});
    not_kept(*layer, what);
  };
  const auto on_file = [&](const Visit &visit) {
    if (!is_ours(visit.relative)) return leave(visit, kNoSuchName);
    if (is_temporary(visit.name) && !is_leftover(visit)) return;
    if (is_lock(visit.relative)) {
      if (remove_idle_lock(*files_, visit.folder, visit.name)) cleared.removed.push_back(visit.path());
      return;
    }
    const int error = files_->remove(visit.folder.handle.get(), visit.name);
    forget(visit.relative);
    if (error == 0) cleared.removed.push_back(visit.path());
    if (error == 0 || error == -ENOENT) return;
    const std::string problem = "can't be removed: " + error_text(error);
    leave(visit, problem);
    not_kept(*layer, visit.path(), problem);
  };
  // A directory in which something is left stays, and that is right.
  const auto left = [&](const Visit &visit) {
    const int error = files_->remove_directory(visit.folder.handle.get(), visit.name);
    if (error < 0 && has_our_ending(visit.name)) leave(visit, "is a directory, not a file");
  };
  walk(*files_, folder, std::string(kFormat), {.file = on_file, .left = left, .refused = refused});
  (void)files_->remove_directory(root.handle.get(), std::string(kFormat));
  return cleared;
}

Pruned CacheRoot::prune(const PlacedCheck &reason) {
  const Layer *layer = writable_layer();
  if (layer == nullptr) return {};
  Opened folder = open_folder(*layer, kFormat, Missing::leave);
  if (folder.absent()) return {};
  if (!folder) {
    Pruned nothing;
    nothing.left.push_back({folder.path, folder.problem});
    return nothing;
  }
  Pruned pruned = prune_files(*files_, folder, {reason, limit_bytes_});
  const std::scoped_lock lock(kept_mutex_);
  for (const Pruned::File &file : pruned.removed) known_.erase(file.relative);  // not wanted any more, so not missed
  return pruned;
}

}  // namespace msj::store
