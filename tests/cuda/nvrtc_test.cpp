// Real NVRTC throughout.
#include "cuda/nvrtc.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include "cuda/world.h"

using namespace msj;
using cuda::Nvrtc;
namespace fs = std::filesystem;

namespace {

const std::shared_ptr<const Nvrtc> &nvrtc() {
  static const std::shared_ptr<const Nvrtc> loaded = Nvrtc::load(Settings{});
  return loaded;
}

std::string kernel(int number) {
  return "extern \"C\" __global__ void k" + std::to_string(number) + "(int *out) { *out = " + std::to_string(number) +
         "; }";
}

Nvrtc::Result compile(const std::string &source, const char *architecture, Counters &counters,
                      const std::vector<std::string> &options = {}) {
  return nvrtc()->compile(source, "test.cu", cuda::parse_architecture(architecture), options, counters);
}

// The file that NVRTC was loaded from.
fs::path nvrtc_path() {
  Dl_info found{};
  REQUIRE(dladdr(reinterpret_cast<const void *>(nvrtc()->Version), &found) != 0);
  return fs::canonical(found.dli_fname);
}

// Runs one test case of this program in a process of its own, where no NVRTC is loaded yet. Its output. By process, not
// by path: a build may replace the file meanwhile.
std::string run_alone(const std::string &test_case, const std::string &environment) {
  const std::string command = environment + " " + "/proc/" + std::to_string(getpid()) + "/exe" +
                              " --no-skip --test-case='" + test_case + "' 2>&1";
  std::string output;
  std::array<char, 4096> chunk{};
  FILE *pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  while (std::fgets(chunk.data(), chunk.size(), pipe) != nullptr) output += chunk.data();
  CHECK_MESSAGE(pclose(pipe) == 0, output);
  return output;
}

// A directory of its own, removed afterwards.
struct Scratch {
  fs::path path = fs::temp_directory_path() / ("msj_nvrtc_test." + std::to_string(getpid()));
  Scratch() { fs::create_directories(path); }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

}  // namespace

TEST_CASE("no libnvrtc where it is pointed to: which library, where, how to point to it") {
  Settings settings;
  settings.libnvrtc = "/nowhere/libnvrtc.so.13";
  const auto failure = world::failure_of([&] { (void)Nvrtc::load(settings); });
  CHECK(failure.status == MSJ_ERROR_NO_NVRTC);
  CHECK_NAMES(failure, "libnvrtc");
  CHECK_NAMES(failure, "not found; looked for: /nowhere/libnvrtc.so.13; install");
  CHECK_NAMES(failure, "MAXSIM_JIT_LIBNVRTC");
}

TEST_CASE("a library that is no NVRTC") {
  Settings settings;
  settings.libnvrtc = "libm.so.6";
  const auto failure = world::failure_of([&] { (void)Nvrtc::load(settings); });
  CHECK(failure.status == MSJ_ERROR_NO_NVRTC);
  CHECK_NAMES(failure, "libm.so.6");
  CHECK_NAMES(failure, "nvrtcGetErrorString");
}

TEST_CASE("a kernel becomes a cubin of its architecture; ptxas's report is in the log") {
  Counters counters;
  const auto result = compile(kernel(1), "sm_90a", counters, {"--ptxas-options=-v"});
  REQUIRE(result.cubin.size() > 64);
  CHECK(result.cubin.substr(0, 4) ==
        "\x7f"
        "ELF");
  CHECK(result.cubin.find(".text.k1") != std::string::npos);
  CHECK_MESSAGE(result.log.find("'sm_90a'") != std::string::npos, result.log);
  CHECK_MESSAGE(result.log.find("registers") != std::string::npos, result.log);
  CHECK(result.log.find('\0') == std::string::npos);
  CHECK(counters.nvrtc_invocations == 1);
  CHECK(counters.nvrtc_nanoseconds > 0);
}

TEST_CASE("every architecture of the table compiles where this NVRTC knows it") {
  for (const char *name : {"sm_80", "sm_86", "sm_87", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_120a", "sm_121a"}) {
    Counters counters;
    const auto failure = world::failure_of([&] { CHECK_FALSE(compile(kernel(2), name, counters).cubin.empty()); });
    if (failure.status == MSJ_OK) continue;
    CHECK(failure.status == MSJ_ERROR_NO_NVRTC);
    CHECK_NAMES(failure, name);
    CHECK(counters.nvrtc_invocations == 0);
  }
}

TEST_CASE("an architecture that this NVRTC is too old for: both versions, and nothing was compiled") {
  Counters counters;
  const auto unknown = world::failure_of(
      [&] { (void)nvrtc()->compile(kernel(3), "test.cu", cuda::architecture_of(199), {}, counters); });
  CHECK(unknown.status == MSJ_ERROR_NO_NVRTC);
  CHECK_NAMES(unknown, "NVRTC " + nvrtc()->version());
  CHECK_NAMES(unknown, "sm_199");
  cuda::Architecture later = cuda::parse_architecture("sm_90a");
  later.first_nvrtc = "99.1";
  const auto known = world::failure_of([&] { (void)nvrtc()->compile(kernel(3), "test.cu", later, {}, counters); });
  CHECK(known.status == MSJ_ERROR_NO_NVRTC);
  CHECK_NAMES(known, "NVRTC " + nvrtc()->version());
  CHECK_NAMES(known, "99.1 or newer");
  CHECK(counters.nvrtc_invocations == 0);
}

TEST_CASE("source that is refused: the program's name and the log's first lines; it counts") {
  Counters counters;
  std::string source;
  for (int i = 0; i < 100; ++i) source += "undeclared_" + std::to_string(i) + " x" + std::to_string(i) + ";\n";
  const auto failure = world::failure_of([&] { (void)compile(source, "sm_80", counters); });
  CHECK(failure.status == MSJ_ERROR_COMPILE);
  CHECK_NAMES(failure, "test.cu");
  CHECK_NAMES(failure, "undeclared_0");
  CHECK_FALSE(failure.names("undeclared_50"));
  CHECK(counters.nvrtc_invocations == 1);
  CHECK(counters.nvrtc_nanoseconds > 0);
}

TEST_CASE("an option that NVRTC does not know is a compile error, not a crash") {
  Counters counters;
  const auto failure = world::failure_of([&] { (void)compile(kernel(4), "sm_80", counters, {"--no-such-option"}); });
  CHECK(failure.status == MSJ_ERROR_COMPILE);
  CHECK_NAMES(failure, "no-such-option");
}

namespace {

std::vector<std::vector<std::string>> seen_options;

nvrtcResult spy(nvrtcProgram program, int count, const char *const *options) {
  seen_options.emplace_back(options, options + count);
  return nvrtc()->CompileProgram(program, count, options);
}

}  // namespace

TEST_CASE("NVRTC's own cache is off where it has one, and what is counted is what was called") {
  Nvrtc spied = std::move(*std::const_pointer_cast<Nvrtc>(Nvrtc::load(Settings{})));
  spied.CompileProgram = spy;
  Counters counters;
  (void)spied.compile(kernel(5), "test.cu", cuda::parse_architecture("sm_90a"), {"--std=c++17"}, counters);
  (void)spied.compile(kernel(5), "test.cu", cuda::parse_architecture("sm_80"), {}, counters);
  CHECK_THROWS_AS((void)spied.compile("?", "test.cu", cuda::parse_architecture("sm_80"), {}, counters), Error);
  REQUIRE(seen_options.size() == 3);
  CHECK(counters.nvrtc_invocations == 3);
  const bool caches = std::stod(nvrtc()->version()) >= 12.9;
  using Options = std::vector<std::string>;
  CHECK(seen_options[0] == (caches ? Options{"--gpu-architecture=sm_90a", "--no-cache", "--std=c++17"}
                                   : Options{"--gpu-architecture=sm_90a", "--std=c++17"}));
  CHECK(seen_options[1].front() == "--gpu-architecture=sm_80");
}

TEST_CASE("threads compile at once, each its own program") {
  Counters counters;
  std::array<Nvrtc::Result, 8> results;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&results, &counters, i] {
      results[static_cast<std::size_t>(i)] = compile(kernel(i), i % 2 == 0 ? "sm_80" : "sm_90a", counters);
    });
  }
  for (std::thread &thread : threads) thread.join();
  CHECK(counters.nvrtc_invocations == 8);
  for (int i = 0; i < 8; ++i) {
    const std::string &cubin = results[static_cast<std::size_t>(i)].cubin;
    CHECK(cubin.find(".text.k" + std::to_string(i)) != std::string::npos);
    Counters alone;
    CHECK(cubin == compile(kernel(i), i % 2 == 0 ? "sm_80" : "sm_90a", alone).cubin);
  }
}

