#include "cuda/nvrtc.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace msj::cuda {

namespace {

namespace fs = std::filesystem;

constexpr std::pair<int, int> kFirstWithCache = {12, 9};  // the first that caches, and knows --no-cache
constexpr std::size_t kLogLines = 12;

std::vector<std::string> candidates(const Settings &settings) {
  if (!settings.libnvrtc.empty()) return {settings.libnvrtc};
  const std::vector<std::string> names = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  std::vector<std::string> all = names;
#if defined(__aarch64__)
  constexpr const char *kTarget = "/usr/local/cuda/targets/sbsa-linux/lib";
  constexpr const char *kDebian = "/usr/lib/aarch64-linux-gnu";
#else
  constexpr const char *kTarget = "/usr/local/cuda/targets/x86_64-linux/lib";
  constexpr const char *kDebian = "/usr/lib/x86_64-linux-gnu";
#endif
  for (const char *directory : {"/usr/local/cuda/lib64", kTarget, "/usr/local/cuda/lib", kDebian}) {
    for (const std::string &name : names) all.push_back(fmt::format("{}/{}", directory, name));
  }
  return all;
}

SharedLibrary open_library(const Settings &settings) {
  SharedLibrary library = SharedLibrary::open(candidates(settings));
  if (library) return library;
  throw_error(MSJ_ERROR_NO_NVRTC,
              "the CUDA compiler's library libnvrtc was not found; looked for: {}; install NVRTC (the package "
              "cuda-nvrtc, or nvidia-cuda-nvrtc from PyPI), or set MAXSIM_JIT_LIBNVRTC to the path of libnvrtc.so",
              fmt::join(library.attempts(), ", "));
}

// The file that NVRTC's code was loaded from, as the loader found it.
fs::path path_of(const Nvrtc &nvrtc) {
  Dl_info found{};
  if (dladdr(reinterpret_cast<const void *>(nvrtc.Version), &found) == 0 || found.dli_fname == nullptr) return {};
  return found.dli_fname;
}

std::string builtins_name(const Nvrtc &nvrtc) { return "libnvrtc-builtins.so." + nvrtc.version(); }

// {12, 8} of "12.8"; {0, 0} of "".
std::pair<int, int> parse_version(const std::string &version) {
  std::pair<int, int> parsed{0, 0};
  (void)std::sscanf(version.c_str(), "%d.%d", &parsed.first, &parsed.second);
  return parsed;
}

// On one line, as every sentence is.
std::string first_lines(std::string_view log) {
  std::string text;
  for (std::size_t line = 0; line < kLogLines && !log.empty(); ++line) {
    const std::size_t end = std::min(log.find('\n'), log.size());
    const std::string_view words = log.substr(0, end);
    if (!text.empty() && !words.empty()) text += " | ";
    text += words;
    log.remove_prefix(std::min(end + 1, log.size()));
  }
  return text;
}

// Owns an nvrtcProgram.
class Program {
 public:
  Program(const Nvrtc &nvrtc, const std::string &source, const std::string &name) : nvrtc_(nvrtc) {
    const nvrtcResult result = nvrtc.CreateProgram(&program_, source.c_str(), name.c_str(), 0, nullptr, nullptr);
    if (result == NVRTC_SUCCESS) return;
    throw_error(result == NVRTC_ERROR_OUT_OF_MEMORY ? MSJ_ERROR_OUT_OF_MEMORY : MSJ_ERROR_COMPILE,
                "NVRTC {} takes no program {}: {}", nvrtc.version(), name, nvrtc.GetErrorString(result));
  }
  ~Program() { (void)nvrtc_.DestroyProgram(&program_); }
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;
  [[nodiscard]] nvrtcProgram get() const { return program_; }

  [[nodiscard]] std::string log() const {
    std::size_t size = 0;
    if (nvrtc_.GetProgramLogSize(program_, &size) != NVRTC_SUCCESS || size <= 1) return {};
    std::string text(size, '\0');
    if (nvrtc_.GetProgramLog(program_, text.data()) != NVRTC_SUCCESS) return {};
    return text.substr(0, text.find('\0'));  // it ends in one or more zeros
  }

  [[nodiscard]] std::string cubin() const {
    std::size_t size = 0;
    std::string bytes;
    nvrtcResult result = nvrtc_.GetCUBINSize(program_, &size);
    if (result == NVRTC_SUCCESS) {
      bytes.resize(size);
      result = nvrtc_.GetCUBIN(program_, bytes.data());
    }
    if (result == NVRTC_SUCCESS && size > 0) return bytes;
    throw_error(MSJ_ERROR_COMPILE, "NVRTC {} gives no cubin: {}", nvrtc_.version(), nvrtc_.GetErrorString(result));
  }

