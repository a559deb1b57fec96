#include "store/trust.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <optional>

#include "store/path.h"

namespace msj::store {

namespace {

constexpr mode_t kDirectoryMode = 0700;
constexpr mode_t kWritableByOthers = S_IWGRP | S_IWOTH;
constexpr int kMaxLinks = 40;  // as the kernel's own limit

bool is_ours(uid_t owner, uid_t user) { return owner == user || owner == 0; }

std::string kind_of(mode_t mode) {
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISREG(mode)) return "a file";
  if (S_ISFIFO(mode)) return "a FIFO";
  return S_ISSOCK(mode) ? "a socket" : "a device";
}

Opened refused(std::string path, std::string problem, int error = 0) {
  Opened opened;
  opened.path = std::move(path);
  opened.problem = std::move(problem);
  opened.error = std::abs(error);
  return opened;
}

// What a failed open means. A symbolic link or a file in the place of a directory is told by looking again.
Opened not_opened(Files &files, int parent, const std::string &name, std::string path, int error) {
  if (error == -ENOENT) return refused(std::move(path), {}, error);
  struct stat status {};
  const bool odd_kind = error == -ELOOP || error == -ENOTDIR || error == -ENXIO;
  if (odd_kind && files.status_at(parent, name, status) == 0) {
    return refused(std::move(path), "is " + kind_of(status.st_mode));
  }
  return refused(std::move(path), "can't be opened: " + error_text(error), error);
}

// `opened` with a descriptor just opened; checked by `check(status)`, which gives a problem or "".
template <typename Check>
Opened checked(Files &files, int descriptor, std::string path, Check check) {
  Opened opened;
  opened.handle = Handle(files, descriptor);
  opened.path = std::move(path);
  const int failed = files.status(descriptor, opened.status);
  opened.error = std::abs(failed);
  opened.problem = failed < 0 ? "can't be examined: " + error_text(failed) : check(opened.status);
  if (!opened.problem.empty()) opened.handle = Handle();
  return opened;
}

std::string directory_problem(const struct stat &status, uid_t user) {
  return S_ISDIR(status.st_mode) ? ownership_problem(status, user) : "is " + kind_of(status.st_mode);
}

// Makes a directory that may have appeared meanwhile, or asks whether it could be made; 0 or −errno.
int make_directory(Files &files, int parent, const std::string &name, Missing missing) {
  if (missing == Missing::ask) return files.may_make(parent, name);
  const int made = files.make_directory(parent, name, kDirectoryMode);
  return made == -EEXIST ? 0 : made;
}

// The way from "/" to the directory that holds the root: an open directory, moved down name by name.
class Approach {
 public:
  Approach(Files &files, const std::string &path, Missing missing) : files_(files), missing_(missing) {
    const std::vector<std::string> names = split(path);
    rest_.assign(names.begin(), names.end());
  }

  Opened run() {
    std::optional<Opened> stop = start();
    while (!stop && rest_.size() > 1) stop = step();
    if (stop) return std::move(*stop);
    return rest_.empty() ? open_directory(files_, at_, ".", missing_)
                         : open_directory(files_, at_, rest_.front(), missing_);
  }

 private:
  // O_PATH: a directory above the root need not be readable, as /home often is not.
  std::optional<Opened> start() { return move_to(files_.open(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0), "/"); }

  std::optional<Opened> move_to(int descriptor, const std::string &path) {
    if (descriptor < 0) return refused(path, "can't be opened: " + error_text(descriptor), descriptor);
    Opened next = checked(files_, descriptor, path, [](const struct stat &) { return std::string(); });
    if (!next) return next;
    if (S_ISLNK(next.status.st_mode)) return follow(next);
    if (!S_ISDIR(next.status.st_mode)) return refused(path, "is " + kind_of(next.status.st_mode));
    at_ = std::move(next);
    return std::nullopt;
  }

  std::optional<Opened> step() {
    const std::string name = rest_.front();
    const std::string path = join(at_.path, name);
    int descriptor = files_.open(at_.handle.get(), name, O_PATH, 0);
    if (descriptor == -ENOENT && missing_ != Missing::leave) {
      const int made = make_directory(files_, at_.handle.get(), name, missing_);
      if (made < 0) return refused(path, "can't be made: " + error_text(made), made);
      descriptor = files_.open(at_.handle.get(), name, O_PATH, 0);
    }
    if (descriptor < 0) return not_opened(files_, at_.handle.get(), name, path, descriptor);
    rest_.pop_front();
    return move_to(descriptor, path);
  }

