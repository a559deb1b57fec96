#include "store/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "file/posix_calls.h"

namespace msj::store {

namespace {

// A write past the process's limit on file sizes (RLIMIT_FSIZE) raises SIGXFSZ, which ends a program that does not
// expect it. While this lives, the calling thread holds the signal back, so that only the write itself fails, as EFBIG.
class FileSizeSignalHeld {
 public:
  FileSizeSignalHeld() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &signal_, &mask_before_);
  }
  ~FileSizeSignalHeld() { pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr); }
  FileSizeSignalHeld(const FileSizeSignalHeld &) = delete;
  FileSizeSignalHeld &operator=(const FileSizeSignalHeld &) = delete;

  // Takes back the signal of a write that failed; one that the program had pending before stays.
  void take_back() {
    const timespec at_once{};
    while (!was_pending_ && sigtimedwait(&signal_, nullptr, &at_once) < 0 && errno == EINTR) {
    }
  }

 private:
  sigset_t signal_{};
  sigset_t mask_before_{};
  bool was_pending_ = false;
};

class RealFiles final : public Files {
 public:
  int open(int directory, const std::string &name, int flags, mode_t mode) override {
    const int opened = PosixCalls::open(directory, name, flags, mode);
    if (opened < 0 || opened > STDERR_FILENO) return opened;
    // A program that has closed its standard streams: what is printed there later must not land in a file of ours.
    const int moved = result_of([&] { return ::fcntl(opened, F_DUPFD_CLOEXEC, STDERR_FILENO + 1); });
    ::close(opened);
    return moved;
  }
  int close(int descriptor) override { return PosixCalls::close(descriptor); }
  ssize_t read(int descriptor, char *bytes, std::size_t count) override {
    return result_of([&] { return ::read(descriptor, bytes, count); });
  }
  ssize_t read_at(int descriptor, char *bytes, std::size_t count, std::uint64_t offset) override {
    return PosixCalls::read_at(descriptor, bytes, count, offset);
  }
  ssize_t write(int descriptor, const char *bytes, std::size_t count) override {
    FileSizeSignalHeld held;
    const ssize_t written = PosixCalls::write(descriptor, bytes, count);
    if (written == -EFBIG) held.take_back();
    return written;
  }
  int sync(int descriptor) override { return PosixCalls::sync(descriptor); }
  int status(int descriptor, struct stat &status) override {
    return result_of([&] { return ::fstat(descriptor, &status); });
  }
  int status_at(int directory, const std::string &name, struct stat &status) override {
    return PosixCalls::status_at(directory, name, status);
  }
  int read_link(int link, std::string &target) override {
    std::array<char, PATH_MAX> bytes{};
    const ssize_t size = result_of([&] { return ::readlinkat(link, "", bytes.data(), bytes.size()); });
    if (size < 0) return static_cast<int>(size);
    target.assign(bytes.data(), static_cast<std::size_t>(size));
    return 0;
  }
  int list(int directory, std::vector<std::string> &names) override;
  int make_directory(int directory, const std::string &name, mode_t mode) override {
    return result_of([&] { return ::mkdirat(directory, name.c_str(), mode); });
  }
  int rename(int directory, const std::string &from, const std::string &to) override {
    return PosixCalls::rename(directory, from, to);
  }
  int link(int descriptor, int directory, const std::string &name) override {
    return PosixCalls::link(descriptor, directory, name);
  }
  int remove(int directory, const std::string &name) override { return PosixCalls::remove(directory, name); }
  int remove_directory(int directory, const std::string &name) override {
    return result_of([&] { return ::unlinkat(directory, name.c_str(), AT_REMOVEDIR); });
  }
  int touch(int descriptor) override {
    return result_of([&] { return ::futimens(descriptor, nullptr); });
  }
  int may_write(int directory) override {
    return result_of([&] { return ::faccessat(directory, ".", W_OK | X_OK, AT_EACCESS); });
  }
  // Some file systems, such as /proc, let root write a directory and yet take no name in it; only giving one tells.
  // Linux makes no hard link to a directory anywhere (EPERM), but says first what is wrong with the new name's place.
  int may_make(int directory, const std::string &name) override {
    if (const int denied = may_write(directory); denied < 0) return denied;
    const int error = result_of([&] { return ::linkat(directory, ".", directory, name.c_str(), 0); });
    return error == -EPERM || error == -EEXIST || error == -ENOSYS ? 0 : error;
  }
  int lock(int descriptor, int operation) override {
    return result_of([&] { return ::flock(descriptor, operation); });
  }
  uid_t user() override { return ::geteuid(); }
};

int RealFiles::list(int directory, std::vector<std::string> &names) {
  // A descriptor of its own: reading a directory moves the offset of the one it is given, and closes it.
  const int copy = open(directory, ".", O_RDONLY | O_DIRECTORY, 0);
  if (copy < 0) return copy;
  const std::unique_ptr<DIR, int (*)(DIR *)> stream(::fdopendir(copy), ::closedir);
  if (!stream) {
    const int error = errno;
    ::close(copy);
    return -error;
  }
  names.clear();
  for (;;) {
    errno = 0;
    const dirent *entry = ::readdir(stream.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return -errno;
  std::ranges::sort(names);
  return 0;
}

}  // namespace

std::shared_ptr<Files> real_files() { return std::make_shared<RealFiles>(); }

std::string error_text(int error) { return std::generic_category().message(std::abs(error)); }

}  // namespace msj::store
