// Every file below a directory, in order of name, through trusted directories only.
#pragma once

#include <functional>
#include <string>

#include "store/trust.h"

namespace msj::store {

struct Visit {
  const Opened &folder;  // the open directory that holds it
  std::string name;
  std::string relative;  // as the walk's own `relative`, with the way from there
  struct stat status;    // of the thing itself, never of what a link leads to
  [[nodiscard]] std::string path() const;
};

struct Visitor {
  std::function<void(const Visit &)> file;       // all that is no directory
  std::function<void(const Visit &)> left = {};  // a directory, after all that is in it
  std::function<void(const Opened &)> refused;   // not trusted, not readable: what is below it is left out
};

void walk(Files &files, const Opened &folder, const std::string &relative, const Visitor &visitor);

}  // namespace msj::store
