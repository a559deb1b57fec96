// A shared library opened at run time, and where it was looked for when it was not found.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace msj::cuda {

class SharedLibrary {
 public:
  // Opens the first of `candidates` (sonames or paths) that loads. On failure holds nothing and keeps `attempts`, one
  // line each: the candidate, and the loader's reason if it is another than that there is none.
  // What is opened stays mapped until the process ends: the driver and NVRTC keep threads and thread-local state of
  // their own, which unloading would pull the code from under.
  [[nodiscard]] static SharedLibrary open(std::span<const std::string> candidates);

  SharedLibrary() = default;
  SharedLibrary(SharedLibrary &&other) noexcept;
  SharedLibrary &operator=(SharedLibrary &&other) noexcept;
  ~SharedLibrary();

  [[nodiscard]] explicit operator bool() const { return handle_ != nullptr; }
  [[nodiscard]] void *symbol(const char *name) const;  // null if there is none
  [[nodiscard]] const std::string &opened_as() const { return opened_as_; }
  [[nodiscard]] const std::vector<std::string> &attempts() const { return attempts_; }

 private:
  void *handle_ = nullptr;
  std::string opened_as_;
  std::vector<std::string> attempts_;
};

// Fills one member of a function table; false if the library has no such symbol.
template <typename Function>
[[nodiscard]] bool resolve(const SharedLibrary &library, const char *symbol, Function &member) {
  member = reinterpret_cast<Function>(library.symbol(symbol));
  return member != nullptr;
}

}  // namespace msj::cuda
