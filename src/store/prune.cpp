#include "store/prune.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "store/evict.h"
#include "store/kind.h"
#include "store/lock.h"
#include "store/path.h"
#include "store/publish.h"
#include "store/walk.h"

namespace msj::store {

namespace {

class Pruner {
 public:
  Pruner(Files &files, const Opened &folder, const Pruning &pruning)
      : files_(files), folder_(folder), pruning_(pruning) {}

  Pruned run() {
    const auto refused = [this](const Opened &what) { leave(what.path, what.problem); };
    walk(files_, folder_, std::string(kFormat),
         {.file = [this](const Visit &visit) { judge(visit); },
          .left = [this](const Visit &visit) { remove_if_empty(visit); },
          .refused = refused});
    evict(refused);
    pruned_.bytes_after = pruned_.bytes_before - freed_;
    return std::move(pruned_);
  }

 private:
  // A directory that is not trusted is met by the walk, and again by the eviction.
  void leave(const std::string &path, const std::string &problem) {
    const auto is_same = [&](const Pruned::File &other) { return other.path == path; };
    if (std::ranges::none_of(pruned_.left, is_same)) pruned_.left.push_back({path, problem});
  }

  void judge(const Visit &visit) {
    if (S_ISREG(visit.status.st_mode)) pruned_.bytes_before += visit.status.st_size;
    if (is_temporary(visit.name)) {
      if (is_leftover(visit)) remove(visit, std::string(kLeftover));
      return;
    }
    const Opened file = open_file(files_, visit.folder, visit.name, O_RDONLY);
    if (file.absent()) return;  // gone meanwhile
    if (!file) return file.error == 0 ? remove(visit, file.problem) : leave(file.path, file.problem);
    if (is_lock(visit.relative)) return remove_lock(visit);
    std::string bytes;
    if (std::string problem = read_all(files_, file, bytes); !problem.empty()) {
      const bool is_too_large = file.status.st_size > kMaxFileBytes;
      return is_too_large ? remove(visit, problem) : leave(file.path, problem);
    }
    const std::string reason = pruning_.reason(visit.relative, bytes).problem;
    if (!reason.empty()) remove(visit, reason);
  }

  // Whatever lies at a name of ours; others are for their owner to remove. Only what was judged: while it was, another
  // process may have published a sound file over it.
  void remove(const Visit &visit, const std::string &reason) {
    if (!is_ours(visit.relative)) return leave(visit.path(), reason);
    if (!still_there(files_, visit.folder, visit.name, visit.status)) return;
    const int error = files_.remove(visit.folder.handle.get(), visit.name);
    if (error == 0) return removed(visit, reason);
    if (error != -ENOENT) leave(visit.path(), "can't be removed: " + error_text(error));
  }

  // One that is held, or can't be asked whether it is, stays and is nobody's fault.
  void remove_lock(const Visit &visit) {
    if (remove_idle_lock(files_, visit.folder, visit.name)) removed(visit, "is a lock that nobody holds");
  }

  void removed(const Visit &visit, const std::string &reason) {
    if (S_ISREG(visit.status.st_mode)) freed_ += visit.status.st_size;
    pruned_.removed.push_back({visit.path(), reason, visit.relative});
  }

  void remove_if_empty(const Visit &visit) {
    const bool is_in_the_way = has_our_ending(visit.name) || is_lock(visit.relative);
    const bool is_gone = files_.remove_directory(visit.folder.handle.get(), visit.name) == 0;
    if (!is_in_the_way) return;
    const std::string problem = "is a directory, not a file";
    is_gone ? removed(visit, problem) : leave(visit.path(), problem);
  }

  void evict(const std::function<void(const Opened &)> &refused) {
    const Opened cubins = open_directory(files_, folder_, std::string(name_of(kCubins)), Missing::leave);
    if (!cubins) return;  // none there; what else is wrong with it, the walk has told
    const auto evicted = [&](const std::string &relative, std::int64_t bytes) {
      constexpr std::int64_t kMegabyte = std::int64_t{1} << 20;
      const std::string path = join(folder_.path, std::string_view(relative).substr(kFormat.size() + 1));
      pruned_.removed.push_back({path,
                                 fmt::format("was used longest ago of the cubins above the size cap of {} MiB "
                                             "(MAXSIM_JIT_CACHE_LIMIT_MB)",
                                             pruning_.limit_bytes / kMegabyte),
                                 relative});
      freed_ += bytes;
    };
    (void)evict_files(files_, cubins, std::string(kCubins),
                      {pruning_.limit_bytes, pruning_.limit_bytes, {}, refused, evicted});
  }

  Files &files_;
  const Opened &folder_;
  const Pruning &pruning_;
  Pruned pruned_;
  std::int64_t freed_ = 0;
};

}  // namespace

Pruned prune_files(Files &files, const Opened &folder, const Pruning &pruning) {
  return Pruner(files, folder, pruning).run();
}

}  // namespace msj::store
