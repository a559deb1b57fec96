// libnvrtc, opened at run time: one table of its functions, and the one call of nvrtcCompileProgram.
#pragma once

#include <nvrtc.h>

#include <memory>
#include <string>
#include <vector>

#include "base/counters.h"
#include "base/settings.h"
#include "cuda/architecture.h"
#include "cuda/shared_library.h"

namespace msj::cuda {

#define MSJ_NVRTC_FUNCTIONS(X)                       \
  X(GetErrorString, nvrtcGetErrorString)             \
  X(Version, nvrtcVersion)                           \
  X(GetNumSupportedArchs, nvrtcGetNumSupportedArchs) \
  X(GetSupportedArchs, nvrtcGetSupportedArchs)       \
  X(CreateProgram, nvrtcCreateProgram)               \
  X(DestroyProgram, nvrtcDestroyProgram)             \
  X(CompileProgram, nvrtcCompileProgram)             \
  X(GetCUBINSize, nvrtcGetCUBINSize)                 \
  X(GetCUBIN, nvrtcGetCUBIN)                         \
  X(GetProgramLogSize, nvrtcGetProgramLogSize)       \
  X(GetProgramLog, nvrtcGetProgramLog)

class Nvrtc {
 public:
  // Throws Error(MSJ_ERROR_NO_NVRTC): which library, where it was looked for, how to point to it
  // (MAXSIM_JIT_LIBNVRTC).
  [[nodiscard]] static std::shared_ptr<const Nvrtc> load(const Settings &settings);

#define MSJ_DECLARE_MEMBER(member, symbol) decltype(&::symbol) member = nullptr;
  MSJ_NVRTC_FUNCTIONS(MSJ_DECLARE_MEMBER)
#undef MSJ_DECLARE_MEMBER

  [[nodiscard]] const std::string &version() const { return version_; }  // "13.0"
  [[nodiscard]] const std::string &opened_as() const { return library_.opened_as(); }

  struct Result {
    std::string cubin;
    std::string log;  // warnings, ptxas's report of registers and spills when asked for
  };
  // Compiles to machine code for `architecture`, with NVRTC's own cache off. Counts one invocation, failed or not.
  // Throws Error: MSJ_ERROR_NO_NVRTC if this NVRTC is too old for the architecture (names both versions) or lacks its
  // builtins library (names it and where it must lie); MSJ_ERROR_COMPILE with the first lines of the log.
  [[nodiscard]] Result compile(const std::string &source, const std::string &program_name,
                               const Architecture &architecture, const std::vector<std::string> &options,
                               Counters &counters) const;

 private:
  void resolve_functions();
  void read_version();
  void open_builtins();
  void require_support(const Architecture &architecture) const;
  [[noreturn]] void throw_failure(nvrtcResult result, const std::string &program_name, const Architecture &architecture,
                                  const std::string &log) const;

  SharedLibrary library_;
  SharedLibrary builtins_;  // where they lie beside libnvrtc
  std::string version_;
  std::vector<int> supported_;  // {75, 80, 86, …}
};

}  // namespace msj::cuda
