// An exclusive lock on a file, across threads, contexts and processes: flock on a description of one's own.
//
// The kernel releases it when its holder dies. A lock file is removed only under its own lock, and whoever gets the
// lock of a removed file tries again, so that two holders of one name can't be.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "store/trust.h"

namespace msj::store {

class FileLock {
 public:
  FileLock(std::shared_ptr<Files> files, Handle file) : files_(std::move(files)), file_(std::move(file)) {}
  ~FileLock();
  FileLock(const FileLock &) = delete;
  FileLock &operator=(const FileLock &) = delete;

 private:
  std::shared_ptr<Files> files_;  // outlives file_
  Handle file_;
};

struct LockResult {
  std::unique_ptr<FileLock> lock;  // null: not got
  std::string path;                // of what is to blame
  std::string problem;             // "": only the time ran out
  bool folder_gone = false;        // removed meanwhile: worth another try
  bool is_kept_out = false;        // nothing could be made in the folder; else what `path` names is to blame alone
};

// Waits up to `timeout`, asking again after 1 ms first and up to 50 ms later.
[[nodiscard]] LockResult lock_file(const std::shared_ptr<Files> &files, const Opened &folder, const std::string &name,
                                   std::chrono::duration<double> timeout);

// Removes a lock file unless somebody holds it. Whether it is gone.
bool remove_idle_lock(Files &files, const Opened &folder, const std::string &name);

}  // namespace msj::store
