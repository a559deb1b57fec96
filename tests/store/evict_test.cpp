#include "store/evict.h"

#include <algorithm>
#include <cerrno>

#include "faulty_files.h"
#include "scratch.h"

namespace msj::store {

namespace {

// Files of 100 bytes, the first the one used longest ago.
struct Filled {
  explicit Filled(int files) : cache(scratch / "root", {}, faulty) {
    for (int i = 0; i < files; ++i) {
      REQUIRE(cache.root.publish(name(i), std::string(100, 'x')));
      age(path(i), 1000 - i, 900 - i);  // the nanoseconds say the opposite
    }
  }
  [[nodiscard]] static std::string name(int i) {
    return "v1/cubins/" + std::string(1, static_cast<char>('a' + i % 3)) + "/" + std::to_string(i) + ".cubin";
  }
  [[nodiscard]] std::string path(int i) const { return scratch / ("root/" + name(i)); }
  [[nodiscard]] std::string left() const {
    std::string text;
    for (int i = 0; i < 10; ++i) text += std::filesystem::exists(path(i)) ? std::to_string(i) : "";
    return text;
  }
  Scratch scratch;
  std::shared_ptr<FaultyFiles> faulty = std::make_shared<FaultyFiles>();
  Cache cache;
};

}  // namespace

TEST_CASE("under the limit nothing is removed") {
  Filled filled(10);
  CHECK(filled.cache.root.evict("v1/cubins", 1000) == 1000);
  CHECK(filled.left() == "0123456789");
}

TEST_CASE("above it the least recently used go, down to 7/8") {
  Filled filled(10);
  CHECK(filled.cache.root.evict("v1/cubins", 999) == 800);
  CHECK(filled.left() == "23456789");
  CHECK(filled.cache.journal.warnings() == 0);
}

TEST_CASE("what is no cubin is neither counted nor removed") {
  Filled filled(10);
  const std::string notes = filled.scratch / "root/v1/cubins/a/notes.txt";
  write_file(notes, std::string(5000, 'x'));
  age(notes, 5000);
  CHECK(filled.cache.root.evict("v1/cubins", 1000) == 1000);
  CHECK(filled.cache.root.evict("v1/cubins", 1) == 0);
  CHECK(filled.left().empty());
  CHECK(std::filesystem::exists(notes));
}

TEST_CASE("a use saves a file") {
  Filled filled(10);
  CHECK(filled.cache.root.read(Filled::name(0), nullptr, {.is_use = true}).has_value());
  (void)filled.cache.root.evict("v1/cubins", 999);
  CHECK(filled.left() == "03456789");
}

TEST_CASE("the file just written stays, however old it seems and however small the limit") {
  Filled filled(10);
  CHECK(filled.cache.root.evict("v1/cubins", 1, Filled::name(0)) == 100);
  CHECK(filled.left() == "0");
}

TEST_CASE("only the named directory is looked at, and read-only layers are not") {
  Filled filled(3);
  REQUIRE(filled.cache.root.publish("v1/gpu/autotune/op/k.json", std::string(5000, 'x')));
  Cache below(filled.scratch / "rw", {filled.scratch / "root"});
  CHECK(below.root.evict("v1/cubins", 1) == 0);
  CHECK(filled.cache.root.evict("v1/cubins", 300) == 300);
  CHECK(filled.left() == "012");
}

TEST_CASE("stale temporaries and idle locks go, young ones and held ones stay") {
  Filled filled(1);
  const std::string folder = filled.scratch / "root/v1/cubins/a/";
  write_file(folder + ".tmp-1-old", "half");
  write_file(folder + ".tmp-1-new", "half");
  age(folder + ".tmp-1-old", 3700);
  CacheRoot &root = filled.cache.root;
  REQUIRE(root.lock("old", std::chrono::seconds(0)));
  REQUIRE(root.lock("new", std::chrono::seconds(0)));
  const auto held = root.lock("held", std::chrono::seconds(0));
  const std::string locks = filled.scratch / "root/v1/locks/";
  age(locks + "old", 90'000);
  age(locks + "held", 90'000);
  CHECK(root.evict("v1/cubins", 1000) == 104);
  CHECK_FALSE(std::filesystem::exists(folder + ".tmp-1-old"));
  CHECK(std::filesystem::exists(folder + ".tmp-1-new"));
  CHECK_FALSE(std::filesystem::exists(locks + "old"));
  CHECK(std::filesystem::exists(locks + "new"));
  CHECK(std::filesystem::exists(locks + "held"));
}

TEST_CASE("a time in the future is no use: such files go first, and leftovers and idle locks of then go too") {
  Filled filled(10);
  age(filled.path(8), -90'000);
  age(filled.path(9), -90'000);
  CHECK(filled.cache.root.evict("v1/cubins", 999) == 800);
  CHECK(filled.left() == "01234567");
  const std::string temporary = filled.scratch / "root/v1/cubins/a/.tmp-1-future";
  write_file(temporary, "half");
  age(temporary, -90'000);
  REQUIRE(filled.cache.root.lock("future", std::chrono::seconds(0)));
  age(filled.scratch / "root/v1/locks/future", -90'000);
  const auto found = filled.cache.root.verify([](const std::string &, std::string_view) { return std::string(); });
  CHECK(std::ranges::any_of(found, [&](const auto &f) { return f.path == temporary && !f.problem.empty(); }));
  CHECK(filled.cache.root.evict("v1/cubins", 1000) == 800);
  CHECK_FALSE(std::filesystem::exists(temporary));
  CHECK_FALSE(std::filesystem::exists(filled.scratch / "root/v1/locks/future"));
}

TEST_CASE("a clock that is some seconds behind the file server's changes nothing") {
  Filled filled(10);
  age(filled.path(9), -20);
  (void)filled.cache.root.evict("v1/cubins", 999);
  CHECK(filled.left() == "23456789");
}

TEST_CASE("a file that can't be removed is one warning, and the next is tried") {
  Filled filled(10);
  filled.faulty->fail(FileCall::remove, 1, EBUSY);
  CHECK(filled.cache.root.evict("v1/cubins", 999) == 800);
  CHECK(filled.left() == "03456789");
  CHECK(filled.cache.journal.warnings() == 1);
}

TEST_CASE("a directory that others can write is not evicted from") {
  Filled filled(10);
  REQUIRE(::chmod((filled.scratch / "root/v1/cubins/a").c_str(), 0777) == 0);
  (void)filled.cache.root.evict("v1/cubins", 1);
  CHECK(filled.left() == "0369");
  CHECK(filled.cache.journal.warnings() == 1);
}

}  // namespace msj::store
