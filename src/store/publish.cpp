#include "store/publish.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>

namespace msj::store {

namespace {

constexpr std::string_view kTemporaryPrefix = ".tmp-";
constexpr mode_t kFileMode = 0600;

// Unlike any other of this machine or of another that shares the file system; O_EXCL proves it.
std::string temporary_name() {
  std::uint64_t word = 0;
  if (::getrandom(&word, sizeof word, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof word)) {
    word = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  return fmt::format("{}{}-{:016x}", kTemporaryPrefix, ::getpid(), word);
}

// `step`: what was at work, where more than the error is needed to look into it.
Published failed(int error, std::string_view step = {}) {
  const std::string on = step.empty() ? std::string() : fmt::format(" (on {})", step);
  return {false, fmt::format("can't be written{}: {}", on, error_text(error)), std::abs(error)};
}

int write_all(Files &files, int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = files.write(descriptor, bytes.data(), bytes.size());
    if (written < 0) return static_cast<int>(written);
    if (written == 0) return -EIO;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

// Over whatever is at the name. An empty directory is in the way of a rename, and holds nothing that anybody could
// miss; one that holds something stays.
int rename_over(Files &files, int directory, const std::string &temporary, const std::string &name) {
  const int renamed = files.rename(directory, temporary, name);
  if (renamed != -EISDIR || files.remove_directory(directory, name) < 0) return renamed;
  return files.rename(directory, temporary, name);
}

// The rename itself is on disk once the directory is synced; file systems that can't do that say EINVAL.
Published sync_directory(Files &files, const Opened &folder) {
  const int error = files.sync(folder.handle.get());
  if (error == 0 || error == -EINVAL || error == -EOPNOTSUPP) return {true, {}, 0};
  Published result = failed(error, "fsync of its directory");
  result.done = true;
  return result;
}

}  // namespace

NewFile::NewFile(Files &files, const Opened &folder, mode_t mode, Temporary kind) : files_(files), folder_(folder) {
  if (kind == Temporary::named || !open_nameless(mode)) open_named(mode);
}

// Not every file system has such files, and it takes /proc to name one.
bool NewFile::open_nameless(mode_t mode) {
  struct stat proc {};
  if (files_.status_at(AT_FDCWD, "/proc/self/fd", proc) < 0) return false;
  const int descriptor = files_.open(folder_.handle.get(), ".", O_WRONLY | O_TMPFILE, mode);
  if (descriptor >= 0) handle_ = Handle(files_, descriptor);
  return descriptor >= 0;
}

void NewFile::open_named(mode_t mode) {
  const std::string name = temporary_name();
  const int descriptor = files_.open(folder_.handle.get(), name, O_WRONLY | O_CREAT | O_EXCL, mode);
  if (descriptor < 0) {
    failure_ = failed(descriptor);
    return;
  }
  temporary_ = name;
  handle_ = Handle(files_, descriptor);
}

NewFile::~NewFile() {
  handle_ = Handle();
  if (!temporary_.empty()) (void)files_.remove(folder_.handle.get(), temporary_);
}

void NewFile::write(std::string_view bytes) {
  if (!failure_.problem.empty()) return;
  if (const int error = write_all(files_, handle_.get(), bytes); error < 0) failure_ = failed(error);
}

// This or the close may be the one that reports a full disk.
void NewFile::sync() {
  if (!failure_.problem.empty()) return;
  if (const int error = files_.sync(handle_.get()); error < 0) failure_ = failed(error, "fsync");
}

void NewFile::close() {
  if (!failure_.problem.empty()) return;
  if (const int error = handle_.close(); error < 0) failure_ = failed(error, "close");
}

// Whether a nameless file has got this name. A link replaces nothing: over what is there it takes a name to rename.
bool NewFile::link_as(const std::string &name) {
  if (!failure_.problem.empty() || !temporary_.empty()) return false;
  int linked = files_.link(handle_.get(), folder_.handle.get(), name);
  if (linked == -EEXIST) {
    const std::string temporary = temporary_name();
    linked = files_.link(handle_.get(), folder_.handle.get(), temporary);
    if (linked == 0) temporary_ = temporary;
  }
  if (linked < 0) failure_ = failed(linked, "link");
  return linked == 0 && temporary_.empty();
}

Published NewFile::put_in_place(const std::string &name) {
  sync();
  const bool linked = link_as(name);
  close();
  if (!failure_.problem.empty()) return failure_;
  if (!linked) {
    const int renamed = rename_over(files_, folder_.handle.get(), temporary_, name);
    if (renamed < 0) return failure_ = failed(renamed, "rename");
    temporary_.clear();
  }
  return sync_directory(files_, folder_);
}

Published publish_file(Files &files, const Opened &folder, const std::string &name, std::string_view bytes) {
  if (static_cast<std::int64_t>(bytes.size()) > kMaxFileBytes) return failed(EFBIG);
  NewFile file(files, folder, kFileMode, NewFile::Temporary::named);
  file.write(bytes);
  return file.put_in_place(name);
}

bool is_temporary(std::string_view name) { return name.starts_with(kTemporaryPrefix); }

}  // namespace msj::store
