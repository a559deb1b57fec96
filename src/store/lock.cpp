#include "store/lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "store/path.h"

namespace msj::store {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kFirstPause{1};
constexpr std::chrono::milliseconds kLongestPause{50};

enum class Attempt : std::uint8_t { locked, busy, removed, failed };

Attempt attempt_lock(Files &files, const Opened &folder, const std::string &name, const Opened &file, int &error) {
  error = files.lock(file.handle.get(), LOCK_EX | LOCK_NB);
  if (error == -EWOULDBLOCK) return Attempt::busy;
  if (error < 0) return Attempt::failed;
  return still_there(files, folder, name, file.status) ? Attempt::locked : Attempt::removed;
}

}  // namespace

FileLock::~FileLock() {
  // Said aloud, as a child made by fork may hold the same description open.
  (void)files_->lock(file_.get(), LOCK_UN);
}

LockResult lock_file(const std::shared_ptr<Files> &files, const Opened &folder, const std::string &name,
                     std::chrono::duration<double> timeout) {
  const Clock::time_point start = Clock::now();
  std::chrono::milliseconds pause = kFirstPause;
  Opened file;
  for (;;) {
    if (!file) file = open_file(*files, folder, name, O_RDWR | O_CREAT, 0600);
    if (file.absent()) return {nullptr, file.path, "can't be made: " + error_text(file.error), true, true};
    if (file.error == EISDIR) file.problem = "is a directory, not a file";
    if (!file) {
      struct stat there {};
      const bool is_there = file.error == 0 || files->status_at(folder.handle.get(), name, there) == 0;
      return {nullptr, file.path, file.problem, false, !is_there};
    }
    int error = 0;
    switch (attempt_lock(*files, folder, name, file, error)) {
      case Attempt::locked:
        return {std::make_unique<FileLock>(files, std::move(file.handle)), {}, {}};
      case Attempt::failed:
        // The file system is to blame, for all files alike.
        return {nullptr, folder.path, "does not let files be locked: " + error_text(error)};
      case Attempt::removed:
        file = Opened();
        break;
      case Attempt::busy:
        break;
    }
    const std::chrono::duration<double> left = timeout - (Clock::now() - start);
    if (left.count() <= 0) return {};
    std::this_thread::sleep_for(std::min<std::chrono::duration<double>>(pause, left));
    pause = std::min(2 * pause, kLongestPause);
  }
}

bool remove_idle_lock(Files &files, const Opened &folder, const std::string &name) {
  const Opened file = open_file(files, folder, name, O_RDWR);
  if (file.absent()) return true;
  int error = 0;
  if (!file || attempt_lock(files, folder, name, file, error) != Attempt::locked) return false;
  return files.remove(folder.handle.get(), name) == 0;
}

}  // namespace msj::store
