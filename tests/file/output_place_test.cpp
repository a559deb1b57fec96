#include "file/output_place.h"

#include <fcntl.h>
#include <unistd.h>

#include "store/scratch.h"

using namespace msj;
using store::Scratch;

TEST_CASE("a name that is no link is its own place, there or not") {
  const Scratch scratch;
  store::write_file(scratch / "plain", "");
  for (const std::string &name : {scratch / "plain", scratch / "none", scratch / "none/below", scratch.path(),
                                  scratch / "plain/below", std::string("plain"), std::string("/proc/none")}) {
    CHECK(output_place(name).path == name);
    CHECK(output_place(name).problem.empty());
  }
}

TEST_CASE("links are followed, to what is not there too") {
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "folder");
  std::filesystem::create_symlink("folder/second", scratch / "first");
  std::filesystem::create_symlink("../third", scratch / "folder/second");
  CHECK(output_place(scratch / "first").path == scratch / "folder/../third");
  std::filesystem::create_symlink(scratch / "plain", scratch / "third");
  CHECK(output_place(scratch / "first").path == scratch / "plain");
  CHECK(output_place(scratch / "first").problem.empty());
}

TEST_CASE("as many links as the kernel follows, and no more") {
  const Scratch scratch;
  for (int i = 0; i < 40; ++i) {
    std::filesystem::create_symlink(std::to_string(i + 1), scratch / std::to_string(i));
  }
  CHECK(output_place(scratch / "0").path == scratch / "40");
  std::filesystem::create_symlink("0", scratch / "before");
  CHECK(output_place(scratch / "before").problem == "Too many levels of symbolic links");
  std::filesystem::create_symlink("loop", scratch / "loop");
  CHECK(output_place(scratch / "loop").problem == "Too many levels of symbolic links");
}

TEST_CASE("a link in /proc stands for an open file, by whatever way it is reached") {
  const Scratch scratch;
  const int descriptor = ::open((scratch / "log").c_str(), O_WRONLY | O_CREAT, 0600);
  REQUIRE(descriptor >= 0);
  const std::string number = std::to_string(descriptor);
  const std::string link = "/proc/self/fd/" + number;
  std::filesystem::create_symlink(link, scratch / "link");
  for (const std::string &name : {link, "/proc/" + std::to_string(::getpid()) + "/fd/" + number, "/dev/fd/" + number,
                                  scratch / "link", std::string("/dev/stdout"), std::string("/proc/self/exe")}) {
    CAPTURE(name);
    CHECK(output_place(name).problem.find(" stands for an open file") != std::string::npos);
  }
  std::filesystem::remove(scratch / "log");
  CHECK(output_place(link).problem.starts_with(link + " stands for an open file"));
  CHECK(output_place("/proc/self/cwd/out.npy").problem.empty());  // a directory's, not the file's
  ::close(descriptor);
}
