// Opening only what can be trusted. A cubin is code: whoever can write one runs code as this user.
//
// From the cache's root down, every file and directory must belong to this user or to root, must not be writable by
// group or others, and must be no symbolic link. Each is opened by name within its open, checked parent, without
// following links, and the checks are made on what was opened, so that nobody can swap it in between. Above the root,
// symbolic links are followed where nobody else can change them: in a directory that only this user or root can write,
// or, in a sticky one such as /tmp, if the link itself belongs to one of the two.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "store/files.h"

namespace msj::store {

// An open, trusted file or directory; or why not.
struct Opened {
  Handle handle;
  struct stat status {};
  std::string path;     // what was opened, or the part of the path that is to blame
  std::string problem;  // follows the path in a sentence: "is a symbolic link"
  int error = 0;        // errno of the call that failed; 0: what is there is to blame

  explicit operator bool() const { return static_cast<bool>(handle); }
  [[nodiscard]] bool absent() const { return !handle && problem.empty(); }  // nothing is there: no reason to warn
};

// What to do about a directory that is not there. `ask`: makes nothing; it is absent where it could be made, else
// refused as by `create`. That a disk is full shows only on making.
enum class Missing : std::uint8_t { leave, ask, create };

// "" if it belongs to `user` or root and nobody else can write it, else why not.
[[nodiscard]] std::string ownership_problem(const struct stat &status, uid_t user);

// The cache root at an absolute path. `create` and `ask`: with its parents, 0700, but nothing of `existing` or above
// it.
[[nodiscard]] Opened open_root(Files &files, const std::string &path, Missing missing,
                               const std::string &existing = {});
// A directory by name, and by relative path, below the root.
[[nodiscard]] Opened open_directory(Files &files, const Opened &parent, const std::string &name, Missing missing);
[[nodiscard]] Opened open_below(Files &files, Opened root, std::string_view relative, Missing missing);
// A regular file. `flags` as open(2)'s; never blocks, whatever lies there.
[[nodiscard]] Opened open_file(Files &files, const Opened &parent, const std::string &name, int flags, mode_t mode = 0);

// Whether a name still is that of the thing of this status: not so if it was removed, and perhaps made anew, meanwhile.
[[nodiscard]] bool still_there(Files &files, const Opened &folder, const std::string &name, const struct stat &seen);

// All bytes of an open file, into `bytes`; "" or the problem.
[[nodiscard]] std::string read_all(Files &files, const Opened &file, std::string &bytes);

// Larger files are neither read nor published: a cubin has kilobytes, and memory is not to be had for the asking.
inline constexpr std::int64_t kMaxFileBytes = std::int64_t{64} << 20;

}  // namespace msj::store
