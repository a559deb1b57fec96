#include "store/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <thread>

#include "faulty_files.h"
#include "scratch.h"

namespace msj::store {

namespace {

using Seconds = std::chrono::duration<double>;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return Seconds(std::chrono::steady_clock::now() - start).count();
}

// A child process that runs `body(ready)`, where ready() tells the parent to go on; killed at the end.
class Child {
 public:
  template <typename Body>
  explicit Child(Body body) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    id_ = ::fork();
    REQUIRE(id_ >= 0);
    if (id_ == 0) {
      body([&] { (void)!::write(ends[1], "x", 1); });
      ::_exit(0);
    }
    ::close(ends[1]);
    char byte = 0;
    (void)!::read(ends[0], &byte, 1);
    ::close(ends[0]);
  }
  ~Child() { kill(); }
  Child(const Child &) = delete;
  Child &operator=(const Child &) = delete;
  void kill() {
    if (id_ > 0) {
      ::kill(id_, SIGKILL);
      ::waitpid(id_, nullptr, 0);
    }
    id_ = -1;
  }

 private:
  pid_t id_ = -1;
};

}  // namespace

TEST_CASE("one holder at a time, across threads and contexts") {
  const Scratch scratch;
  Cache first(scratch / "root");
  Cache second(scratch / "root");
  std::atomic<int> inside{0};
  std::atomic<int> overlaps{0};
  std::atomic<int> missed{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 6; ++t) {
      threads.emplace_back([&, t] {
        CacheRoot &root = t % 2 == 0 ? first.root : second.root;
        for (int i = 0; i < 10; ++i) {
          const auto lock = root.lock("key", Seconds(60));
          if (!lock) ++missed;
          if (inside.fetch_add(1) != 0) ++overlaps;
          std::this_thread::sleep_for(std::chrono::microseconds(200));
          --inside;
        }
      });
    }
  }
  CHECK(missed == 0);
  CHECK(overlaps == 0);
  CHECK(first.journal.warnings() == 0);
}

TEST_CASE("another name is another lock; a held one times out to null, silently") {
  const Scratch scratch;
  Cache cache(scratch / "root");
  const auto held = cache.root.lock("a", Seconds(0));
  REQUIRE(held);
  CHECK(cache.root.lock("b", Seconds(0)));
  const auto start = std::chrono::steady_clock::now();
  CHECK_FALSE(cache.root.lock("a", Seconds(0.1)));
  CHECK(seconds_since(start) >= 0.1);
  CHECK_FALSE(cache.root.lock("a", Seconds(0)));
  CHECK(cache.journal.warnings() == 0);
}

TEST_CASE("a lock is free again once it is dropped, and a waiter gets it") {
  const Scratch scratch;
  Cache cache(scratch / "root");
  auto held = cache.root.lock("a", Seconds(0));
  std::atomic<bool> got{false};
  std::jthread waiter([&] { got = cache.root.lock("a", Seconds(60)) != nullptr; });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  CHECK_FALSE(got);
  held.reset();
  waiter.join();
  CHECK(got);
  CHECK(std::filesystem::exists(scratch / "root/v1/locks/a"));
  CHECK(mode_of(scratch / "root/v1/locks/a") == 0600);
}

TEST_CASE("a lock outlives the cache that gave it") {
  const Scratch scratch;
  std::unique_ptr<CacheRoot::Lock> lock;
  {
    Cache cache(scratch / "root");
    lock = cache.root.lock("a", Seconds(0));
  }
  Cache cache(scratch / "root");
  CHECK_FALSE(cache.root.lock("a", Seconds(0)));
  lock.reset();
  CHECK(cache.root.lock("a", Seconds(0)));
}

TEST_CASE("exclusive across processes, and released when the holder is killed") {
  const Scratch scratch;
  Cache cache(scratch / "root");
  Child child([&](const auto &ready) {
    Cache own(scratch / "root");
    const auto lock = own.root.lock("a", Seconds(10));
    ready();
    if (lock) ::pause();
  });
  CHECK_FALSE(cache.root.lock("a", Seconds(0.05)));
  child.kill();
  CHECK(cache.root.lock("a", Seconds(10)));
}

TEST_CASE("dropping a lock frees it even while a forked child still has its descriptor") {
  const Scratch scratch;
  Cache cache(scratch / "root");
  auto held = cache.root.lock("a", Seconds(0));
  REQUIRE(held);
  const Child child([&](const auto &ready) {
    ready();
    ::pause();
  });
  held.reset();
  CHECK(cache.root.lock("a", Seconds(0)));
}

TEST_CASE("no increment is lost between processes") {
  const Scratch scratch;
  write_file(scratch / "count", "0");
  std::vector<pid_t> children;
  for (int p = 0; p < 4; ++p) {
    const pid_t id = ::fork();
    REQUIRE(id >= 0);
    if (id == 0) {
      Cache own(scratch / "root");
      for (int i = 0; i < 20; ++i) {
        const auto lock = own.root.lock("a", Seconds(60));
        if (!lock) ::_exit(1);
        const int count = std::stoi(read_file(scratch / "count"));
        write_file(scratch / "count", std::to_string(count + 1));
      }
      ::_exit(0);
    }
    children.push_back(id);
  }
  for (const pid_t id : children) {
    int status = 0;
    ::waitpid(id, &status, 0);
    CHECK(status == 0);
  }
  CHECK(read_file(scratch / "count") == "80");
}