// ---- libraries elsewhere, each in a fresh process: a process loads NVRTC's builtins once ----

TEST_CASE("alone: compile with the NVRTC of the environment" * doctest::skip()) {
  Settings settings;
  const char *path = std::getenv("MSJ_TEST_NVRTC");
  REQUIRE(path != nullptr);
  settings.libnvrtc = path;
  const auto library = Nvrtc::load(settings);
  Counters counters;
  const auto failure = world::failure_of(
      [&] { (void)library->compile(kernel(1), "test.cu", cuda::parse_architecture("sm_80"), {}, counters); });
  std::printf("status=%d invocations=%d %s\n", failure.status, static_cast<int>(counters.nvrtc_invocations),
              failure.sentence.c_str());
}

TEST_CASE("an NVRTC without intact builtins: the error names the file and where it must lie") {
  // A copy of libnvrtc alone, and a damaged builtins library that the loader finds before any installed one: what a
  // machine without the installed one sees.
  const Scratch scratch;
  const fs::path original = nvrtc_path();
  const std::string builtins = "libnvrtc-builtins.so." + nvrtc()->version();
  const fs::path copy = scratch.path / original.filename();
  fs::copy_file(original, copy);
  std::ofstream(scratch.path / builtins) << "cut off";
  const std::string output = run_alone("alone: compile with the NVRTC of the environment",
                                       "MSJ_TEST_NVRTC=" + copy.string() + " LD_LIBRARY_PATH=" + scratch.path.string());
  CHECK_MESSAGE(output.find("status=" + std::to_string(MSJ_ERROR_NO_NVRTC)) != std::string::npos, output);
  CHECK_MESSAGE(output.find("invocations=1") != std::string::npos, output);
  CHECK_MESSAGE(output.find(builtins) != std::string::npos, output);
  CHECK_MESSAGE(output.find(scratch.path.string()) != std::string::npos, output);
}