 private:
  const Nvrtc &nvrtc_;
  nvrtcProgram program_ = nullptr;
};

// The one call of nvrtcCompileProgram: counted and timed, whatever comes of it.
nvrtcResult counted_compile(const Nvrtc &nvrtc, const Program &program, const std::vector<const char *> &options,
                            Counters &counters) {
  const auto start = std::chrono::steady_clock::now();
  counters.nvrtc_invocations += 1;
  const nvrtcResult result = nvrtc.CompileProgram(program.get(), static_cast<int>(options.size()), options.data());
  counters.nvrtc_nanoseconds +=
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace

std::shared_ptr<const Nvrtc> Nvrtc::load(const Settings &settings) {
  const auto nvrtc = std::make_shared<Nvrtc>();
  nvrtc->library_ = open_library(settings);
  nvrtc->resolve_functions();
  nvrtc->read_version();
  nvrtc->open_builtins();
  return nvrtc;
}

void Nvrtc::resolve_functions() {
  const auto require = [this](const char *symbol, auto &member) {
    if (resolve(library_, symbol, member)) return;
    throw_error(MSJ_ERROR_NO_NVRTC,
                "{} lacks the function {}: it is no NVRTC, or one before 12.0; set MAXSIM_JIT_LIBNVRTC to a newer one",
                opened_as(), symbol);
  };
#define MSJ_RESOLVE_MEMBER(member, symbol) require(#symbol, member);
  MSJ_NVRTC_FUNCTIONS(MSJ_RESOLVE_MEMBER)
#undef MSJ_RESOLVE_MEMBER
}

void Nvrtc::read_version() {
  int major = 0;
  int minor = 0;
  int count = 0;
  nvrtcResult result = Version(&major, &minor);
  if (result == NVRTC_SUCCESS) result = GetNumSupportedArchs(&count);
  if (result == NVRTC_SUCCESS) {
    supported_.resize(static_cast<std::size_t>(count));
    result = GetSupportedArchs(supported_.data());
  }
  if (result != NVRTC_SUCCESS) {
    throw_error(MSJ_ERROR_NO_NVRTC, "{} does not tell what it supports: {}", opened_as(), GetErrorString(result));
  }
  version_ = fmt::format("{}.{}", major, minor);
}

// NVRTC opens its builtins by name alone, so the loader finds those beside a libnvrtc outside its own directories only
// if they are open already. Where there are none beside it, NVRTC looks in the loader's directories itself.
void Nvrtc::open_builtins() {
  const fs::path path = path_of(*this);
  std::error_code ignored;
  const fs::path real_path = fs::canonical(path, ignored);
  const std::string name = builtins_name(*this);
  const std::vector<std::string> beside = {(path.parent_path() / name).string(),
                                           (real_path.parent_path() / name).string()};
  builtins_ = SharedLibrary::open(beside);
}

Nvrtc::Result Nvrtc::compile(const std::string &source, const std::string &program_name,
                             const Architecture &architecture, const std::vector<std::string> &options,
                             Counters &counters) const {
  require_support(architecture);
  std::vector<std::string> all = {"--gpu-architecture=" + architecture.name};
  if (parse_version(version_) >= kFirstWithCache) all.emplace_back("--no-cache");
  all.insert(all.end(), options.begin(), options.end());
  std::vector<const char *> pointers;
  for (const std::string &option : all) pointers.push_back(option.c_str());

  const Program program(*this, source, program_name);
  const nvrtcResult result = counted_compile(*this, program, pointers, counters);
  if (result != NVRTC_SUCCESS) throw_failure(result, program_name, architecture, program.log());
  return {program.cubin(), program.log()};
}

void Nvrtc::require_support(const Architecture &architecture) const {
  const bool listed =
      std::find(supported_.begin(), supported_.end(), architecture.compute_capability) != supported_.end();
  if (listed && parse_version(version_) >= parse_version(architecture.first_nvrtc)) return;
  const std::string needed = architecture.first_nvrtc.empty() ? "a newer one" : architecture.first_nvrtc + " or newer";
  throw_error(MSJ_ERROR_NO_NVRTC,
              "NVRTC {} (opened as {}) is too old for {}: {} is needed; set MAXSIM_JIT_LIBNVRTC to its path", version_,
              opened_as(), architecture.name, needed);
}

void Nvrtc::throw_failure(nvrtcResult result, const std::string &program_name, const Architecture &architecture,
                          const std::string &log) const {
  if (result == NVRTC_ERROR_BUILTIN_OPERATION_FAILURE || log.find("libnvrtc-builtins") != std::string::npos) {
    throw_error(MSJ_ERROR_NO_NVRTC,
                "NVRTC {} cannot open its builtins library: an intact {} must lie beside libnvrtc, in {}, or in a "
                "directory that the loader searches; NVRTC says: {}",
                version_, builtins_name(*this), path_of(*this).parent_path().string(), first_lines(log));
  }
  const msj_status status = result == NVRTC_ERROR_OUT_OF_MEMORY ? MSJ_ERROR_OUT_OF_MEMORY : MSJ_ERROR_COMPILE;
  throw_error(status, "NVRTC {} refuses {} for {}: {}: {}", version_, program_name, architecture.name,
              GetErrorString(result), first_lines(log));
}

}  // namespace msj::cuda
