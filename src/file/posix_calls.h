// POSIX calls that say in their result why they failed: −errno. Interrupted ones are repeated. Names are relative to an
// open directory.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>

namespace msj {

template <typename Call>
auto result_of(Call call) -> decltype(call()) {
  for (;;) {
    const auto result = call();
    if (result >= 0) return result;
    if (errno != EINTR) return -errno;
  }
}

// Those that it takes to write a file (StagedFile).
struct PosixCalls {
  static int open(int directory, const std::string &name, int flags, mode_t mode) {
    return result_of([&] { return ::openat(directory, name.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, mode); });
  }
  static int close(int descriptor) {
    // Linux frees the descriptor even where it says EINTR: never repeated.
    return ::close(descriptor) == 0 || errno == EINTR ? 0 : -errno;
  }
  static ssize_t read_at(int descriptor, char *bytes, std::size_t count, std::uint64_t offset) {
    return result_of([&] { return ::pread(descriptor, bytes, count, static_cast<off_t>(offset)); });
  }
  static ssize_t write(int descriptor, const char *bytes, std::size_t count) {
    return result_of([&] { return ::write(descriptor, bytes, count); });
  }
  static int sync(int descriptor) {
    return result_of([&] { return ::fsync(descriptor); });
  }
  static int status_at(int directory, const std::string &name, struct stat &status) {
    return result_of([&] { return ::fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW); });
  }
  // By way of /proc: to link a descriptor itself takes a privilege.
  static int link(int descriptor, int directory, const std::string &name) {
    const std::string file = "/proc/self/fd/" + std::to_string(descriptor);
    return result_of([&] { return ::linkat(AT_FDCWD, file.c_str(), directory, name.c_str(), AT_SYMLINK_FOLLOW); });
  }
  static int rename(int directory, const std::string &from, const std::string &to) {
    return result_of([&] { return ::renameat(directory, from.c_str(), directory, to.c_str()); });
  }
  static int remove(int directory, const std::string &name) {
    return result_of([&] { return ::unlinkat(directory, name.c_str(), 0); });
  }
};

}  // namespace msj
