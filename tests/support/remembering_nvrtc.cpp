// NVRTC, asked once for each source and its options: what a process compiles again it is given from memory. It is
// itself loaded as an NVRTC, so that all that is counted and kept is as with the real one. See remembered_compiles.h.
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/nvrtc.h"

namespace {

using msj::cuda::Nvrtc;

// Null where there is none.
const Nvrtc *real() {
  static const std::shared_ptr<const Nvrtc> nvrtc = []() -> std::shared_ptr<const Nvrtc> {
    try {
      msj::Settings settings;
      if (const char *path = std::getenv("MSJ_REAL_LIBNVRTC")) settings.libnvrtc = path;
      return Nvrtc::load(settings);
    } catch (const std::exception &) {
      return nullptr;
    }
  }();
  return nvrtc.get();
}

struct Compiled {
  nvrtcResult result = NVRTC_ERROR_INTERNAL_ERROR;
  std::string log;
  std::string cubin;
};

struct Program {
  std::string source;
  std::string name;
  std::shared_ptr<const Compiled> compiled;
};

std::shared_ptr<const Compiled> compile(const Program &program, const std::vector<const char *> &options) {
  auto compiled = std::make_shared<Compiled>();
  nvrtcProgram handle = nullptr;
  compiled->result = real()->CreateProgram(&handle, program.source.c_str(), program.name.c_str(), 0, nullptr, nullptr);
  if (compiled->result != NVRTC_SUCCESS) return compiled;
  compiled->result = real()->CompileProgram(handle, static_cast<int>(options.size()), options.data());
  std::size_t size = 0;
  if (real()->GetProgramLogSize(handle, &size) == NVRTC_SUCCESS) {
    compiled->log.resize(size);
    (void)real()->GetProgramLog(handle, compiled->log.data());
  }
  if (compiled->result == NVRTC_SUCCESS && real()->GetCUBINSize(handle, &size) == NVRTC_SUCCESS) {
    compiled->cubin.resize(size);
    (void)real()->GetCUBIN(handle, compiled->cubin.data());
  }
  (void)real()->DestroyProgram(&handle);
  return compiled;
}

std::shared_ptr<const Compiled> remembered(const Program &program, const std::vector<const char *> &options) {
  static std::mutex mutex;
  static std::map<std::vector<std::string>, std::shared_ptr<const Compiled>> all;
  std::vector<std::string> key = {program.source, program.name};
  key.insert(key.end(), options.begin(), options.end());
  {
    const std::scoped_lock lock(mutex);
    if (const auto known = all.find(key); known != all.end()) return known->second;
  }
  const auto compiled = compile(program, options);
  const std::scoped_lock lock(mutex);
  return all.emplace(std::move(key), compiled).first->second;
}

Program &of(nvrtcProgram program) { return *reinterpret_cast<Program *>(program); }

nvrtcResult give_size(const std::string &text, std::size_t *size) {
  *size = text.size();
  return NVRTC_SUCCESS;
}

nvrtcResult give(const std::string &text, char *to) {
  text.copy(to, text.size());
  return NVRTC_SUCCESS;
}

}  // namespace

#define MSJ_VISIBLE __attribute__((visibility("default")))
extern "C" {

MSJ_VISIBLE const char *nvrtcGetErrorString(nvrtcResult result) {
  return real() == nullptr ? "there is no real NVRTC" : real()->GetErrorString(result);
}
MSJ_VISIBLE nvrtcResult nvrtcVersion(int *major, int *minor) {
  return real() == nullptr ? NVRTC_ERROR_INTERNAL_ERROR : real()->Version(major, minor);
}
MSJ_VISIBLE nvrtcResult nvrtcGetNumSupportedArchs(int *count) { return real()->GetNumSupportedArchs(count); }
MSJ_VISIBLE nvrtcResult nvrtcGetSupportedArchs(int *all) { return real()->GetSupportedArchs(all); }

MSJ_VISIBLE nvrtcResult nvrtcCreateProgram(nvrtcProgram *program, const char *source, const char *name, int,
                                           const char *const *, const char *const *) {
  *program = reinterpret_cast<nvrtcProgram>(new Program{source, name, {}});
  return NVRTC_SUCCESS;
}
MSJ_VISIBLE nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program) {
  delete &of(*program);
  *program = nullptr;
  return NVRTC_SUCCESS;
}
MSJ_VISIBLE nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char *const *options) {
  of(program).compiled = remembered(of(program), {options, options + count});
  return of(program).compiled->result;
}
MSJ_VISIBLE nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *size) {
  return give_size(of(program).compiled->cubin, size);
}
MSJ_VISIBLE nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *cubin) {
  return give(of(program).compiled->cubin, cubin);
}
MSJ_VISIBLE nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *size) {
  return give_size(of(program).compiled->log, size);
}
MSJ_VISIBLE nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *log) {
  return give(of(program).compiled->log, log);
}

}  // extern "C"
