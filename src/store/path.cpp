#include "store/path.h"

namespace msj::store {

std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> names;
  while (!path.empty()) {
    const std::size_t slash = path.find('/');
    const std::string_view name = path.substr(0, slash);
    if (!name.empty() && name != ".") names.emplace_back(name);
    path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
  }
  return names;
}

std::string join(std::string_view directory, std::string_view name) {
  if (directory.empty() || name.empty()) return std::string(directory.empty() ? name : directory);
  std::string path(directory);
  if (!path.ends_with('/')) path += '/';
  return path.append(name);
}

bool stays_below(std::string_view relative) {
  bool at_start = true;
  for (const char c : relative) {
    if (c == '\0' || (at_start && (c == '/' || c == '.'))) return false;
    at_start = c == '/';
  }
  return !at_start;
}

std::string_view parent_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

std::string_view name_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace msj::store
