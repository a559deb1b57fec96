#include "cli/new_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <random>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "cli/failure.h"
#include "file/output_place.h"

namespace msj::cli {
namespace {

// Only what can get a name later: by way of /proc, since to link a descriptor itself takes a privilege.
int open_nameless(const std::filesystem::path &target) {
  if (::access("/proc/self/fd", X_OK) != 0) return -1;
  return ::open(folder_of(target).c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
}

std::filesystem::path unused_path(const std::filesystem::path &target) {
  static std::atomic<unsigned> count{0};
  return target.parent_path() / fmt::format(".npy-{}-{}-{:08x}.tmp", ::getpid(), count++, std::random_device{}());
}

}  // namespace

std::filesystem::path output_target(const std::filesystem::path &path) {
  OutputPlace place = output_place(path);
  if (!place.problem.empty()) failure("{}: the output cannot be written: {}", path.native(), place.problem);
  return std::move(place.path);
}

void check_output_file(const std::string &file) {
  namespace fs = std::filesystem;
  const fs::path target = output_target(file);
  std::error_code error, ignored;
  const auto status = fs::status(target, error);
  if (!fs::status_known(status)) failure("{}: the output cannot be written: {}", file, error.message());
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    failure("{}: the output exists and is no regular file; a new or a regular file is accepted", file);
  }
  const fs::path parent = folder_of(target);
  if (!fs::is_directory(parent, ignored)) failure("{}: there is no directory {}", file, parent.native());
  if (::access(parent.c_str(), W_OK) != 0) {
    failure("{}: the directory {} cannot be written: {}", file, parent.native(),
            std::generic_category().message(errno));
  }
}

NewFile::NewFile(std::filesystem::path target) : target_(std::move(target)), descriptor_(open_nameless(target_)) {
  if (descriptor_.get() < 0) {
    path_ = unused_path(target_);
    descriptor_ = FileDescriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  }
  if (descriptor_.get() < 0) refuse(errno);
  struct stat replaced {};  // whom it was open to, it stays open to
  if (::stat(target_.c_str(), &replaced) == 0) (void)::fchmod(descriptor_.get(), replaced.st_mode & 0777);
}

NewFile::NewFile(NewFile &&other) noexcept
    : target_(std::move(other.target_)),
      path_(std::exchange(other.path_, {})),
      descriptor_(std::move(other.descriptor_)) {}

NewFile::~NewFile() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

void NewFile::write(std::span<const std::byte> data) {
  while (!data.empty()) {
    const ssize_t written = ::write(descriptor_.get(), data.data(), data.size());
    if (written >= 0) {
      data = data.subspan(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      refuse(errno);
    }
  }
}

void NewFile::sync() {
  if (::fsync(descriptor_.get()) != 0 && errno != EINVAL) refuse(errno);  // EINVAL: a file system without fsync
  if (!path_.empty() && descriptor_.close() != 0) refuse(errno);          // a nameless file is gone once it is closed
}

bool NewFile::link_as(const std::filesystem::path &name) const {
  const std::string file = fmt::format("/proc/self/fd/{}", descriptor_.get());
  if (::linkat(AT_FDCWD, file.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) return true;
  if (errno != EEXIST) refuse(errno);
  return false;
}

// A link replaces nothing: over what is there it takes a name to rename.
void NewFile::publish() {
  if (path_.empty()) {
    if (link_as(target_)) return;
    const std::filesystem::path temporary = unused_path(target_);
    if (!link_as(temporary)) refuse(EEXIST);
    path_ = temporary;
  }
  if (::rename(path_.c_str(), target_.c_str()) != 0) refuse(errno);
  path_.clear();
}

void NewFile::refuse(int error) const {
  throw std::runtime_error(
      fmt::format("{}: the file cannot be written: {}", target_.native(), std::generic_category().message(error)));
}

}  // namespace msj::cli
