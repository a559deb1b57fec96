#include "store/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <functional>

#include "scratch.h"

namespace msj::store {

namespace {

struct Directory {
  explicit Directory(const Scratch &scratch)
      : handle(*files, files->open(AT_FDCWD, scratch.path(), O_RDONLY | O_DIRECTORY, 0)) {}
  std::shared_ptr<Files> files = real_files();
  Handle handle;
};

// In a child whose files may have 4096 bytes, and which a SIGXFSZ would end: the exit code of `action`; -1 for a
// signal.
int with_small_files(const std::function<int()> &action) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_DFL);
    const rlimit limit{4096, 4096};
    ::_exit(::setrlimit(RLIMIT_FSIZE, &limit) == 0 ? action() : 99);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool is_in(int (*read)(sigset_t *)) {
  sigset_t set;
  return read(&set) == 0 && sigismember(&set, SIGXFSZ) == 1;
}
bool is_blocked() {
  return is_in([](sigset_t *set) { return ::pthread_sigmask(SIG_BLOCK, nullptr, set); });
}
bool is_pending() { return is_in(&::sigpending); }

}  // namespace

TEST_CASE("a limit on file sizes fails a write and signals nothing: the program that caches lives") {
  const Scratch scratch;
  const std::string large(100'000, 'x');
  CHECK(with_small_files([&] {
          Cache cache(scratch / "root");
          for (const char *name : {"v1/a", "v1/b"}) {
            if (cache.root.publish(name, large)) return 1;
          }
          if (cache.journal.warnings() != 1 || !cache.journal.says("File too large")) return 2;
          if (cache.root.kept().failed != 2 || !cache.root.publish("v1/small", "x")) return 3;
          return is_blocked() || is_pending() ? 4 : 0;
        }) == 0);
  CHECK(leftovers(scratch.path()) == 0);
}

TEST_CASE("a signal that the program holds back itself stays as it is") {
  const Scratch scratch;
  CHECK(with_small_files([&] {
          sigset_t set;
          sigemptyset(&set);
          sigaddset(&set, SIGXFSZ);
          ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
          Cache cache(scratch / "root");
          if (cache.root.publish("v1/a", std::string(100'000, 'x')) || is_pending()) return 1;
          ::raise(SIGXFSZ);
          if (cache.root.publish("v1/b", std::string(100'000, 'x'))) return 2;
          return is_blocked() && is_pending() ? 0 : 3;
        }) == 0);
}

TEST_CASE("each call does what POSIX does, or returns -errno") {
  const Scratch scratch;
  const Directory at(scratch);
  Files &files = *at.files;
  const int directory = at.handle.get();
  REQUIRE(directory >= 0);

  CHECK(files.open(directory, "missing", O_RDONLY, 0) == -ENOENT);
  CHECK(files.make_directory(directory, "b", 0700) == 0);
  CHECK(files.make_directory(directory, "b", 0700) == -EEXIST);
  Handle file(files, files.open(directory, "a", O_RDWR | O_CREAT, 0600));
  REQUIRE(file);
  CHECK((::fcntl(file.get(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK(files.write(file.get(), "hello", 5) == 5);
  CHECK(files.sync(file.get()) == 0);
  struct stat status {};
  CHECK(files.status(file.get(), status) == 0);
  CHECK(status.st_size == 5);

  std::vector<std::string> names;
  CHECK(files.list(directory, names) == 0);
  CHECK(names == std::vector<std::string>{"a", "b"});
  CHECK(files.list(directory, names) == 0);  // the offset of the first reading is not in the way
  CHECK(names.size() == 2);

  CHECK(files.rename(directory, "a", "c") == 0);
  CHECK(files.rename(directory, "a", "c") == -ENOENT);
  CHECK(files.remove(directory, "b") == -EISDIR);
  CHECK(files.remove_directory(directory, "b") == 0);
  CHECK(files.remove(directory, "c") == 0);
  CHECK(files.may_write(directory) == 0);
  CHECK(files.read(-1, nullptr, 0) == -EBADF);
  CHECK(files.user() == ::geteuid());
}

TEST_CASE("links are not followed in the last place, and can be read") {
  const Scratch scratch;
  const Directory at(scratch);
  REQUIRE(::symlink("/etc/passwd", (scratch / "link").c_str()) == 0);
  CHECK(at.files->open(at.handle.get(), "link", O_RDONLY, 0) == -ELOOP);
  struct stat status {};
  CHECK(at.files->status_at(at.handle.get(), "link", status) == 0);
  CHECK(S_ISLNK(status.st_mode));
  const Handle link(*at.files, at.files->open(at.handle.get(), "link", O_PATH, 0));
  std::string target;
  CHECK(at.files->read_link(link.get(), target) == 0);
  CHECK(target == "/etc/passwd");
}

TEST_CASE("touch refreshes the modification time") {
  const Scratch scratch;
  const Directory at(scratch);
  write_file(scratch / "a", "x");
  age(scratch / "a", 5000);
  const Handle file(*at.files, at.files->open(at.handle.get(), "a", O_RDONLY, 0));
  CHECK(at.files->touch(file.get()) == 0);
  struct stat status {};
  CHECK(at.files->status(file.get(), status) == 0);
  CHECK(status.st_mtime > ::time(nullptr) - 100);
}

TEST_CASE("a handle closes once, moves, and says what closing said") {
  const Scratch scratch;
  const Directory at(scratch);
  const int descriptor = at.files->open(at.handle.get(), "a", O_RDWR | O_CREAT, 0600);
  {
    Handle first(*at.files, descriptor);
    Handle second = std::move(first);
    CHECK(second.get() == descriptor);
    CHECK(::fcntl(descriptor, F_GETFD) >= 0);
    CHECK(second.close() == 0);
    CHECK(second.close() == 0);
    CHECK_FALSE(static_cast<bool>(second));
  }
  CHECK(::fcntl(descriptor, F_GETFD) == -1);
  CHECK(error_text(-ENOSPC) == "No space left on device");
  CHECK(error_text(ENOSPC) == "No space left on device");
}

TEST_CASE("no file of ours takes the number of a standard stream that the program has closed") {
  const Scratch scratch;
  const auto files = real_files();
  const int saved = ::dup(STDIN_FILENO);
  ::close(STDIN_FILENO);
  const int opened = files->open(AT_FDCWD, scratch.path() + "/file", O_RDWR | O_CREAT, 0600);
  CHECK(opened > STDERR_FILENO);
  CHECK(::fcntl(opened, F_GETFD) == FD_CLOEXEC);
  CHECK(::fcntl(STDIN_FILENO, F_GETFD) == -1);  // and nothing is left there
  if (opened >= 0) files->close(opened);
  if (saved >= 0) {
    ::dup2(saved, STDIN_FILENO);
    ::close(saved);
  }
}

}  // namespace msj::store
