// Owns an open file.
#pragma once

#include <unistd.h>

#include <utility>

namespace msj::cli {

class FileDescriptor {
 public:
  explicit FileDescriptor(int value) : value_(value) {}
  ~FileDescriptor() {
    if (value_ >= 0) ::close(value_);
  }
  FileDescriptor(FileDescriptor &&other) noexcept : value_(std::exchange(other.value_, -1)) {}
  FileDescriptor &operator=(FileDescriptor &&other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }

  [[nodiscard]] int get() const { return value_; }
  [[nodiscard]] int close() { return ::close(std::exchange(value_, -1)); }  // NFS reports a full disk here

 private:
  int value_;
};

}  // namespace msj::cli
