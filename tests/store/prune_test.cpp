#include "store/prune.h"

#include <algorithm>
#include <cerrno>

#include "faulty_files.h"
#include "scratch.h"

namespace msj::store {

namespace {

// Files say themselves whether they are right.
std::string judge(const std::string &relative, std::string_view bytes) {
  if (relative.ends_with(".txt")) return "no file of this cache has such a name";
  return bytes.starts_with("wrong") ? std::string("is wrong") : std::string();
}

struct PrunedCache {
  explicit PrunedCache(std::int64_t limit_bytes = 1 << 20) : settings(settings_for(scratch / "root")) {
    settings.cache_limit_bytes = limit_bytes;
    root.emplace(settings, faulty, journal.log);
    REQUIRE(root->publish("v1/gpu/autotune/op/key.json", "an entry"));
    REQUIRE(root->publish("v1/cubins/aa/a.cubin", "a cubin"));
  }
  [[nodiscard]] std::string at(const std::string &relative) const { return scratch / ("root/v1/" + relative); }
  [[nodiscard]] bool there(const std::string &relative) const {
    return std::filesystem::exists(std::filesystem::symlink_status(at(relative)));
  }
  // What was removed: "path below v1: reason", in order.
  std::vector<std::string> prune() {
    last = root->prune(judge);
    std::vector<std::string> removed;
    for (const auto &file : last.removed) removed.push_back(file.path.substr(at("").size()) + ": " + file.reason);
    std::ranges::sort(removed);
    return removed;
  }
  Scratch scratch;
  Settings settings;
  std::shared_ptr<FaultyFiles> faulty = std::make_shared<FaultyFiles>();
  Journal journal;
  std::optional<CacheRoot> root;
  Pruned last;
};

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("a sound cache stays as it is, but for locks that nobody holds") {
  PrunedCache cache;
  CHECK(cache.prune().empty());
  REQUIRE(cache.root->lock("idle", std::chrono::seconds(0)));
  const auto held = cache.root->lock("held", std::chrono::seconds(0));
  REQUIRE(held);
  CHECK(cache.prune() == Lines{"locks/idle: is a lock that nobody holds"});
  CHECK(cache.there("locks/held"));
  CHECK(cache.last.left.empty());
  CHECK(cache.last.bytes_before == 15);
  CHECK(cache.last.bytes_after == 15);
  CHECK(cache.root->kept().failed == 0);
}

TEST_CASE("what another process publishes while the old file is judged stays") {
  PrunedCache cache;
  REQUIRE(cache.root->publish("v1/cubins/aa/b.cubin", "wrong"));
  const Pruned pruned = cache.root->prune([&](const std::string &relative, std::string_view bytes) {
    std::string problem = judge(relative, bytes);
    if (!problem.empty()) REQUIRE(cache.root->publish(relative, "right"));
    return problem;
  });
  CHECK(pruned.removed.empty());
  CHECK(pruned.left.empty());
  CHECK(read_file(cache.at("cubins/aa/b.cubin")) == "right");
}

TEST_CASE("each kind of what no lookup takes goes") {
  PrunedCache cache;
  write_file(cache.at("cubins/aa/b.cubin"), "wrong bytes");
  write_file(cache.at("gpu/autotune/op/other.json"), "wrong");
  write_file(cache.at("cubins/aa/c.cubin"), "open to others");
  REQUIRE(::chmod(cache.at("cubins/aa/c.cubin").c_str(), 0666) == 0);
  write_file(cache.scratch / "target", "untouched");
  REQUIRE(::symlink((cache.scratch / "target").c_str(), cache.at("cubins/aa/d.cubin").c_str()) == 0);
  REQUIRE(::mkfifo(cache.at("cubins/aa/e.cubin").c_str(), 0600) == 0);
  REQUIRE(::mkdir(cache.at("cubins/aa/f.cubin").c_str(), 0700) == 0);
  write_file(cache.at("cubins/aa/.tmp-1-old"), "half");
  write_file(cache.at("cubins/aa/.tmp-1-new"), "half");
  age(cache.at("cubins/aa/.tmp-1-old"), 3700);
  std::filesystem::resize_file(cache.at("cubins/aa/b.cubin"), 11);
  write_file(cache.at("cubins/aa/g.cubin"), "");
  std::filesystem::resize_file(cache.at("cubins/aa/g.cubin"), kMaxFileBytes + 1);
  CHECK(cache.prune() == Lines{"cubins/aa/.tmp-1-old: is a leftover: the temporary of an interrupted write",
                               "cubins/aa/b.cubin: is wrong",
                               "cubins/aa/c.cubin: is writable by group or others (mode 0666); run chmod go-w on it",
                               "cubins/aa/d.cubin: is a symbolic link", "cubins/aa/e.cubin: is a FIFO, not a file",
                               "cubins/aa/f.cubin: is a directory, not a file",
                               "cubins/aa/g.cubin: has 67108865 bytes; at most 67108864 are accepted",
                               "gpu/autotune/op/other.json: is wrong"});
  CHECK(cache.last.left.empty());
  CHECK(cache.there("cubins/aa/.tmp-1-new"));
  CHECK(cache.there("cubins/aa/a.cubin"));
  CHECK(cache.there("gpu/autotune/op/key.json"));
  CHECK(read_file(cache.scratch / "target") == "untouched");
  CHECK(cache.last.bytes_before - cache.last.bytes_after == 11 + 5 + 14 + 4 + kMaxFileBytes + 1);
}

TEST_CASE("what is not the cache's own stays, and is told") {
  PrunedCache cache;
  write_file(cache.at("notes.txt"), "mine");
  REQUIRE(::mkdir(cache.at("full.json").c_str(), 0700) == 0);
  write_file(cache.at("full.json/notes.txt"), "mine");
  write_file(cache.scratch / "root/v2/other.cubin", "wrong, but of another version");
  write_file(cache.scratch / "root/wrong.json", "wrong, but not below v1");
  CHECK(cache.prune().empty());
  REQUIRE(cache.last.left.size() == 3);
  CHECK(cache.last.left[0].path == cache.at("full.json/notes.txt"));
  CHECK(cache.last.left[1].reason == "is a directory, not a file");
  CHECK(cache.last.left[2].path == cache.at("notes.txt"));
  CHECK(cache.there("notes.txt"));
  CHECK(std::filesystem::exists(cache.scratch / "root/v2/other.cubin"));
  CHECK(std::filesystem::exists(cache.scratch / "root/wrong.json"));
}

TEST_CASE("no link is followed out of the cache") {
  PrunedCache cache;
  write_file(cache.scratch / "outside/x.cubin", "wrong");
  REQUIRE(::symlink((cache.scratch / "outside").c_str(), cache.at("cubins/bb").c_str()) == 0);
  (void)cache.prune();
  CHECK(read_file(cache.scratch / "outside/x.cubin") == "wrong");
}

TEST_CASE("a directory that others can write is not touched, and told once") {
  PrunedCache cache;
  write_file(cache.at("cubins/aa/b.cubin"), "wrong");
  REQUIRE(::chmod(cache.at("cubins").c_str(), 0777) == 0);
  CHECK(cache.prune().empty());
  REQUIRE(cache.last.left.size() == 1);
  CHECK(cache.last.left[0].reason.find("writable by group or others") != std::string::npos);
  REQUIRE(::chmod(cache.at("cubins").c_str(), 0700) == 0);
  REQUIRE(::chmod((cache.scratch / "root").c_str(), 0777) == 0);
  CHECK(cache.prune().empty());
  REQUIRE(cache.last.left.size() == 1);
  CHECK(cache.last.left[0].path == cache.scratch / "root");
}

TEST_CASE("what can't be opened, read or removed just now stays: it may be sound") {
  for (const FileCall call : {FileCall::open, FileCall::read, FileCall::status, FileCall::list, FileCall::status_at}) {
    PrunedCache cache;
    for (int nth = 1;; ++nth) {
      CAPTURE(kFileCallNames[static_cast<std::size_t>(call)]);
      CAPTURE(nth);
      cache.faulty->fail(call, nth, EIO);
      CHECK(cache.prune().empty());
      if (cache.faulty->hits() == 0) break;
      CHECK(cache.there("cubins/aa/a.cubin"));
      CHECK(cache.there("gpu/autotune/op/key.json"));
    }
  }
  PrunedCache cache;
  write_file(cache.at("cubins/aa/b.cubin"), "wrong");
  cache.faulty->fail(FileCall::remove, 1, EBUSY);
  CHECK(cache.prune().empty());
  REQUIRE(cache.last.left.size() == 1);
  CHECK(cache.last.left[0].reason.starts_with("can't be removed: "));
  cache.faulty->heal();
  CHECK(cache.prune() == Lines{"cubins/aa/b.cubin: is wrong"});
  CHECK(cache.faulty->left_open() == 0);
}

TEST_CASE("then the cubins used longest ago go, down to the cap and no further") {
  PrunedCache cache(1000);
  std::filesystem::remove(cache.at("cubins/aa/a.cubin"));
  for (int i = 0; i < 12; ++i) {
    const std::string name = "cubins/aa/" + std::string(1, static_cast<char>('b' + i)) + ".cubin";
    REQUIRE(cache.root->publish("v1/" + name, std::string(100, 'x')));
    age(cache.at(name), i < 6 ? 1000 + i : 10);
  }
  write_file(cache.at("cubins/aa/wrong.cubin"),
             "wrong" + std::string(95, 'x'));  // goes for nothing: frees no room first
  const Lines removed = cache.prune();
  REQUIRE(removed.size() == 3);
  CHECK(removed[0].starts_with("cubins/aa/f.cubin: was used longest ago"));
  CHECK(removed[1].starts_with("cubins/aa/g.cubin: was used longest ago"));
  CHECK(removed[2] == "cubins/aa/wrong.cubin: is wrong");
  CHECK(cache.last.bytes_before == 8 + 1300);
  CHECK(cache.last.bytes_after == 8 + 1000);
  CHECK(cache.prune().empty());
}

TEST_CASE("read-only layers are not touched, and without a writable one nothing is") {
  PrunedCache cache;
  write_file(cache.at("cubins/aa/b.cubin"), "wrong");
  Cache above(cache.scratch / "above", {cache.scratch / "root"});
  CHECK(above.root.prune(judge).removed.empty());
  Settings none;
  none.read_only_dirs = {cache.scratch / "root"};
  CacheRoot only_below(none, real_files(), cache.journal.log);
  CHECK(only_below.prune(judge).removed.empty());
  CHECK(cache.there("cubins/aa/b.cubin"));
}

}  // namespace msj::store
