// A result's file: where it goes, and how it appears there whole or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "cli/file_descriptor.h"
#include "file/new_file.h"
#include "file/posix_calls.h"

namespace msj::cli {

// Where a result named `path` goes: what its symlinks lead to. Throws Failure where they lead to no place.
[[nodiscard]] std::filesystem::path output_target(const std::filesystem::path &path);

// Before any work: throws Failure where no file could be written there at the end.
void check_output_file(const std::string &file);

// Whatever fails throws std::runtime_error with one sentence that names the target. The temporary is gone with the
// object, unless it was published.
class NewFile {
 public:
  // `target`: no symlink, which would be replaced, not followed.
  explicit NewFile(std::filesystem::path target, Temporary kind = Temporary::nameless);

  void write(std::span<const std::byte> data);
  void sync();     // everything is on the disk, or it throws
  void publish();  // after sync()

 private:
  struct Calls : PosixCalls {
    std::optional<mode_t> mode;  // of what is made; else as the umask leaves it
    int open(int directory, const std::string &name, int flags, mode_t made) const;
  };
  void refuse(const FileFailure &failure) const;

  std::filesystem::path target_;
  FileDescriptor folder_;
  StagedFile<Calls> staged_;
};

}  // namespace msj::cli
