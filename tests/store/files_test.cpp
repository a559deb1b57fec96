#include "store/files.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

#include "scratch.h"

namespace msj::store {

namespace {

struct Directory {
  explicit Directory(const Scratch &scratch)
      : handle(*files, files->open(AT_FDCWD, scratch.path(), O_RDONLY | O_DIRECTORY, 0)) {}
  std::shared_ptr<Files> files = real_files();
  Handle handle;
};

}  // namespace

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

}  // namespace msj::store
