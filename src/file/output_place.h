// Where a file lies that is to be written or replaced: symlinks of its name are followed and stay. Those of the
// directories above it are the file system's to follow.
//
// A link in /proc (/dev/stdout leads through one) stands for an open file, whose name it merely shows: who redirected
// a stream there means that very file to be written to, and a new one in its place would be another.
#pragma once

#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace msj {

struct OutputPlace {
  std::filesystem::path path;
  std::string problem;  // why nothing can be written there, to follow the name in a sentence; "" if that is not known
};

[[nodiscard]] inline std::filesystem::path folder_of(const std::filesystem::path &path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

[[nodiscard]] inline bool is_in_proc(const std::filesystem::path &path) {
  struct statfs system {};
  return ::statfs(folder_of(path).c_str(), &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
}

[[nodiscard]] inline OutputPlace output_place(std::filesystem::path path) {
  constexpr int kMostLinks = 40;  // as the kernel
  for (int links = 0;; ++links) {
    std::error_code no_link;
    const std::filesystem::path next = std::filesystem::read_symlink(path, no_link);
    if (no_link) return {std::move(path), {}};
    if (is_in_proc(path)) {
      return {{},
              fmt::format("{} stands for an open file, which is no place for a new one; the name of a new or a regular "
                          "file is accepted",
                          path.native())};
    }
    if (links == kMostLinks) return {{}, std::make_error_code(std::errc::too_many_symbolic_link_levels).message()};
    path = next.is_absolute() ? next : path.parent_path() / next;
  }
}

}  // namespace msj
