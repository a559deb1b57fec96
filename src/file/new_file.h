// A file that appears whole under its name or not at all.
//
// It is written without a name, where the file system has such files, so that a process that dies leaves nothing; else
// to a temporary beside its name, which is renamed over it. A link replaces nothing: over a file that is there, the
// nameless one has a temporary's name too, from the link to the rename. Where it turns out that it can get no name, it
// is copied to a temporary.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msj {

inline constexpr std::string_view kTemporaryPrefix = ".tmp-";

// Unlike any other of this machine or of another that shares the file system; O_EXCL proves it.
[[nodiscard]] inline std::string temporary_name() {
  std::uint64_t word = 0;
  if (::getrandom(&word, sizeof word, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof word)) {
    word = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  return fmt::format("{}{}-{:016x}", kTemporaryPrefix, ::getpid(), word);
}

// What the temporary is: a name in the directory, which others count and tidy away, or none if that can be.
enum class Temporary : std::uint8_t { named, nameless };

struct FileFailure {
  int error = 0;               // errno; 0: none
  std::string_view step = {};  // what was at work, where more than the error is needed to look into it
};

// `Calls`: POSIX, as store::Files has them (−errno for a call that fails). `directory` is open and outlives this. The
// temporary is gone with the object, unless it has got its name or the process died meanwhile.
template <typename Calls>
class StagedFile {
 public:
  StagedFile(Calls calls, int directory, mode_t mode, Temporary kind)
      : calls_(std::forward<Calls>(calls)), directory_(directory), mode_(mode) {
    if (kind == Temporary::named || !open_nameless()) open_named();
  }
  ~StagedFile() {
    (void)close();
    if (!temporary_.empty()) (void)calls_.remove(directory_, temporary_);
  }
  StagedFile(StagedFile &&other) noexcept
      : calls_(std::forward<Calls>(other.calls_)),
        directory_(other.directory_),
        mode_(other.mode_),
        temporary_(std::exchange(other.temporary_, {})),
        descriptor_(std::exchange(other.descriptor_, -1)),
        failure_(other.failure_) {}
  StagedFile &operator=(StagedFile &&) = delete;

  void write(std::string_view bytes) {
    while (!failed() && !bytes.empty()) {
      const ssize_t written = calls_.write(descriptor_, bytes.data(), bytes.size());
      if (written <= 0) return fail(written == 0 ? -EIO : static_cast<int>(written), {});
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  // Once, after the last write: then everything is on the disk, or failed. A nameless file is gone once it is closed;
  // of one with a name, the close may be what reports a full disk.
  void sync() {
    if (failed()) return;
    // EINVAL: a file system without fsync
    if (const int error = calls_.sync(descriptor_); error < 0 && error != -EINVAL) return fail(error, "fsync");
    if (!temporary_.empty()) close_or_fail();
  }

  // After sync(), over what is there. What is wrong with the place of the name may be mended, and this repeated.
  [[nodiscard]] FileFailure publish(const std::string &name) {
    if (!failed() && temporary_.empty() && link_as(name)) return {};
    if (failed()) return failure_;
    if (const int error = calls_.rename(directory_, temporary_, name); error < 0) return {-error, "rename"};
    temporary_.clear();
    return {};
  }

  // A name is on the disk once its directory is: 0, also where the file system can't do that, or −errno.
  [[nodiscard]] int sync_directory() {
    const int error = calls_.sync(directory_);
    return error == -EINVAL || error == -ENOTSUP ? 0 : error;
  }

  // The first: after it, nothing more is done.
  [[nodiscard]] const FileFailure &failure() const { return failure_; }

 private:
  [[nodiscard]] bool failed() const { return failure_.error != 0; }
  void fail(int error, std::string_view step) { failure_ = {-error, step}; }
  [[nodiscard]] int close() { return descriptor_ < 0 ? 0 : calls_.close(std::exchange(descriptor_, -1)); }
  void close_or_fail() {
    if (const int error = close(); error < 0) fail(error, "close");
  }

  // Not every file system has such files, and it takes /proc to name one.
  bool open_nameless() {
    struct stat proc {};
    if (calls_.status_at(AT_FDCWD, "/proc/self/fd", proc) < 0) return false;
    descriptor_ = calls_.open(directory_, ".", O_RDWR | O_TMPFILE, mode_);
    return descriptor_ >= 0;
  }

  void open_named() {
    const std::string name = temporary_name();
    descriptor_ = calls_.open(directory_, name, O_WRONLY | O_CREAT | O_EXCL, mode_);
    if (descriptor_ < 0) return fail(descriptor_, {});
    temporary_ = name;
  }

  // Whether the nameless file has got this name. If not, it has a temporary one, or has failed.
  bool link_as(const std::string &name) {
    int linked = calls_.link(descriptor_, directory_, name);
    if (linked == 0) {
      (void)close();  // it is on the disk and under its name: whatever this says, it does not undo that
      return true;
    }
    if (linked == -EEXIST) {
      const std::string temporary = temporary_name();
      linked = calls_.link(descriptor_, directory_, temporary);
      if (linked == 0) temporary_ = temporary;
    }
    if (linked == 0) {
      close_or_fail();
    } else if (tells_of_links(linked)) {
      copy_to_named();
    } else {
      fail(linked, "link");
    }
    return false;
  }

  // Not of the disk or the directory, which would fail a named file as well: of what a link of such a file takes.
  static bool tells_of_links(int error) {
    constexpr std::array kErrors = {EACCES, EINVAL, EMLINK, ENOENT, ENOSYS, ENOTSUP, EPERM, EXDEV};
    return std::ranges::find(kErrors, -error) != kErrors.end();
  }

  void copy_to_named() {
    const int nameless = std::exchange(descriptor_, -1);
    open_named();
    std::vector<char> bytes(std::size_t{1} << 20);
    for (std::uint64_t at = 0; !failed();) {
      const ssize_t count = calls_.read_at(nameless, bytes.data(), bytes.size(), at);
      if (count < 0) fail(static_cast<int>(count), "read");
      if (count <= 0) break;
      write({bytes.data(), static_cast<std::size_t>(count)});
      at += static_cast<std::uint64_t>(count);
    }
    (void)calls_.close(nameless);
    sync();
  }

  Calls calls_;
  int directory_;
  mode_t mode_;
  std::string temporary_;  // its name; "": none, or none to remove any more
  int descriptor_ = -1;
  FileFailure failure_;
};

}  // namespace msj
