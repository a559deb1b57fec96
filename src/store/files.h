// The file system as the store sees it: POSIX calls, one to one, so that a test can make each of them fail.
//
// Every call returns what POSIX does where that is ≥ 0, else −errno. Interrupted calls are repeated. Names are relative
// to an open directory and nothing here follows a symbolic link in the last place: what was checked is what is used.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace msj::store {

class Files {
 public:
  virtual ~Files() = default;

  virtual int open(int directory, const std::string &name, int flags, mode_t mode) = 0;  // + O_CLOEXEC, O_NOFOLLOW
  virtual int close(int descriptor) = 0;
  virtual ssize_t read(int descriptor, char *bytes, std::size_t count) = 0;
  virtual ssize_t read_at(int descriptor, char *bytes, std::size_t count, std::uint64_t offset) = 0;
  virtual ssize_t write(int descriptor, const char *bytes, std::size_t count) = 0;  // −EFBIG, and never SIGXFSZ
  virtual int sync(int descriptor) = 0;
  virtual int status(int descriptor, struct stat &status) = 0;
  virtual int status_at(int directory, const std::string &name, struct stat &status) = 0;
  virtual int read_link(int link, std::string &target) = 0;              // of a link opened with O_PATH
  virtual int list(int directory, std::vector<std::string> &names) = 0;  // sorted, without "." and ".."
  virtual int make_directory(int directory, const std::string &name, mode_t mode) = 0;
  virtual int rename(int directory, const std::string &from, const std::string &to) = 0;
  virtual int link(int descriptor, int directory, const std::string &name) = 0;  // of a file opened with O_TMPFILE
  virtual int remove(int directory, const std::string &name) = 0;
  virtual int remove_directory(int directory, const std::string &name) = 0;
  virtual int touch(int descriptor) = 0;                             // modification and access time: now
  virtual int may_write(int directory) = 0;                          // 0 if this user can make files in it
  virtual int may_make(int directory, const std::string &name) = 0;  // as making it would say, but nothing is made
  virtual int lock(int descriptor, int operation) = 0;               // flock
  [[nodiscard]] virtual uid_t user() = 0;                            // the effective one
};

[[nodiscard]] std::shared_ptr<Files> real_files();

// An open file or directory, closed at the end. `files` outlives it.
class Handle {
 public:
  Handle() = default;
  Handle(Files &files, int descriptor) : files_(&files), descriptor_(descriptor) {}
  ~Handle() { (void)close(); }
  Handle(Handle &&other) noexcept
      : files_(std::exchange(other.files_, nullptr)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  Handle &operator=(Handle &&other) noexcept {
    std::swap(files_, other.files_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }

  [[nodiscard]] int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }
  // Closed now, for the error that a network file system may report only here.
  int close() { return descriptor_ < 0 ? 0 : files_->close(std::exchange(descriptor_, -1)); }

 private:
  Files *files_ = nullptr;
  int descriptor_ = -1;
};

// "No space left on device", from −errno or errno.
[[nodiscard]] std::string error_text(int error);

}  // namespace msj::store
