#include "store/cache_root.h"

#include <fcntl.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "faulty_files.h"
#include "scratch.h"

namespace msj::store {

namespace {

constexpr uid_t kOther = 12345;

void mode(const std::string &path, mode_t mode) { REQUIRE(::chmod(path.c_str(), mode) == 0); }
void give_to(const std::string &path, uid_t user) { REQUIRE(::lchown(path.c_str(), user, user) == 0); }

// A layer with one file, as a container image would have it.
void make_layer(const std::string &root, const std::string &relative, const std::string &bytes) {
  Cache cache(root);
  REQUIRE(cache.root.publish(relative, bytes));
}

std::string accept_good(std::string_view bytes) { return bytes == "good" ? "" : "is not good"; }

}  // namespace

TEST_CASE("nothing is made before it is needed, then 0700") {
  const Scratch scratch;
  Cache cache(scratch / "a/root");
  CHECK_FALSE(cache.root.read("v1/x.json").has_value());
  CHECK(cache.root.list("v1").empty());
  CHECK(cache.root.clear().removed.empty());
  CHECK_FALSE(std::filesystem::exists(scratch / "a"));
  CHECK(cache.root.writable() == scratch / "a/root");
  CHECK(mode_of(scratch / "a/root") == 0700);
  CHECK(cache.journal.warnings() == 0);
}

TEST_CASE("what is published is read back, by this cache and the next") {
  const Scratch scratch;
  Cache cache(scratch / "root with space/Wurzel-ß-根");
  CHECK(cache.root.publish("v1/NVIDIA H200/x.json", "bytes"));
  std::string path;
  CHECK(cache.root.read("v1/NVIDIA H200/x.json", &path) == "bytes");
  CHECK(path == scratch / "root with space/Wurzel-ß-根/v1/NVIDIA H200/x.json");
  CHECK(mode_of(scratch / "root with space/Wurzel-ß-根/v1/NVIDIA H200") == 0700);
  Cache next(scratch / "root with space/Wurzel-ß-根");
  CHECK(next.root.read("v1/NVIDIA H200/x.json") == "bytes");
  CHECK(next.root.list("v1") == std::vector<std::string>{"v1/NVIDIA H200/x.json"});
  CHECK(next.root.remove("v1/NVIDIA H200/x.json"));
  CHECK_FALSE(next.root.remove("v1/NVIDIA H200/x.json"));
  CHECK_FALSE(next.root.read("v1/NVIDIA H200/x.json").has_value());
  CHECK(next.journal.warnings() == 0);
}

TEST_CASE("a name can't lead out of the cache") {
  const Scratch scratch;
  write_file(scratch / "secret", "x");
  Cache cache(scratch / "root");
  CHECK_FALSE(cache.root.publish("v1/../../out", "x"));
  CHECK_FALSE(cache.root.read("../secret").has_value());
  CHECK_FALSE(cache.root.remove("../secret"));
  CHECK(std::filesystem::exists(scratch / "secret"));
  CHECK_FALSE(std::filesystem::exists(scratch / "out"));
}

TEST_CASE("layers: the first that has the file wins; only the writable one is written") {
  const Scratch scratch;
  make_layer(scratch / "ro1", "v1/both", "ro1");
  make_layer(scratch / "ro2", "v1/both", "ro2");
  make_layer(scratch / "ro2", "v1/low", "ro2");
  Cache cache(scratch / "rw", {scratch / "ro1", scratch / "ro2"});
  std::string path;
  CHECK(cache.root.read("v1/both", &path) == "ro1");
  CHECK(path == scratch / "ro1/v1/both");
  CHECK(cache.root.read("v1/low") == "ro2");
  CHECK(cache.root.publish("v1/both", "rw"));
  CHECK(cache.root.read("v1/both", &path) == "rw");
  CHECK(path == scratch / "rw/v1/both");
  CHECK(read_file(scratch / "ro1/v1/both") == "ro1");
  CHECK(cache.root.list("v1") == std::vector<std::string>{"v1/both", "v1/low"});
  CHECK(cache.root.layers() == std::vector<std::string>{scratch / "rw", scratch / "ro1", scratch / "ro2"});
  CHECK_FALSE(cache.root.remove("v1/low"));
  CHECK(cache.root.remove("v1/both"));
  CHECK(cache.root.read("v1/both") == "ro1");
  CHECK(cache.journal.warnings() == 0);
}

TEST_CASE("an invalid upper file does not hide a valid lower one, and is replaced by publishing") {
  const Scratch scratch;
  make_layer(scratch / "rw", "v1/x", "broken");
  make_layer(scratch / "ro", "v1/x", "good");
  Cache cache(scratch / "rw", {scratch / "ro"});
  std::string path;
  for (int i = 0; i < 3; ++i) CHECK(cache.root.read("v1/x", &path, {.check = accept_good}) == "good");
  CHECK(path == scratch / "ro/v1/x");
  CHECK(cache.journal.warnings() == 1);
  CHECK(cache.journal.says(scratch / "rw/v1/x is not good"));
  CHECK(cache.root.publish("v1/x", "good"));
  CHECK(cache.root.read("v1/x", &path, {.check = accept_good}) == "good");
  CHECK(path == scratch / "rw/v1/x");
}

TEST_CASE(
    "what is no trusted regular file is a miss with one warning, a lower layer is asked, publishing replaces it") {
  for (const char *kind : {"link", "dangling", "fifo", "group", "world", "other"}) {
    if (kind == std::string("other") && !is_root()) continue;
    const Scratch scratch;
    make_layer(scratch / "ro", "v1/x", "low");
    make_layer(scratch / "rw", "v1/neighbour", "fine");
    const std::string path = scratch / "rw/v1/x";
    write_file(scratch / "target", "outside");
    if (kind == std::string("link")) REQUIRE(::symlink((scratch / "target").c_str(), path.c_str()) == 0);
    if (kind == std::string("dangling")) REQUIRE(::symlink("nowhere", path.c_str()) == 0);
    if (kind == std::string("fifo")) REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    if (kind == std::string("group") || kind == std::string("world") || kind == std::string("other")) {
      write_file(path, "evil");
    }
    if (kind == std::string("group")) mode(path, 0660);
    if (kind == std::string("world")) mode(path, 0606);
    if (kind == std::string("other")) give_to(path, kOther);
    CAPTURE(kind);
    Cache cache(scratch / "rw", {scratch / "ro"});
    CHECK(cache.root.read("v1/x") == "low");
    CHECK(cache.root.read("v1/x") == "low");
    CHECK(cache.journal.warnings() == 1);
    CHECK(cache.journal.says(path));
    CHECK(cache.root.read("v1/neighbour") == "fine");
    CHECK(cache.root.publish("v1/x", "new"));
    CHECK(cache.root.read("v1/x") == "new");
    CHECK(read_file(scratch / "target") == "outside");
    CHECK(cache.journal.warnings() == 1);
  }
}

TEST_CASE("a directory in place of a file, and a file in place of a directory") {
  const Scratch scratch;
  make_layer(scratch / "ro", "v1/x", "low");
  make_layer(scratch / "ro", "v1/d/y", "low");
  std::filesystem::create_directories(scratch / "rw/v1/x");
  write_file(scratch / "rw/v1/d", "");
  for (const char *path : {"rw", "rw/v1", "rw/v1/x"}) mode(scratch / path, 0700);
  Cache cache(scratch / "rw", {scratch / "ro"});
  CHECK(cache.root.read("v1/x") == "low");
  CHECK(cache.journal.says("is a directory, not a file"));
  CHECK(cache.root.read("v1/d/y") == "low");
  CHECK(cache.journal.warnings() == 2);
  CHECK_FALSE(cache.root.publish("v1/d/y", "new"));
  write_file(scratch / "rw/v1/x/precious", "data");
  CHECK_FALSE(cache.root.publish("v1/x", "new"));
  CHECK(cache.journal.warnings() == 2);  // the same culprits, whether they are read or written
  std::filesystem::remove(scratch / "rw/v1/x/precious");
  CHECK(cache.root.publish("v1/x", "new"));  // an empty directory is in nobody's way
  CHECK(cache.root.read("v1/x") == "new");
  CHECK(leftovers(scratch / "rw") == 0);
}

TEST_CASE("an unusable root: one warning for the context, not for each file; the lower layer serves") {
  for (const char *kind : {"group", "link", "file", "other", "dangling"}) {
    if (kind == std::string("other") && !is_root()) continue;
    const Scratch scratch;
    make_layer(scratch / "ro", "v1/x", "low");
    make_layer(scratch / "real", "v1/y", "evil");
    const std::string root = scratch / "rw";
    if (kind == std::string("group")) {
      make_layer(root, "v1/y", "evil");
      mode(root, 0770);
    }
    if (kind == std::string("other")) {
      make_layer(root, "v1/y", "evil");
      give_to(root, kOther);
    }
    if (kind == std::string("link")) REQUIRE(::symlink((scratch / "real").c_str(), root.c_str()) == 0);
    if (kind == std::string("dangling")) REQUIRE(::symlink("nowhere", root.c_str()) == 0);
    if (kind == std::string("file")) write_file(root, "");
    CAPTURE(kind);
    Cache cache(root, {scratch / "ro"});
    for (int i = 0; i < 2; ++i) {
      CHECK(cache.root.read("v1/x") == "low");
      CHECK_FALSE(cache.root.read("v1/y").has_value());
      CHECK_FALSE(cache.root.publish("v1/z" + std::to_string(i), "new"));
      CHECK(cache.root.writable().empty());
      CHECK_FALSE(cache.root.lock("a", std::chrono::seconds(5)));
      CHECK(cache.root.list("v1") == std::vector<std::string>{"v1/x"});
      CHECK(cache.root.clear().removed.empty());
      CHECK(cache.root.evict("v1", 0) == 0);
    }
    CHECK(cache.journal.warnings() == 1);
    CHECK(cache.journal.says(root));
    CHECK(std::filesystem::exists(scratch / "real/v1/y"));
  }
}

TEST_CASE("a writable or linked subdirectory is not used, neither to read nor to write") {
  for (const char *kind : {"writable", "link", "other"}) {
    if (kind == std::string("other") && !is_root()) continue;
    const Scratch scratch;
    make_layer(scratch / "rw", "v1/d/x", "evil");
    make_layer(scratch / "rw", "v1/y", "fine");
    write_file(scratch / "elsewhere/x", "evil");
    const std::string folder = scratch / "rw/v1/d";
    if (kind == std::string("writable")) mode(folder, 0777);
    if (kind == std::string("other")) give_to(folder, kOther);
    if (kind == std::string("link")) {
      std::filesystem::remove_all(folder);
      REQUIRE(::symlink((scratch / "elsewhere").c_str(), folder.c_str()) == 0);
    }
    CAPTURE(kind);
    Cache cache(scratch / "rw");
    CHECK_FALSE(cache.root.read("v1/d/x").has_value());
    CHECK_FALSE(cache.root.read("v1/d/y").has_value());
    CHECK_FALSE(cache.root.publish("v1/d/z", "new"));
    CHECK(cache.root.read("v1/y") == "fine");
    CHECK(cache.journal.warnings() == 1);
    CHECK(cache.journal.says(folder));
    (void)cache.root.clear();
    CHECK(std::filesystem::exists(scratch / "elsewhere/x"));
    CHECK_FALSE(std::filesystem::exists(scratch / "elsewhere/z"));
  }
}

TEST_CASE("a writable v1 spoils all below it") {
  const Scratch scratch;
  make_layer(scratch / "rw", "v1/x", "evil");
  mode(scratch / "rw/v1", 0775);
  Cache cache(scratch / "rw");
  CHECK_FALSE(cache.root.read("v1/x").has_value());
  CHECK_FALSE(cache.root.publish("v1/y", "new"));
  CHECK(cache.root.list("v1").empty());
  CHECK(cache.journal.warnings() == 1);
}

TEST_CASE("a layer baked by root serves another user, who can't write it") {
  if (!is_root()) return;
  const Scratch scratch;
  make_layer(scratch / "baked", "v1/d/x", "baked");
  for (const char *path : {"", "baked", "baked/v1", "baked/v1/d"}) mode(scratch / path, 0755);
  mode(scratch / "baked/v1/d/x", 0644);
  std::filesystem::create_directory(scratch / "home");
  give_to(scratch / "home", kOther);

  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (::setresgid(kOther, kOther, kOther) != 0 || ::setresuid(kOther, kOther, kOther) != 0) ::_exit(10);
    Cache cache(scratch / "home/.cache/maxsim-jit", {scratch / "baked"});
    if (cache.root.read("v1/d/x") != "baked") ::_exit(11);
    if (!cache.root.publish("v1/d/y", "mine")) ::_exit(12);
    if (cache.root.read("v1/d/y") != "mine") ::_exit(13);
    if (cache.journal.warnings() != 0) ::_exit(14);
    // The same directory as the writable one: read, not written, with one warning.
    Cache direct(scratch / "baked");
    if (direct.root.read("v1/d/x") != "baked") ::_exit(15);
    if (direct.root.publish("v1/d/y", "mine") || !direct.root.writable().empty()) ::_exit(16);
    if (direct.root.lock("a", std::chrono::seconds(5))) ::_exit(17);
    if (direct.journal.warnings() != 1) ::_exit(18);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WEXITSTATUS(status) == 0);
  CHECK_FALSE(std::filesystem::exists(scratch / "baked/v1/d/y"));
}

