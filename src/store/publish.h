// Publishing a file whole or not at all: a unique temporary beside it, written, synced and renamed over the name.
//
// A reader sees the old file or the new one, never a part; two writers of one name do no harm. Whatever was at the name
// (an invalid file, a link, a FIFO, an empty directory) is replaced, never written through.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "file/new_file.h"
#include "store/trust.h"

namespace msj::store {

struct Published {
  bool done = false;
  // Follows the path in a sentence: "can't be written: No space left on device". Told even where the file is in place,
  // of a directory that could not be synced.
  std::string problem;
  int error = 0;  // its errno
};

// A file that is written piece by piece. After the first failure, nothing more is done.
class NewFile {
 public:
  NewFile(Files &files, const Opened &folder, mode_t mode, Temporary kind)  // `folder` is open and outlives it
      : files_(files), folder_(folder), staged_(files, folder.handle.get(), mode, kind) {}

  void write(std::string_view bytes) { staged_.write(bytes); }
  [[nodiscard]] Published put_in_place(const std::string &name);  // once, after the last write
  [[nodiscard]] Published failure() const;                        // its problem is "" while all is well

 private:
  Files &files_;
  const Opened &folder_;
  StagedFile<Files &> staged_;
};

// All at once. `folder` is open and trusted. The temporary is gone afterwards, unless the process died meanwhile.
[[nodiscard]] Published publish_file(Files &files, const Opened &folder, const std::string &name,
                                     std::string_view bytes);

// Whether a name is that of a temporary of publish_file.
[[nodiscard]] bool is_temporary(std::string_view name);

}  // namespace msj::store
