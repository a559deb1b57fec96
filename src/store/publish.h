// Publishing a file whole or not at all: a unique temporary beside it, written, synced and renamed over the name.
//
// A reader sees the old file or the new one, never a part; two writers of one name do no harm. Whatever was at the name
// (an invalid file, a link, a FIFO, an empty directory) is replaced, never written through.
#pragma once

#include <string>
#include <string_view>

#include "store/trust.h"

namespace msj::store {

struct Published {
  bool done = false;
  std::string problem;  // what failed, even where the file is in place (a directory that could not be synced)
  int error = 0;        // its errno
};

// `folder` is open and trusted. The temporary is gone afterwards, unless the process died meanwhile.
[[nodiscard]] Published publish_file(Files &files, const Opened &folder, const std::string &name,
                                     std::string_view bytes);

// Whether a name is that of a temporary of publish_file.
[[nodiscard]] bool is_temporary(std::string_view name);

}  // namespace msj::store