TEST_CASE("an unreadable file, directory or root is a miss with one warning") {
  if (!is_root()) return;
  const Scratch scratch;
  make_layer(scratch / "ro", "v1/d/x", "bytes");
  mode(scratch.path(), 0755);
  for (const char *shut : {"ro/v1/d/x", "ro/v1/d", "ro"}) {
    for (const char *path : {"ro", "ro/v1", "ro/v1/d"}) mode(scratch / path, 0755);
    mode(scratch / "ro/v1/d/x", 0644);
    mode(scratch / shut, 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      if (::setresuid(kOther, kOther, kOther) != 0) ::_exit(10);
      Settings settings;
      settings.read_only_dirs = {scratch / "ro"};
      Journal journal;
      CacheRoot root(settings, real_files(), journal.log);
      if (root.read("v1/d/x") || root.read("v1/d/x")) ::_exit(11);
      ::_exit(journal.warnings() == 1 && journal.says("Permission denied") ? 0 : 12);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    CAPTURE(shut);
    CHECK(WEXITSTATUS(status) == 0);
  }
  mode(scratch / "ro", 0755);
}

TEST_CASE("no home: in memory, with one warning that says what to set") {
  Settings settings;
  settings.cache_dir_problem = "no cache directory: HOME is not set";
  Journal journal;
  CacheRoot root(settings, real_files(), journal.log);
  CHECK_FALSE(root.read("v1/x").has_value());
  CHECK(root.writable().empty());
  CHECK_FALSE(root.publish("v1/x", "bytes"));
  CHECK_FALSE(root.lock("a", std::chrono::seconds(5)));
  CHECK(root.list("v1").empty());
  CHECK(root.clear().removed.empty());
  CHECK(journal.warnings() == 1);
  CHECK(journal.says("HOME is not set"));
}

TEST_CASE("a home directory that does not exist is not made") {
  const Scratch scratch;
  Settings settings = settings_for(scratch / "home/.cache/maxsim-jit");
  settings.home = scratch / "home";
  Journal journal;
  CacheRoot root(settings, real_files(), journal.log);
  CHECK_FALSE(root.read("v1/x").has_value());
  CHECK_FALSE(root.publish("v1/x", "bytes"));
  CHECK(root.writable().empty());
  CHECK(journal.warnings() == 1);
  CHECK(journal.says(scratch / "home can't be opened"));
  CHECK_FALSE(std::filesystem::exists(scratch / "home"));
}

TEST_CASE("no writable layer by choice: silent") {
  const Scratch scratch;
  make_layer(scratch / "ro", "v1/x", "low");
  Cache cache("", {scratch / "ro"});
  CHECK(cache.root.read("v1/x", nullptr, {.is_use = true}) == "low");
  CHECK(cache.root.writable().empty());
  CHECK_FALSE(cache.root.publish("v1/y", "bytes"));
  CHECK_FALSE(cache.root.remove("v1/x"));
  CHECK_FALSE(cache.root.lock("a", std::chrono::seconds(5)));
  CHECK(cache.root.clear().removed.empty());
  CHECK(cache.root.read("v1/x") == "low");
  CHECK(cache.journal.warnings() == 0);
}

TEST_CASE("a read-only layer that is not there is named once") {
  const Scratch scratch;
  Cache cache(scratch / "rw", {scratch / "typo"});
  CHECK_FALSE(cache.root.read("v1/x").has_value());
  CHECK_FALSE(cache.root.read("v1/y").has_value());
  CHECK(cache.journal.warnings() == 1);
  CHECK(cache.journal.says(scratch / "typo does not exist"));
  CHECK_FALSE(std::filesystem::exists(scratch / "typo"));
}

TEST_CASE("a use refreshes the time, a look does not, and a read-only layer is left alone") {
  const Scratch scratch;
  make_layer(scratch / "rw", "v1/x", "1");
  make_layer(scratch / "ro", "v1/y", "2");
  age(scratch / "rw/v1/x", 5000);
  age(scratch / "ro/v1/y", 5000);
  Cache cache(scratch / "rw", {scratch / "ro"});
  const auto time = [](const std::string &path) {
    struct stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    return status.st_mtime;
  };
  const auto recent = ::time(nullptr) - 1000;
  CHECK(cache.root.read("v1/x").has_value());
  CHECK(time(scratch / "rw/v1/x") < recent);
  CHECK(cache.root.read("v1/x", nullptr, {.is_use = true}).has_value());
  CHECK(time(scratch / "rw/v1/x") > recent);
  CHECK(cache.root.read("v1/y", nullptr, {.is_use = true}).has_value());
  CHECK(time(scratch / "ro/v1/y") < recent);
}

TEST_CASE("verify names everything that is wrong, in every layer, and the rest as right") {
  const Scratch scratch;
  make_layer(scratch / "rw", "v1/d/good.json", "good");
  make_layer(scratch / "rw", "v1/d/bad.json", "bad");
  make_layer(scratch / "ro", "v1/low.json", "bad");
  write_file(scratch / "rw/v1/d/.tmp-1-00", "half");
  age(scratch / "rw/v1/d/.tmp-1-00", 3700);
  write_file(scratch / "rw/v1/d/.tmp-1-01", "being written, as far as anybody can know");
  write_file(scratch / "rw/v1/d/group.json", "good");
  mode(scratch / "rw/v1/d/group.json", 0664);
  REQUIRE(::symlink("nowhere", (scratch / "rw/v1/d/link.json").c_str()) == 0);
  REQUIRE(::mkfifo((scratch / "rw/v1/d/fifo.json").c_str(), 0600) == 0);
  std::filesystem::create_directory(scratch / "rw/v1/d/folder.json");
  std::filesystem::create_directory(scratch / "rw/v1/open");
  write_file(scratch / "rw/v1/open/x.json", "good");
  mode(scratch / "rw/v1/open", 0777);
  mode(scratch / "rw/v1/d/folder.json", 0700);
  write_file(scratch / "rw/not-ours", "");
  Cache cache(scratch / "rw", {scratch / "ro", scratch / "typo"});
  REQUIRE(cache.root.lock("a", std::chrono::seconds(0)));

  const auto found = cache.root.verify([](const std::string &, std::string_view b) { return accept_good(b); });
  std::string text;
  for (const auto &[path, problem, is_root] : found) {
    text += path.substr(scratch.path().size()) + (is_root ? " (root) " : " ") + problem + "\n";
  }
  CHECK(text ==
        "/rw/v1/d/.tmp-1-00 is a leftover: the temporary of an interrupted write\n"
        "/rw/v1/d/bad.json is not good\n"
        "/rw/v1/d/fifo.json is a FIFO, not a file\n"
        "/rw/v1/d/folder.json is a directory, not a file\n"
        "/rw/v1/d/good.json \n"
        "/rw/v1/d/group.json is writable by group or others (mode 0664); run chmod go-w on it\n"
        "/rw/v1/d/link.json is a symbolic link\n"
        "/rw/v1/open is writable by group or others (mode 0777); run chmod go-w on it\n"
        "/ro/v1/low.json is not good\n"
        "/typo (root) does not exist\n");
}

TEST_CASE("a layer that is listed twice, by whatever path, is verified once") {
  const Scratch scratch;
  make_layer(scratch / "rw", "v1/a.json", "good");
  const std::string other_way = scratch.path() + "/./rw";
  Cache cache(scratch / "rw", {scratch / "rw", other_way, scratch / "none", scratch / "none"});
  const auto found = cache.root.verify([](const std::string &, std::string_view) { return std::string(); });
  REQUIRE(found.size() == 2);
  CHECK(found[0].path == scratch / "rw/v1/a.json");
  CHECK(found[1].is_root);
}

TEST_CASE("verify tells the check where a file lies, and of an unusable root") {
  const Scratch scratch;
  make_layer(scratch / "rw", "v1/a/b.json", "bytes");
  Cache cache(scratch / "rw");
  std::vector<std::string> seen;
  (void)cache.root.verify([&](const std::string &relative, std::string_view) {
    seen.push_back(relative);
    return std::string();
  });
  CHECK(seen == std::vector<std::string>{"v1/a/b.json"});
  mode(scratch / "rw", 0777);
  const auto found = cache.root.verify([](const std::string &, std::string_view) { return std::string(); });
  REQUIRE(found.size() == 1);
  CHECK(found[0].path == scratch / "rw");
}

TEST_CASE("verify makes nothing, and says of a missing root only why the first use could not make it") {
  const Scratch scratch;
  const auto verified = [](Cache &cache) {
    return cache.root.verify([](const std::string &, std::string_view) { return std::string(); });
  };
  const std::string deep = scratch / "a/b/root";
  Cache cache(deep);
  CHECK(verified(cache).empty());
  CHECK_FALSE(std::filesystem::exists(scratch / "a"));

  std::vector<std::string> places = {"/proc/cache", "/proc/a/cache", scratch / "plain/cache"};
  write_file(scratch / "plain", "");
  std::filesystem::create_directory(scratch / "closed");
  mode(scratch / "closed", 0500);
  if (!is_root()) places.push_back(scratch / "closed/cache");
  for (const std::string &place : places) {
    Cache unusable(place);
    const auto found = verified(unusable);
    const auto examined = unusable.root.examine_layers();
    REQUIRE(found.size() == 1);
    REQUIRE(examined.size() == 1);
    CHECK(found[0].is_root);
    CHECK_FALSE(examined[0].problem.empty());
    CHECK(found[0].path + " " + found[0].problem == examined[0].problem);
  }

  const auto files = std::make_shared<FaultyFiles>();
  Cache read_only(deep, {}, files);
  files->fail(FileCall::may_write, 1, EROFS);
  const auto found = verified(read_only);
  REQUIRE(found.size() == 1);
  CHECK(found[0].path == deep);
  CHECK(found[0].problem == "can't be reached: " + scratch / "a" + " can't be made: Read-only file system");
  CHECK(files->left_open() == 0);
}

TEST_CASE("a warning of what could not be kept counts as logged where the log takes warnings") {
  for (const char *level : {"", "warn", "debug", "error", "off"}) {
    const Scratch scratch;
    write_file(scratch / "plain", "");
    Settings settings = settings_for(scratch / "plain/cache");
    settings.log_level = level;
    Journal journal;
    CacheRoot root(settings, real_files(), journal.log);
    CHECK_FALSE(root.kept().logged);
    CHECK_FALSE(root.publish("v1/x.json", "good"));
    CAPTURE(level);
    CHECK(root.kept().failed == 1);
    CHECK(root.kept().logged == (std::string_view(level) != "error" && std::string_view(level) != "off"));
  }
}

TEST_CASE("a full disk is one good sentence") {
  const Scratch scratch;
  const auto files = std::make_shared<FaultyFiles>();
  Cache cache(scratch / "root", {}, files);
  std::string why;
  REQUIRE(cache.root.publish("v1/a.json", "good", &why));
  CHECK(why.empty());
  const std::string path = scratch / "root/v1/b.json";
  const auto problem_of = [&](FileCall call) {
    files->fail(call, 1, ENOSPC);
    CHECK_FALSE(cache.root.publish("v1/b.json", "good", &why));
    return why;
  };
  CHECK(problem_of(FileCall::write) == path + " can't be written: No space left on device");
  CHECK(cache.journal.last() == "cache: " + path +
                                    " can't be written: No space left on device; going on in memory where it can't be "
                                    "kept");
  CHECK(problem_of(FileCall::sync) == path + " can't be written (on fsync): No space left on device");
  CHECK(problem_of(FileCall::rename) == path + " can't be written (on rename): No space left on device");
}

TEST_CASE("clear removes what is ours below v1, follows no link, and leaves the rest") {
  const Scratch scratch;
  make_layer(scratch / "rw", "v1/cubins/aa/x.cubin", "1");
  make_layer(scratch / "rw", "v1/gpu/autotune/op/k.json", "2");
  make_layer(scratch / "ro", "v1/gpu/autotune/op/k.json", "3");
  write_file(scratch / "rw/v1/cubins/aa/.tmp-1-00", "half");
  age(scratch / "rw/v1/cubins/aa/.tmp-1-00", 7200);
  write_file(scratch / "rw/other", "kept");
  write_file(scratch / "rw/v2/x.cubin", "kept");
  write_file(scratch / "outside/x.cubin", "kept");
  REQUIRE(::symlink((scratch / "outside").c_str(), (scratch / "rw/v1/cubins/bb").c_str()) == 0);
  REQUIRE(::symlink((scratch / "outside/x.cubin").c_str(), (scratch / "rw/v1/cubins/aa/y.cubin").c_str()) == 0);
  write_file(scratch / "rw/v1/cubins/notes.txt", "kept");

  Cache cache(scratch / "rw", {scratch / "ro"});
  const CacheRoot::Cleared cleared = cache.root.clear();
  CHECK(cleared.removed ==
        std::vector<std::string>{scratch / "rw/v1/cubins/aa/.tmp-1-00", scratch / "rw/v1/cubins/aa/x.cubin",
                                 scratch / "rw/v1/cubins/aa/y.cubin", scratch / "rw/v1/gpu/autotune/op/k.json"});
  std::vector<std::string> left;
  for (const auto &file : cleared.left) left.push_back(file.path + " " + file.problem);
  CHECK(left == std::vector<std::string>{scratch / "rw/v1/cubins/bb no file of this cache has such a name",
                                         scratch / "rw/v1/cubins/notes.txt no file of this cache has such a name"});
  for (const char *kept :
       {"rw/other", "rw/v2/x.cubin", "outside/x.cubin", "rw/v1/cubins/notes.txt", "ro/v1/gpu/autotune/op/k.json"}) {
    CAPTURE(kept);
    CHECK(std::filesystem::exists(scratch / kept));
  }
  CHECK_FALSE(std::filesystem::exists(scratch / "rw/v1/gpu"));
  CHECK_FALSE(std::filesystem::exists(scratch / "rw/v1/cubins/aa"));
}

TEST_CASE("clear of a cache that holds only ours leaves the bare root") {
  const Scratch scratch;
  make_layer(scratch / "rw", "v1/cubins/aa/x.cubin", "1");
  Cache cache(scratch / "rw");
  REQUIRE(cache.root.lock("a", std::chrono::seconds(0)));
  CHECK(cache.root.clear().removed.size() == 2);
  CHECK(std::filesystem::is_empty(scratch / "rw"));
  CHECK(cache.root.publish("v1/cubins/aa/x.cubin", "2"));
}

TEST_CASE("clear leaves what somebody is writing, and says nothing of it") {
  const Scratch scratch;
  make_layer(scratch / "rw", "v1/cubins/aa/x.cubin", "1");
  write_file(scratch / "rw/v1/cubins/aa/.tmp-1-00", "half");
  Cache cache(scratch / "rw");
  const CacheRoot::Cleared cleared = cache.root.clear();
  CHECK(cleared.removed == std::vector<std::string>{scratch / "rw/v1/cubins/aa/x.cubin"});
  CHECK(cleared.left.empty());
  CHECK(read_file(scratch / "rw/v1/cubins/aa/.tmp-1-00") == "half");
}

TEST_CASE("publishing while another clears: every file is kept, whole, and nothing is to blame") {
  const Scratch scratch(memory_directory());
  Cache cache(scratch / "rw", {}, std::make_shared<FaultyFiles>());
  Cache other(scratch / "rw");
  std::atomic<bool> stop{false};
  std::atomic<int> torn{0};
  std::atomic<int> blamed{0};
  {
    std::jthread clearer([&] {
      while (!stop) blamed += static_cast<int>(other.root.clear().left.size());
    });
    for (int i = 0; i < 2000; ++i) {
      if (!cache.root.publish("v1/cubins/aa/x.cubin", "bytes")) ++torn;
      const auto bytes = cache.root.read("v1/cubins/aa/x.cubin");
      if (bytes && *bytes != "bytes") ++torn;
    }
    stop = true;
  }
  CHECK(torn == 0);
  CHECK(blamed == 0);
  CHECK(cache.journal.warnings() + other.journal.warnings() == 0);
  CHECK(leftovers(scratch / "rw") == 0);
}

}  // namespace msj::store
