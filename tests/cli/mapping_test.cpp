#include "cli/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "npy_files.h"

using namespace msj::testing;

namespace {

struct Ending {
  int status;
  std::string said;
};

// What a child process says on stderr, and how it ends.
Ending ending_of(const TemporaryFolder &folder, const std::function<void()> &action) {
  const fs::path path = folder / "stderr";
  const pid_t child = ::fork();
  if (child == 0) {
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(descriptor, STDERR_FILENO);
    action();
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return {status, contents(path)};
}

void touch(const std::byte &byte) { (void)*static_cast<const volatile std::byte *>(&byte); }

}  // namespace

TEST_CASE("a file that is truncated while it is mapped is one sentence and exit 1") {
  const TemporaryFolder folder;
  const fs::path path = folder / "a\nb.npy";
  put(path, file_of(header_of("|u1", "(50000,)"), std::string(50000, 'x')));
  const fs::path sound = folder / "sound.npy";
  put(sound, file_of(header_of("|u1", "(50000,)"), std::string(50000, 'x')));
  const Ending ending = ending_of(folder, [&] {
    explain_truncated_files();
    const NpyArray other = read_npy(sound);
    const NpyArray array = read_npy(path);
    if (::truncate(path.c_str(), 100) != 0) ::_exit(9);
    touch(array.data[49999]);
  });
  REQUIRE(WIFEXITED(ending.status));
  CHECK(WEXITSTATUS(ending.status) == 1);
  CHECK(ending.said == "maxsim-jit: " + (folder / "a\\x0ab.npy").native() +
                           ": the file became shorter while it was read, or its disk failed; a file that nobody "
                           "changes is accepted\n");
}

TEST_CASE("each of many files is explained, whatever was mapped before") {
  const TemporaryFolder folder;
  const std::string content = file_of(header_of("|u1", "(50000,)"), std::string(50000, 'x'));
  for (int i = 0; i < 100; ++i) put(folder / std::to_string(i), content);
  for (const char *name : {"0", "50", "99"}) {
    const Ending ending = ending_of(folder, [&] {
      explain_truncated_files();
      std::vector<NpyArray> arrays;
      for (int round = 0; round < 2; ++round) {  // what the first round took is free again
        arrays.clear();
        for (int i = 0; i < 100; ++i) arrays.push_back(read_npy(folder / std::to_string(i)));
      }
      if (::truncate((folder / name).c_str(), 100) != 0) ::_exit(9);
      touch(arrays[static_cast<std::size_t>(std::stoi(name))].data[49999]);
    });
    put(folder / name, content);
    REQUIRE(WIFEXITED(ending.status));
    CHECK(WEXITSTATUS(ending.status) == 1);
    CHECK(ending.said.find((folder / name).native() + ": the file became shorter") != std::string::npos);
  }
}

TEST_CASE("a fault outside the files, or in one that is no longer mapped, still ends the process") {
  const TemporaryFolder folder;
  const fs::path path = folder / "a.npy";
  put(path, file_of(header_of("|u1", "(50000,)"), std::string(50000, 'x')));
  const Ending ending = ending_of(folder, [&path] {
    explain_truncated_files();
    (void)read_npy(path);
    const int descriptor = ::open(path.c_str(), O_RDONLY);
    const void *const address = ::mmap(nullptr, 50000, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (::truncate(path.c_str(), 100) != 0) ::_exit(9);
    touch(static_cast<const std::byte *>(address)[49999]);
  });
  REQUIRE(WIFSIGNALED(ending.status));
  CHECK(WTERMSIG(ending.status) == SIGBUS);
  CHECK(ending.said.find("became shorter") == std::string::npos);
}

TEST_CASE("a bus error that someone sends ends the process, as it does others") {
  const TemporaryFolder folder;
  const Ending ending = ending_of(folder, [] {
    explain_truncated_files();
    ::raise(SIGBUS);
  });
  REQUIRE(WIFSIGNALED(ending.status));
  CHECK(WTERMSIG(ending.status) == SIGBUS);
}

TEST_CASE("an empty file maps to no bytes") {
  const TemporaryFolder folder;
  put(folder / "empty", "");
  const int descriptor = ::open((folder / "empty").c_str(), O_RDONLY);
  CHECK(Mapping(descriptor, 0, "empty").bytes().empty());
  ::close(descriptor);
}
