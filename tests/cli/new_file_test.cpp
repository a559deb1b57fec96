#include "cli/new_file.h"

#include <sys/stat.h>

#include "npy_files.h"

using namespace msj::testing;
using msj::Temporary;

TEST_CASE(
    "with and without names for temporaries: both results appear when they are published, and nothing else does") {
  for (const Temporary kind : {Temporary::named, Temporary::nameless}) {
    const TemporaryFolder folder;
    put(folder / "a.npy", "old");
    fs::permissions(folder / "a.npy", fs::perms(0640));
    std::vector<NewFile> staged;
    for (const char *name : {"a.npy", "b.npy"}) {
      staged.emplace_back(folder / name, kind).write(bytes_of("new"));
      staged.back().sync();
    }
    CHECK(contents(folder / "a.npy") == "old");
    CHECK_FALSE(fs::exists(folder / "b.npy"));
    for (NewFile &file : staged) file.publish();
    CHECK(contents(folder / "a.npy") == "new");
    CHECK(contents(folder / "b.npy") == "new");
    CHECK(fs::status(folder / "a.npy").permissions() == fs::perms(0640));
    const mode_t mask = ::umask(0);
    ::umask(mask);
    CHECK(fs::status(folder / "b.npy").permissions() == fs::perms(0666 & ~mask));
    CHECK(folder.entries() == 2);
  }
}

TEST_CASE("what is not published leaves nothing") {
  for (const Temporary kind : {Temporary::named, Temporary::nameless}) {
    const TemporaryFolder folder;
    NewFile(folder / "a.npy", kind).write(bytes_of("new"));
    CHECK(folder.entries() == 0);
  }
}

TEST_CASE("a name without a folder is one of the working directory") {
  const TemporaryFolder folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder / "");
  NewFile file("a.npy");
  fs::current_path(before);  // where the file goes was decided when it was begun
  file.write(bytes_of("new"));
  file.sync();
  file.publish();
  CHECK(contents(folder / "a.npy") == "new");
}
