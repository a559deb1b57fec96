// Kernel sources: embedded in the library at build, or read from a folder (MAXSIM_JIT_KERNEL_DIR) for development.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace msj::jit {

// name ("dense_forward.portable.cu", "common/ptx.cuh") → text; generated from kernels/ at build.
[[nodiscard]] const std::map<std::string, std::string_view, std::less<>> &embedded_kernels();

class KernelSources {
 public:
  explicit KernelSources(std::string kernel_dir) : kernel_dir_(std::move(kernel_dir)) {}

  // The file with every `#include "…"` replaced by that file's text, once each. Read once per context.
  // Throws Error(MSJ_ERROR_INTERNAL, or MSJ_ERROR_IO with a kernel folder) for a file that is not there.
  [[nodiscard]] const std::string &expanded(const std::string &name);

 private:
  [[nodiscard]] std::string text(const std::string &name) const;

  std::string kernel_dir_;
  std::mutex mutex_;
  std::map<std::string, std::string> expanded_;
};

}  // namespace msj::jit
