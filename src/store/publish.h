// Publishing a file whole or not at all: a unique temporary beside it, written, synced and renamed over the name.
//
// A reader sees the old file or the new one, never a part; two writers of one name do no harm. Whatever was at the name
// (an invalid file, a link, a FIFO, an empty directory) is replaced, never written through.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "store/trust.h"

namespace msj::store {

struct Published {
  bool done = false;
  // Follows the path in a sentence: "can't be written: No space left on device". Told even where the file is in place,
  // of a directory that could not be synced.
  std::string problem;
  int error = 0;  // its errno
};

// A file that is written piece by piece. The temporary is gone with the object, unless it has got its name or the
// process died meanwhile. After the first failure, nothing more is done.
class NewFile {
 public:
  // What its temporary is: a name in the folder, which others count and tidy away; or where the file system can do
  // that, a file without any, of which a process that dies leaves nothing.
  enum class Temporary : std::uint8_t { named, nameless };

  NewFile(Files &files, const Opened &folder, mode_t mode, Temporary kind);  // `folder` is open and outlives it
  ~NewFile();
  NewFile(const NewFile &) = delete;
  NewFile &operator=(const NewFile &) = delete;

  void write(std::string_view bytes);
  [[nodiscard]] Published put_in_place(const std::string &name);       // once, after the last write
  [[nodiscard]] const Published &failure() const { return failure_; }  // its problem is "" while all is well

 private:
  bool open_nameless(mode_t mode);
  void open_named(mode_t mode);
  bool link_as(const std::string &name);
  void sync();
  void close();

  Files &files_;
  const Opened &folder_;
  std::string temporary_;  // its name; "": none, or none to remove any more
  Handle handle_;
  Published failure_;
};

// All at once. `folder` is open and trusted. The temporary is gone afterwards, unless the process died meanwhile.
[[nodiscard]] Published publish_file(Files &files, const Opened &folder, const std::string &name,
                                     std::string_view bytes);

// Whether a name is that of a temporary of publish_file.
[[nodiscard]] bool is_temporary(std::string_view name);

}  // namespace msj::store
