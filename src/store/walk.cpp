#include "store/walk.h"

#include <cerrno>

#include "store/path.h"

namespace msj::store {

namespace {

constexpr int kMaxDepth = 16;  // ours is four deep; each level holds a descriptor

Opened refusal(std::string path, std::string problem, int error = 0) {
  Opened refused;
  refused.error = -error;
  refused.path = std::move(path);
  refused.problem = std::move(problem);
  return refused;
}

void walk_to_depth(Files &files, const Opened &folder, const std::string &relative, const Visitor &visitor, int depth) {
  std::vector<std::string> names;
  if (const int error = files.list(folder.handle.get(), names); error < 0) {
    return visitor.refused(refusal(folder.path, "can't be listed: " + error_text(error), error));
  }
  for (const std::string &name : names) {
    Visit visit{folder, name, join(relative, name), {}};
    const int error = files.status_at(folder.handle.get(), name, visit.status);
    if (error == -ENOENT) continue;  // gone meanwhile
    if (error < 0) {
      visitor.refused(refusal(visit.path(), "can't be examined: " + error_text(error), error));
    } else if (!S_ISDIR(visit.status.st_mode)) {
      visitor.file(visit);
    } else if (depth == 0) {
      visitor.refused(refusal(visit.path(), "is nested too deeply"));
    } else {
      const Opened below = open_directory(files, folder, name, Missing::leave);
      if (below.absent()) continue;
      if (!below) {
        visitor.refused(below);
        continue;
      }
      walk_to_depth(files, below, visit.relative, visitor, depth - 1);
      if (visitor.left) visitor.left(visit);
    }
  }
}

}  // namespace

std::string Visit::path() const { return join(folder.path, name); }

void walk(Files &files, const Opened &folder, const std::string &relative, const Visitor &visitor) {
  walk_to_depth(files, folder, relative, visitor, kMaxDepth);
}

}  // namespace msj::store
