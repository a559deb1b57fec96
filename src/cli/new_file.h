// A file that appears whole under its name or not at all: it is written without a name, where the file system has such
// files, so that a command that is killed leaves nothing; else to a temporary beside it, which is renamed. Over a file
// that is there the nameless one has such a name too, from the link to the rename.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "cli/file_descriptor.h"

namespace msj::cli {

// Where a result named `path` goes: what its symlinks lead to. Throws Failure where they lead to no place.
[[nodiscard]] std::filesystem::path output_target(const std::filesystem::path &path);

// Before any work: throws Failure where no file could be written there at the end.
void check_output_file(const std::string &file);

// Whatever fails throws std::runtime_error with one sentence that names the target.
class NewFile {
 public:
  explicit NewFile(std::filesystem::path target);  // no symlink: it would be replaced, not followed
  ~NewFile();                                      // removes the temporary unless it was published
  NewFile(NewFile &&other) noexcept;
  NewFile &operator=(NewFile &&) = delete;

  void write(std::span<const std::byte> data);
  void sync();     // everything is on the disk, or it throws
  void publish();  // after sync()

 private:
  [[nodiscard]] bool link_as(const std::filesystem::path &name) const;  // false if that is taken
  [[noreturn]] void refuse(int error) const;

  std::filesystem::path target_;
  std::filesystem::path path_;  // of the temporary; "" where it has no name, or none any more
  FileDescriptor descriptor_;
};

}  // namespace msj::cli