TEST_CASE("an NVRTC outside the loader's directories finds the builtins beside it") {
  // The damaged one hides those that the loader would find by name alone.
  const Scratch scratch;
  const fs::path original = nvrtc_path();
  const std::string builtins = "libnvrtc-builtins.so." + nvrtc()->version();
  REQUIRE(fs::exists(original.parent_path() / builtins));
  fs::create_directories(scratch.path / "damaged");
  std::ofstream(scratch.path / "damaged" / builtins) << "cut off";
  fs::create_symlink(original, scratch.path / "libnvrtc.so");
  const std::string hide = " LD_LIBRARY_PATH=" + (scratch.path / "damaged").string();
  for (const fs::path &path : {original, scratch.path / "libnvrtc.so"}) {
    const std::string output =
        run_alone("alone: compile with the NVRTC of the environment", "MSJ_TEST_NVRTC=" + path.string() + hide);
    CHECK_MESSAGE(output.find("status=0 invocations=1") != std::string::npos, output);
  }
}

TEST_CASE("alone: is NVRTC mapped" * doctest::skip()) {
  std::ifstream maps("/proc/self/maps");
  const std::string text(std::istreambuf_iterator<char>(maps), {});
  std::printf("mapped=%d\n", text.find("libnvrtc") != std::string::npos ? 1 : 0);
}

TEST_CASE("a process that does not compile has no NVRTC mapped") {
  const std::string output = run_alone("alone: is NVRTC mapped", "");
  CHECK_MESSAGE(output.find("mapped=0") != std::string::npos, output);
}