TEST_CASE("a lock file that is not right is not locked: alone, with one warning") {
  for (const char *kind : {"link", "fifo", "directory", "writable"}) {
    const Scratch scratch;
    Cache cache(scratch / "root");
    REQUIRE(cache.root.lock("other", Seconds(0)));
    const std::string path = scratch / "root/v1/locks/a";
    write_file(scratch / "target", "");
    if (kind == std::string("link")) REQUIRE(::symlink((scratch / "target").c_str(), path.c_str()) == 0);
    if (kind == std::string("fifo")) REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    if (kind == std::string("directory")) REQUIRE(::mkdir(path.c_str(), 0700) == 0);
    if (kind == std::string("writable")) {
      write_file(path, "");
      REQUIRE(::chmod(path.c_str(), 0666) == 0);
    }
    CAPTURE(kind);
    CHECK_FALSE(cache.root.lock("a", Seconds(5)));
    CHECK_FALSE(cache.root.lock("a", Seconds(5)));
    CHECK(cache.journal.warnings() == 1);
    CHECK(cache.journal.says(path));
    CHECK(cache.journal.says("going on without a lock"));
    // Files are kept all the same, and to look for them is no second reason to warn.
    CHECK(cache.root.publish("v1/x.json", "bytes"));
    CHECK(cache.root.kept().files == 1);
    CHECK(cache.journal.warnings() == 1);
    // Another wrong one is another culprit.
    REQUIRE(::mkfifo((scratch / "root/v1/locks/b").c_str(), 0600) == 0);
    CHECK_FALSE(cache.root.lock("b", Seconds(5)));
    CHECK(cache.journal.warnings() == 2);
    const auto found = cache.root.verify([](const std::string &, std::string_view) { return std::string(); });
    CHECK(std::ranges::any_of(found, [&](const auto &f) { return f.path == path && !f.problem.empty(); }));
  }
}

TEST_CASE("a file system without locks, or that fails: alone, with one warning") {
  for (const int error : {ENOLCK, ENOSYS, EOPNOTSUPP, EIO, ESTALE}) {
    const Scratch scratch;
    const auto files = std::make_shared<FaultyFiles>();
    Cache cache(scratch / "root", {}, files);
    files->fail(FileCall::lock, 1, error, true);
    CHECK_FALSE(cache.root.lock("a", Seconds(5)));
    CHECK_FALSE(cache.root.lock("b", Seconds(5)));
    CHECK(cache.journal.warnings() == 1);
    CHECK(files->left_open() == 0);
  }
}

TEST_CASE("a name that can't be a file's still locks") {
  const Scratch scratch;
  Cache cache(scratch / "root");
  for (const std::string &name :
       {std::string("../../out"), std::string("a/b"), std::string(), std::string(500, 'x'), std::string(".hidden")}) {
    const auto held = cache.root.lock(name, Seconds(0));
    CHECK(held);
    CHECK_FALSE(cache.root.lock(name, Seconds(0)));
  }
  CHECK_FALSE(std::filesystem::exists(scratch / "out"));
  CHECK(cache.journal.warnings() == 0);
}

TEST_CASE("an idle lock file is removed, a held one never; its removal does not split the lock") {
  const Scratch scratch;
  Cache cache(scratch / "root");
  auto held = cache.root.lock("held", Seconds(0));
  REQUIRE(cache.root.lock("idle", Seconds(0)));
  CHECK(cache.root.clear().removed == std::vector<std::string>{scratch / "root/v1/locks/idle"});
  CHECK(std::filesystem::exists(scratch / "root/v1/locks/held"));
  CHECK_FALSE(cache.root.lock("held", Seconds(0)));
}

// A waiter that has the file open while its holder's file is removed must not take the lock of the removed file.
TEST_CASE("locking and clearing at once: still one holder at a time") {
  const Scratch scratch(memory_directory());
  Cache cache(scratch / "root");
  std::atomic<bool> stop{false};
  std::atomic<int> inside{0};
  std::atomic<int> overlaps{0};
  {
    std::jthread clearer([&] {
      while (!stop) (void)cache.root.clear();
    });
    {
      std::vector<std::jthread> threads;
      for (int t = 0; t < 3; ++t) {
        threads.emplace_back([&] {
          for (int i = 0; i < 100; ++i) {
            const auto lock = cache.root.lock("a", Seconds(60));
            if (!lock) continue;  // the directory vanished under it
            if (inside.fetch_add(1) != 0) ++overlaps;
            std::this_thread::yield();
            --inside;
          }
        });
      }
    }
    stop = true;
  }
  CHECK(overlaps == 0);
}

}  // namespace msj::store
