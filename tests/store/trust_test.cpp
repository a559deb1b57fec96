#include "store/trust.h"

#include <fcntl.h>

#include <cerrno>

#include "faulty_files.h"
#include "scratch.h"

namespace msj::store {

namespace {

struct stat status_of(uid_t owner, mode_t mode) {
  struct stat status {};
  status.st_uid = owner;
  status.st_mode = mode;
  return status;
}

void make_directory(const std::string &path, mode_t mode) {
  REQUIRE(::mkdir(path.c_str(), 0700) == 0);
  REQUIRE(::chmod(path.c_str(), mode) == 0);  // whatever the umask
}

void make_link(const std::string &target, const std::string &path) {
  REQUIRE(::symlink(target.c_str(), path.c_str()) == 0);
}

void give_to(const std::string &path, uid_t user) { REQUIRE(::lchown(path.c_str(), user, user) == 0); }

constexpr uid_t kOther = 12345;

}  // namespace

TEST_CASE("whose files are trusted") {
  CHECK(ownership_problem(status_of(1000, S_IFREG | 0600), 1000).empty());
  CHECK(ownership_problem(status_of(1000, S_IFREG | 0644), 1000).empty());
  CHECK(ownership_problem(status_of(0, S_IFDIR | 0755), 1000).empty());  // a layer baked by root
  CHECK(ownership_problem(status_of(0, S_IFREG | 0444), 0).empty());
  CHECK(ownership_problem(status_of(1001, S_IFREG | 0600), 1000) ==
        "belongs to uid 1001; this user's (uid 1000) or root's is accepted");
  CHECK_FALSE(ownership_problem(status_of(1000, S_IFREG | 0600), 0).empty());  // root trusts only itself
  CHECK(ownership_problem(status_of(1000, S_IFREG | 0620), 1000).find("(mode 0620)") != std::string::npos);
  CHECK_FALSE(ownership_problem(status_of(1000, S_IFREG | 0602), 1000).empty());
  CHECK_FALSE(ownership_problem(status_of(0, S_IFDIR | 01777), 1000).empty());  // sticky does not help a cache
}

TEST_CASE("the root is made 0700 with its parents, whatever the umask") {
  for (const mode_t mask : {mode_t{0}, mode_t{022}, mode_t{077}}) {
    const Scratch scratch;
    FaultyFiles files;
    const mode_t before = ::umask(mask);
    const Opened root = open_root(files, scratch / "a b/ü/root", Missing::create);
    ::umask(before);
    REQUIRE(root);
    CHECK(root.path == scratch / "a b/ü/root");
    CHECK(mode_of(scratch / "a b") == 0700);
    CHECK(mode_of(scratch / "a b/ü/root") == 0700);
  }
}

TEST_CASE("a root that is not there is absent, not a problem, and is not made") {
  const Scratch scratch;
  FaultyFiles files;
  const Opened root = open_root(files, scratch / "a/root", Missing::leave);
  CHECK_FALSE(static_cast<bool>(root));
  CHECK(root.absent());
  CHECK_FALSE(std::filesystem::exists(scratch / "a"));
}

TEST_CASE("nothing of a home directory is made, only what is below it") {
  const Scratch scratch;
  FaultyFiles files;
  const Opened missing = open_root(files, scratch / "home/.cache/x", Missing::create, scratch / "home");
  CHECK_FALSE(static_cast<bool>(missing));
  CHECK(missing.path == scratch / "home");
  CHECK_FALSE(missing.problem.empty());
  CHECK_FALSE(std::filesystem::exists(scratch / "home"));

  make_directory(scratch / "home", 0755);
  CHECK(open_root(files, scratch / "home/.cache/x", Missing::create, scratch / "home"));

  make_link(scratch / "home", scratch / "linked");
  CHECK(open_root(files, scratch / "linked/.cache/y", Missing::create, scratch / "linked"));
}

TEST_CASE("a root must be a directory, of one's own, that nobody else can write, and no link") {
  const Scratch scratch;
  FaultyFiles files;
  make_directory(scratch / "group", 0775);
  make_directory(scratch / "world", 0707);
  make_directory(scratch / "sticky", 01777);
  make_directory(scratch / "right", 0755);
  write_file(scratch / "file", "");
  make_link(scratch / "right", scratch / "link");
  make_link("nowhere", scratch / "dangling");
  REQUIRE(::mkfifo((scratch / "fifo").c_str(), 0600) == 0);
  const auto problem = [&](const std::string &name) {
    const Opened root = open_root(files, scratch / name, Missing::create);
    CHECK(static_cast<bool>(root) == root.problem.empty());
    return root.problem;
  };
  CHECK(problem("right").empty());
  CHECK(problem("right/").empty());
  CHECK(problem("group").find("is writable by group or others (mode 0775)") == 0);
  CHECK(problem("world").find("is writable by group or others (mode 0707)") == 0);
  CHECK(problem("sticky").find("is writable by group or others (mode 1777)") == 0);
  CHECK(problem("file") == "is a file");
  CHECK(problem("link") == "is a symbolic link");
  CHECK(problem("link/") == "is a symbolic link");
  CHECK(problem("dangling") == "is a symbolic link");
  CHECK(problem("fifo") == "is a FIFO");
  CHECK(problem("file/below") == "is a file");
  CHECK(files.left_open() == 0);
}

TEST_CASE("directories above the root may be links where nobody else can change them") {
  const Scratch scratch;
  FaultyFiles files;
  make_directory(scratch / "target", 0755);
  make_directory(scratch / "target/root", 0700);
  make_directory(scratch / "mine", 0755);
  make_directory(scratch / "shared", 0777);
  make_directory(scratch / "group", 0775);
  make_directory(scratch / "sticky", 01777);
  for (const char *place : {"mine", "shared", "group", "sticky"}) {
    make_link(scratch / "target", scratch / (std::string(place) + "/link"));
    make_link("../target", scratch / (std::string(place) + "/relative"));
  }
  const auto trusted = [&](const std::string &name) {
    return static_cast<bool>(open_root(files, scratch / name, Missing::leave));
  };
  CHECK(trusted("mine/link/root"));
  CHECK(trusted("mine/relative/root"));
  CHECK(trusted("mine/relative/../target/root"));
  CHECK(trusted("sticky/link/root"));
  CHECK_FALSE(trusted("shared/link/root"));
  CHECK_FALSE(trusted("shared/relative/root"));
  CHECK_FALSE(trusted("group/link/root"));
  // A link that can be trusted, to one that can't.
  make_link(scratch / "shared/link", scratch / "mine/indirect");
  CHECK_FALSE(trusted("mine/indirect/root"));
  const Opened refused = open_root(files, scratch / "shared/link/root", Missing::leave);
  CHECK(refused.path == scratch / "shared/link");
  CHECK(refused.problem == "is a symbolic link that others can change");

  if (is_root()) {
    give_to(scratch / "sticky/link", kOther);
    CHECK_FALSE(trusted("sticky/link/root"));  // its owner can change it
    give_to(scratch / "mine", kOther);
    CHECK_FALSE(trusted("mine/link/root"));  // so can the directory's
  }
  CHECK(files.left_open() == 0);
}

TEST_CASE("links that lead in a circle end") {
  const Scratch scratch;
  FaultyFiles files;
  make_link(scratch / "b", scratch / "a");
  make_link(scratch / "a", scratch / "b");
  const Opened root = open_root(files, scratch / "a/root", Missing::create);
  CHECK(root.problem == "leads through too many symbolic links");
  CHECK(files.left_open() == 0);
}

TEST_CASE("another user's root is refused, root's own is accepted by all") {
  const Scratch scratch;
  FaultyFiles files;
  make_directory(scratch / "root", 0755);
  if (!is_root()) return;
  files.set_user(kOther);
  CHECK(open_root(files, scratch / "root", Missing::leave));
  give_to(scratch / "root", kOther);
  CHECK(open_root(files, scratch / "root", Missing::leave));
  files.set_user(0);
  CHECK(open_root(files, scratch / "root", Missing::leave).problem ==
        "belongs to uid 12345; this user's (uid 0) or root's is accepted");
}

TEST_CASE("only regular files of one's own are opened, and nothing blocks") {
  const Scratch scratch;
  FaultyFiles files;
  const Opened root = open_root(files, scratch.path(), Missing::leave);
  REQUIRE(root);
  write_file(scratch / "right", "bytes");
  write_file(scratch / "group", "");
  REQUIRE(::chmod((scratch / "right").c_str(), 0644) == 0);
  REQUIRE(::chmod((scratch / "group").c_str(), 0664) == 0);
  make_link("right", scratch / "link");
  make_link("nowhere", scratch / "dangling");
  make_directory(scratch / "directory", 0700);
  REQUIRE(::mkfifo((scratch / "fifo").c_str(), 0600) == 0);
  const auto problem = [&](const std::string &name, int flags) { return open_file(files, root, name, flags).problem; };
  for (const int flags : {O_RDONLY, O_RDWR}) {
    CHECK(problem("right", flags).empty());
    CHECK(problem("group", flags).find("is writable by group or others") == 0);
    CHECK(problem("link", flags) == "is a symbolic link");
    CHECK(problem("dangling", flags) == "is a symbolic link");
    CHECK(problem("fifo", flags) == "is a FIFO, not a file");
  }
  CHECK(problem("directory", O_RDONLY) == "is a directory, not a file");
  CHECK(open_file(files, root, "missing", O_RDONLY).absent());
  std::string bytes;
  CHECK(read_all(files, open_file(files, root, "right", O_RDONLY), bytes).empty());
  CHECK(bytes == "bytes");
  if (is_root()) {
    give_to(scratch / "right", kOther);
    CHECK(problem("right", O_RDONLY).find("belongs to uid 12345") == 0);
  }
}

TEST_CASE("a file of any size asks for no more memory than a cubin may take") {
  const Scratch scratch;
  FaultyFiles files;
  write_file(scratch / "huge", "");
  REQUIRE(::truncate((scratch / "huge").c_str(), off_t{1} << 40) == 0);  // sparse
  const Opened root = open_root(files, scratch.path(), Missing::leave);
  std::string bytes;
  const std::string problem = read_all(files, open_file(files, root, "huge", O_RDONLY), bytes);
  CHECK(problem.find("1099511627776 bytes") != std::string::npos);
}

TEST_CASE("subdirectories are checked like the root") {
  const Scratch scratch;
  FaultyFiles files;
  make_directory(scratch / "v1", 0700);
  make_directory(scratch / "v1/open", 0777);
  make_directory(scratch / "v1/open/below", 0700);
  make_link("open", scratch / "v1/link");
  const auto open = [&](const std::string &relative, Missing missing) {
    return open_below(files, open_root(files, scratch.path(), Missing::leave), relative, missing);
  };
  CHECK(open("v1", Missing::leave));
  CHECK(open("v1/a/b", Missing::leave).absent());
  CHECK(open("v1/a/b", Missing::create));
  CHECK(mode_of(scratch / "v1/a/b") == 0700);
  CHECK(open("v1/open/below", Missing::leave).path == scratch / "v1/open");
  CHECK(open("v1/link/below", Missing::leave).problem == "is a symbolic link");
  CHECK(files.left_open() == 0);
}

}  // namespace msj::store
