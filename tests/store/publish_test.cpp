#include "store/publish.h"

#include <atomic>
#include <cerrno>
#include <thread>

#include "faulty_files.h"
#include "scratch.h"

namespace msj::store {

namespace {

Opened open_scratch(Files &files, const Scratch &scratch) {
  Opened root = open_root(files, scratch.path(), Missing::leave);
  REQUIRE(root);
  return root;
}

}  // namespace

TEST_CASE("a published file is whole, private, and alone") {
  const Scratch scratch;
  FaultyFiles files;
  const Opened root = open_scratch(files, scratch);
  const std::string bytes(100'000, 'x');
  CHECK(publish_file(files, root, "name", bytes).done);
  CHECK(read_file(scratch / "name") == bytes);
  CHECK(mode_of(scratch / "name") == 0600);
  CHECK(leftovers(scratch.path()) == 0);
  CHECK(files.count(FileCall::sync) == 2);  // the file, then its directory
  CHECK(publish_file(files, root, "name", "").done);
  CHECK(read_file(scratch / "name").empty());
}

TEST_CASE("short writes are continued") {
  const Scratch scratch;
  FaultyFiles files;
  files.set_short_transfers(true);
  const std::string bytes = "a text that takes several writes of seven bytes";
  CHECK(publish_file(files, open_scratch(files, scratch), "name", bytes).done);
  CHECK(read_file(scratch / "name") == bytes);
}

TEST_CASE("any fault leaves the old file and no temporary") {
  const Scratch scratch;
  FaultyFiles files;
  const Opened root = open_scratch(files, scratch);
  for (const FileCall call : {FileCall::open, FileCall::write, FileCall::sync, FileCall::close, FileCall::rename}) {
    for (const int error : {ENOSPC, EROFS, ESTALE, EBUSY, EIO, EDQUOT, EACCES}) {
      write_file(scratch / "name", "old");
      files.fail(call, 1, error);
      const Published result = publish_file(files, root, "name", "new");
      CAPTURE(kFileCallNames[static_cast<std::size_t>(call)]);
      CHECK(files.hits() == 1);
      CHECK_FALSE(result.done);
      CHECK(result.error == error);
      CHECK(result.problem.find(error_text(error)) != std::string::npos);
      CHECK(read_file(scratch / "name") == "old");
      CHECK(leftovers(scratch.path()) == 0);
    }
  }
}

TEST_CASE("a directory that can't be synced: the file is there; only real errors are told") {
  const Scratch scratch;
  FaultyFiles files;
  const Opened root = open_scratch(files, scratch);
  files.fail(FileCall::sync, 2, EINVAL);
  CHECK(publish_file(files, root, "name", "1").problem.empty());
  files.fail(FileCall::sync, 2, EIO);
  const Published result = publish_file(files, root, "name", "2");
  CHECK(result.done);
  CHECK_FALSE(result.problem.empty());
  CHECK(read_file(scratch / "name") == "2");
}

TEST_CASE("what lies at the name is replaced, never written through") {
  const Scratch scratch;
  FaultyFiles files;
  const Opened root = open_scratch(files, scratch);
  write_file(scratch / "target", "untouched");
  REQUIRE(::symlink("target", (scratch / "link").c_str()) == 0);
  REQUIRE(::mkfifo((scratch / "fifo").c_str(), 0600) == 0);
  REQUIRE(::mkdir((scratch / "directory").c_str(), 0700) == 0);
  CHECK(publish_file(files, root, "link", "new").done);
  CHECK(publish_file(files, root, "fifo", "new").done);
  CHECK(std::filesystem::is_regular_file(std::filesystem::symlink_status(scratch / "link")));
  CHECK(read_file(scratch / "fifo") == "new");
  CHECK(read_file(scratch / "target") == "untouched");
  CHECK(publish_file(files, root, "directory", "new").done);  // it was empty
  CHECK(read_file(scratch / "directory") == "new");
  REQUIRE(::mkdir((scratch / "full").c_str(), 0700) == 0);
  write_file(scratch / "full/precious", "untouched");
  const Published refused = publish_file(files, root, "full", "new");
  CHECK_FALSE(refused.done);
  CHECK(refused.error == EISDIR);
  CHECK(read_file(scratch / "full/precious") == "untouched");
  CHECK(leftovers(scratch.path()) == 0);
}

TEST_CASE("a file that would be refused on reading is not published") {
  const Scratch scratch;
  FaultyFiles files;
  const std::string bytes(static_cast<std::size_t>(kMaxFileBytes) + 1, 'x');
  CHECK_FALSE(publish_file(files, open_scratch(files, scratch), "name", bytes).done);
  CHECK(std::filesystem::is_empty(scratch.path()));
}

TEST_CASE("writers of one name and its readers do not meet: every reading is whole") {
  const Scratch scratch;
  const std::shared_ptr<Files> files = std::make_shared<FaultyFiles>();
  std::atomic<bool> stop{false};
  std::atomic<int> torn{0};
  const auto write = [&](char letter) {
    const Opened root = open_root(*files, scratch.path(), Missing::leave);
    for (int i = 0; i < 100; ++i) {
      if (!publish_file(*files, root, "name", std::string(5000, letter)).done) ++torn;
    }
  };
  const auto read = [&] {
    const Opened root = open_root(*files, scratch.path(), Missing::leave);
    while (!stop) {
      const Opened file = open_file(*files, root, "name", O_RDONLY);
      std::string bytes;
      if (!file) continue;
      if (!read_all(*files, file, bytes).empty() || bytes != std::string(5000, bytes.at(0))) ++torn;
    }
  };
  {
    std::jthread reader(read);
    {
      std::jthread a(write, 'a');
      std::jthread b(write, 'b');
    }
    stop = true;
  }
  CHECK(torn == 0);
  CHECK(leftovers(scratch.path()) == 0);
}

TEST_CASE("names of temporaries") {
  CHECK(is_temporary(".tmp-12-00ff"));
  CHECK_FALSE(is_temporary("a.cubin"));
  CHECK_FALSE(is_temporary(""));
}

}  // namespace msj::store
