// With the store's file system, whose calls a test can make fail. The command's own: cli/new_file_test.cpp.
#include "file/new_file.h"

#include "store/faulty_files.h"
#include "store/scratch.h"

using namespace msj;
using store::FaultyFiles;
using store::FileCall;
using store::Scratch;

namespace {

// A file system whose nameless files get no name.
class FilesWithoutLinks : public FaultyFiles {
 public:
  explicit FilesWithoutLinks(int error) : error_(error) {}
  int link(int, int, const std::string &) override { return -error_; }

 private:
  int error_;
};

struct Folder {
  explicit Folder(store::Files &of) : files(of), root(store::open_root(of, scratch.path(), store::Missing::leave)) {
    REQUIRE(root);
    if (!is_kept_nameless()) MESSAGE("the file system has no nameless files: copies of them are not tested");
  }

  FileFailure write(std::string_view bytes, Temporary kind) {
    StagedFile<store::Files &> staged(files, root.handle.get(), 0600, kind);
    staged.write(bytes.substr(0, bytes.size() / 2));
    staged.write(bytes.substr(bytes.size() / 2));
    staged.sync();
    return staged.publish("name");
  }
  [[nodiscard]] std::string content() const { return store::read_file(scratch / "name"); }
  [[nodiscard]] bool is_alone() const {
    std::filesystem::directory_iterator entries(scratch.path());
    return std::distance(begin(entries), end(entries)) <= 1 && store::leftovers(scratch.path()) == 0;
  }
  [[nodiscard]] bool is_kept_nameless() const {
    const int descriptor = ::open(scratch.path().c_str(), O_WRONLY | O_TMPFILE, 0600);
    if (descriptor >= 0) ::close(descriptor);
    return descriptor >= 0;
  }

  Scratch scratch;
  store::Files &files;
  store::Opened root;
};

const std::string kLarge(std::size_t{5} << 19, 'x');  // several pieces of a copy

}  // namespace

TEST_CASE("named or nameless, new or over another: whole, and alone") {
  for (const Temporary kind : {Temporary::named, Temporary::nameless}) {
    FaultyFiles files;
    Folder folder(files);
    files.fail(FileCall::open, 1000, EIO);  // counts from here
    CHECK(folder.write(kLarge, kind).error == 0);
    CHECK(folder.content() == kLarge);
    CHECK(files.count(FileCall::rename) == (kind == Temporary::named || !folder.is_kept_nameless() ? 1 : 0));
    CHECK(folder.write("new", kind).error == 0);
    CHECK(folder.content() == "new");
    CHECK(folder.is_alone());
  }
}

TEST_CASE("without /proc none is nameless, since none could get its name") {
  FaultyFiles files;
  Folder folder(files);
  files.fail(FileCall::status_at, 1, ENOENT);
  CHECK(folder.write("new", Temporary::nameless).error == 0);
  CHECK(files.hits() == 1);
  CHECK(files.count(FileCall::link) == 0);
  CHECK(folder.content() == "new");
}

TEST_CASE("a nameless file that can get no name is copied to one with a name") {
  for (const int error : {ENOENT, EPERM, EACCES, EOPNOTSUPP, ENOSYS, EINVAL, EXDEV, EMLINK}) {
    FilesWithoutLinks files(error);
    Folder folder(files);
    files.set_short_transfers(error == EPERM);
    const std::string bytes = error == EPERM ? kLarge.substr(0, 5000) : kLarge;
    CHECK(folder.write(bytes, Temporary::nameless).error == 0);
    CHECK(folder.content() == bytes);
    CHECK(folder.write("new", Temporary::nameless).error == 0);
    CHECK(folder.content() == "new");
    CHECK(folder.is_alone());
    CHECK(store::mode_of(folder.scratch / "name") == 0600);
  }
  FaultyFiles files;  // not to its own, since a file is there: nor then to a temporary's
  Folder folder(files);
  store::write_file(folder.scratch / "name", "old");
  files.fail(FileCall::link, 2, EPERM);
  CHECK(folder.write("new", Temporary::nameless).error == 0);
  CHECK(folder.content() == "new");
  CHECK(folder.is_alone());
}

TEST_CASE("any fault of such a copy leaves what was there, and no temporary") {
  FilesWithoutLinks files(EPERM);
  Folder folder(files);
  if (!folder.is_kept_nameless()) return;
  for (const bool existed : {false, true}) {
    if (existed) store::write_file(folder.scratch / "name", "old");
    for (const auto &[call, nth] :
         {std::pair(FileCall::open, 2), std::pair(FileCall::read, 1), std::pair(FileCall::write, 3),
          std::pair(FileCall::sync, 2), std::pair(FileCall::close, 2), std::pair(FileCall::rename, 1)}) {
      CAPTURE(store::kFileCallNames[static_cast<std::size_t>(call)]);
      files.fail(call, nth, ENOSPC);
      CHECK(folder.write("new", Temporary::nameless).error == ENOSPC);
      CHECK(files.hits() == 1);
      CHECK(std::filesystem::exists(folder.scratch / "name") == existed);
      if (existed) CHECK(folder.content() == "old");
      CHECK(folder.is_alone());
    }
  }
}

TEST_CASE("a disk that is full for the name is no reason for a copy") {
  FaultyFiles files;
  Folder folder(files);
  if (!folder.is_kept_nameless()) return;
  files.fail(FileCall::link, 1, ENOSPC);
  const FileFailure failure = folder.write("new", Temporary::nameless);
  CHECK(failure.error == ENOSPC);
  CHECK(failure.step == "link");
  CHECK_FALSE(std::filesystem::exists(folder.scratch / "name"));
}

// A file that is synced and has got its name is there, whatever closing it says.
TEST_CASE("a close that fails: reported before the name is given, and only then") {
  for (const Temporary kind : {Temporary::named, Temporary::nameless}) {
    for (const bool existed : {false, true}) {
      FaultyFiles files;
      Folder folder(files);
      if (existed) store::write_file(folder.scratch / "name", "old");
      const bool linked = kind == Temporary::nameless && !existed && folder.is_kept_nameless();
      files.fail(FileCall::close, 1, EIO);
      const FileFailure failure = folder.write("new", kind);
      CHECK(files.hits() == 1);
      CHECK(failure.error == (linked ? 0 : EIO));
      CHECK(failure.step == (linked ? "" : "close"));
      CHECK(std::filesystem::exists(folder.scratch / "name") == (linked || existed));
      if (linked || existed) CHECK(folder.content() == (linked ? "new" : "old"));
      CHECK(folder.is_alone());
    }
  }
}
