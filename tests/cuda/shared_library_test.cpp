#include "cuda/shared_library.h"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "store/scratch.h"

namespace store = msj::store;
using msj::cuda::SharedLibrary;
using store::Scratch;

TEST_CASE("the first candidate that loads is taken; those before it are remembered with a reason") {
  const std::vector<std::string> candidates = {"/nowhere/libm.so.6", "libm.so.6", "libc.so.6"};
  const SharedLibrary library = SharedLibrary::open(candidates);
  REQUIRE(library);
  CHECK(library.opened_as() == "libm.so.6");
  CHECK(library.symbol("cos") != nullptr);
  CHECK(library.symbol("no_such_function") == nullptr);
  REQUIRE(library.attempts().size() == 1);
  CHECK(library.attempts()[0] == "/nowhere/libm.so.6");
}

TEST_CASE("none loads: it holds nothing and says why, each candidate once") {
  const std::vector<std::string> candidates = {"libno_such.so.1", MSJ_SOURCE_DIR};
  const SharedLibrary library = SharedLibrary::open(candidates);
  CHECK_FALSE(library);
  CHECK(library.symbol("cos") == nullptr);
  REQUIRE(library.attempts().size() == 2);
  CHECK(library.attempts()[0] == candidates[0]);  // as it isn't there
  CHECK(library.attempts()[1].starts_with(candidates[1] + ": "));
  CHECK(library.attempts()[1].find(candidates[1], 1) == std::string::npos);
}

TEST_CASE("a candidate that is there, but needs a library that is not: the loader's reason is kept") {
  const Scratch scratch;
  std::string bytes = store::read_file(MSJ_FAKE_LIBCUDA);
  const std::string needed = "libc.so.6", missing = "libq.so.6";
  REQUIRE(bytes.find(needed) != std::string::npos);
  for (std::size_t at = 0; (at = bytes.find(needed, at)) != std::string::npos;)
    bytes.replace(at, needed.size(), missing);
  const std::vector<std::string> candidates = {scratch / "libcuda.so", scratch / "none.so"};
  store::write_file(candidates[0], bytes);
  const SharedLibrary library = SharedLibrary::open(candidates);
  CHECK_FALSE(library);
  REQUIRE(library.attempts().size() == 2);
  CHECK(library.attempts()[0] ==
        candidates[0] + ": libq.so.6: cannot open shared object file: No such file or directory");
  CHECK(library.attempts()[1] == candidates[1]);
}

// A FIFO without a writer would be waited for; this one has bytes, so that the test ends either way.
TEST_CASE("what is no regular file is not opened") {
  const Scratch scratch;
  const std::string fifo = scratch / "libcuda.so";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const int writer = ::open(fifo.c_str(), O_RDWR | O_NONBLOCK);
  REQUIRE(writer >= 0);
  const std::string bytes(4096, 'x');
  REQUIRE(::write(writer, bytes.data(), bytes.size()) == 4096);
  const SharedLibrary library = SharedLibrary::open(std::vector{fifo, scratch.path(), std::string("/dev/null")});
  ::close(writer);
  CHECK(library.attempts() == std::vector{fifo + ": it is no regular file", scratch.path() + ": it is no regular file",
                                          std::string("/dev/null: it is no regular file")});
}

TEST_CASE("moving hands the library over") {
  const std::vector<std::string> candidates = {"libm.so.6"};
  SharedLibrary first = SharedLibrary::open(candidates);
  SharedLibrary second = std::move(first);
  CHECK(second);
  SharedLibrary third;
  third = std::move(second);
  CHECK(third.symbol("cos") != nullptr);
  CHECK(third.opened_as() == "libm.so.6");
}