  std::optional<Opened> follow(const Opened &link) {
    const uid_t user = files_.user();
    const bool others_write = (at_.status.st_mode & kWritableByOthers) != 0;
    const bool sticky = (at_.status.st_mode & S_ISVTX) != 0 && is_ours(link.status.st_uid, user);
    if (!is_ours(at_.status.st_uid, user) || (others_write && !sticky)) {
      return refused(link.path, "is a symbolic link that others can change");
    }
    if (++links_ > kMaxLinks) return refused(link.path, "leads through too many symbolic links", ELOOP);
    std::string target;
    const int read = files_.read_link(link.handle.get(), target);
    if (read < 0) return refused(link.path, "can't be read: " + error_text(read), read);
    const std::vector<std::string> names = split(target);
    rest_.insert(rest_.begin(), names.begin(), names.end());
    return target.starts_with('/') ? start() : std::nullopt;
  }

  Files &files_;
  Missing missing_;
  std::deque<std::string> rest_;  // names still to go; the last is the root's own
  Opened at_;
  int links_ = 0;
};

}  // namespace

std::string ownership_problem(const struct stat &status, uid_t user) {
  if (!is_ours(status.st_uid, user)) {
    return fmt::format("belongs to uid {}; this user's (uid {}) or root's is accepted", status.st_uid, user);
  }
  if ((status.st_mode & kWritableByOthers) != 0) {
    return fmt::format("is writable by group or others (mode {:04o}); run chmod go-w on it", status.st_mode & 07777);
  }
  return {};
}

Opened open_root(Files &files, const std::string &path, Missing missing, const std::string &existing) {
  if (missing != Missing::leave && !existing.empty()) {
    const int found = files.open(AT_FDCWD, join(existing, "."), O_PATH | O_DIRECTORY, 0);
    if (found < 0) return refused(existing, "can't be opened: " + error_text(found), found);
    const Handle closed_at_once(files, found);
  }
  return Approach(files, path, missing).run();
}

Opened open_directory(Files &files, const Opened &parent, const std::string &name, Missing missing) {
  const std::string path = name == "." ? parent.path : join(parent.path, name);
  const int directory = parent.handle.get();
  int descriptor = files.open(directory, name, O_RDONLY | O_DIRECTORY, 0);
  if (descriptor == -ENOENT && missing != Missing::leave) {
    const int made = make_directory(files, directory, name, missing);
    if (made < 0) return refused(path, "can't be made: " + error_text(made), made);
    descriptor = files.open(directory, name, O_RDONLY | O_DIRECTORY, 0);
  }
  if (descriptor < 0) return not_opened(files, directory, name, path, descriptor);
  const uid_t user = files.user();
  return checked(files, descriptor, path, [user](const struct stat &s) { return directory_problem(s, user); });
}

Opened open_below(Files &files, Opened root, std::string_view relative, Missing missing) {
  Opened at = std::move(root);
  for (const std::string &name : split(relative)) {
    if (!at) break;
    at = open_directory(files, at, name, missing);
  }
  return at;
}

Opened open_file(Files &files, const Opened &parent, const std::string &name, int flags, mode_t mode) {
  const std::string path = join(parent.path, name);
  // O_NONBLOCK: a FIFO in the place of a file must not hold us up.
  const int descriptor = files.open(parent.handle.get(), name, flags | O_NONBLOCK | O_NOCTTY, mode);
  if (descriptor < 0) return not_opened(files, parent.handle.get(), name, path, descriptor);
  const uid_t user = files.user();
  return checked(files, descriptor, path, [user](const struct stat &status) -> std::string {
    if (!S_ISREG(status.st_mode)) return "is " + kind_of(status.st_mode) + ", not a file";
    return ownership_problem(status, user);
  });
}

bool still_there(Files &files, const Opened &folder, const std::string &name, const struct stat &seen) {
  struct stat named {};
  return files.status_at(folder.handle.get(), name, named) == 0 && named.st_ino == seen.st_ino &&
         named.st_dev == seen.st_dev;
}

std::string read_all(Files &files, const Opened &file, std::string &bytes) {
  if (file.status.st_size > kMaxFileBytes) {
    return fmt::format("has {} bytes; at most {} are accepted", file.status.st_size, kMaxFileBytes);
  }
  bytes.resize(static_cast<std::size_t>(file.status.st_size));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = files.read(file.handle.get(), bytes.data() + done, bytes.size() - done);
    if (got < 0) return "can't be read: " + error_text(static_cast<int>(got));
    if (got == 0) break;  // shorter than it was: what is there is judged as it is
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return {};
}

}  // namespace msj::store
