#include "cuda/shared_library.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <utility>

namespace msj::cuda {

namespace {

// dlerror() starts with the file's name where it has one; "libx.so: reason" either way. That it isn't there is what
// whoever says where it was looked for says already; but of a library that it needs, it is news.
std::string describe_failure(const std::string &candidate) {
  const char *reason = dlerror();
  if (reason == nullptr) return candidate + ": unknown reason";
  const std::string text = reason;
  if (!text.starts_with(candidate + ":")) return candidate + ": " + text;
  return text.ends_with(": No such file or directory") ? candidate : text;
}

// The loader would wait at a FIFO for somebody to write to it. What has no slash is a name, which the loader looks for.
bool is_other_than_file(const std::string &candidate) {
  struct stat status {};
  return candidate.find('/') != std::string::npos && ::stat(candidate.c_str(), &status) == 0 &&
         !S_ISREG(status.st_mode);
}

}  // namespace

SharedLibrary SharedLibrary::open(std::span<const std::string> candidates) {
  SharedLibrary library;
  for (const std::string &candidate : candidates) {
    if (is_other_than_file(candidate)) {
      library.attempts_.push_back(candidate + ": it is no regular file");
      continue;
    }
    library.handle_ = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library.handle_ != nullptr) {
      library.opened_as_ = candidate;
      return library;
    }
    library.attempts_.push_back(describe_failure(candidate));
  }
  return library;
}

SharedLibrary::SharedLibrary(SharedLibrary &&other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)),
      opened_as_(std::move(other.opened_as_)),
      attempts_(std::move(other.attempts_)) {}

SharedLibrary &SharedLibrary::operator=(SharedLibrary &&other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(opened_as_, other.opened_as_);
  std::swap(attempts_, other.attempts_);
  return *this;
}

SharedLibrary::~SharedLibrary() {
  if (handle_ != nullptr) dlclose(handle_);
}

void *SharedLibrary::symbol(const char *name) const { return handle_ == nullptr ? nullptr : dlsym(handle_, name); }

}  // namespace msj::cuda
