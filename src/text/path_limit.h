// How long a path may be: what is longer names no file, and a sentence need not repeat it.
#pragma once

#include <algorithm>
#include <climits>
#include <cstddef>
#include <string_view>

namespace msj {

inline constexpr std::size_t kMostPathBytes = PATH_MAX - 1;  // 4095: Linux counts the NUL

[[nodiscard]] inline bool fits_path(std::string_view path) {
  if (path.size() > kMostPathBytes) return false;
  while (!path.empty()) {
    const std::size_t name = std::min(path.find('/'), path.size());
    if (name > NAME_MAX) return false;
    path.remove_prefix(std::min(name + 1, path.size()));
  }
  return true;
}

}  // namespace msj
