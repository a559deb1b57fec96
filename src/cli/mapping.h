// A file's bytes in memory, read by the kernel where they are touched.
//
// A file that another program truncates loses the pages behind its new end: touching them raises SIGBUS. No lock
// prevents that, so the command explains it: one sentence that names the file, and exit 1.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace msj::cli {

struct MappedPlace;

class Mapping {
 public:
  // Of `size` bytes from the start. The descriptor may be closed afterwards. Throws std::runtime_error.
  Mapping(int descriptor, std::size_t size, std::string_view file);
  ~Mapping();
  Mapping(const Mapping &) = delete;
  Mapping &operator=(const Mapping &) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const { return {static_cast<const std::byte *>(address_), size_}; }

 private:
  void *address_ = nullptr;
  std::size_t size_;
  std::string sentence_;  // for the signal handler, which can't make one
  MappedPlace *place_ = nullptr;
};

// Installs the handler of SIGBUS, for the whole process. A fault elsewhere ends it as before.
void explain_truncated_files();

}  // namespace msj::cli
