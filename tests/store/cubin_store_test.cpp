#include "store/cubin_store.h"

#include <atomic>
#include <cerrno>
#include <thread>

#include "base/hash.h"
#include "faulty_files.h"
#include "scratch.h"

namespace msj::store {

namespace {

struct Store : Cache {
  using Cache::Cache;
  CubinStore cubins{root, journal.log};
};

std::string path_of(const std::string &root, const CubinFile &file) {
  return root + "/v1/cubins/" + file.hash.substr(0, 2) + "/" + file.hash + ".cubin";
}

bool same(const std::optional<CubinFile> &got, const CubinFile &file) {
  return got && got->hash == file.hash && got->key == file.key && got->provenance == file.provenance &&
         got->cubin == file.cubin;
}

}  // namespace

TEST_CASE("a saved cubin is loaded by the next context") {
  const Scratch scratch;
  const CubinFile file = sample_cubin();
  {
    Store store(scratch / "root");
    CHECK_FALSE(store.cubins.load(file.hash).has_value());
    store.cubins.save(file);
  }
  Store store(scratch / "root");
  CHECK(std::filesystem::exists(path_of(scratch / "root", file)));
  CHECK(same(store.cubins.load(file.hash), file));
  CHECK_FALSE(store.cubins.load(std::string(32, 'b')).has_value());
  CHECK_FALSE(store.cubins.load("").has_value());
  CHECK_FALSE(store.cubins.load("../../../../../../../etc/passwd.").has_value());
  store.cubins.remove(file.hash);
  CHECK_FALSE(store.cubins.load(file.hash).has_value());
  store.cubins.remove(file.hash);
  CHECK(store.journal.warnings() == 0);
}

TEST_CASE("a file broken in any way is a miss with one warning, and saving again mends it") {
  const Scratch scratch(memory_directory());
  const CubinFile file = sample_cubin('a', 200);
  const std::string path = path_of(scratch / "root", file);
  const std::string bytes = encode_cubin(file);
  std::vector<std::string> broken = {"", bytes + "x", std::string(bytes.size(), '\0')};
  for (std::size_t size = 0; size < bytes.size(); size += size < kCubinHeaderBytes ? 1 : 64) {
    broken.push_back(bytes.substr(0, size));
  }
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    broken.push_back(bytes);
    broken.back()[at] ^= 0x10;
  }
  Store writer(scratch / "root", {}, std::make_shared<FaultyFiles>());
  writer.cubins.save(file);
  for (const std::string &content : broken) {
    write_file(path, content);
    Store store(scratch / "root");
    CHECK_FALSE(store.cubins.load(file.hash).has_value());
    CHECK_FALSE(store.cubins.load(file.hash).has_value());
    CHECK(store.journal.warnings() == 1);
    CHECK(store.journal.says(path));
  }
  writer.cubins.save(file);
  CHECK(same(writer.cubins.load(file.hash), file));
}

TEST_CASE("a cubin under another's name is not taken for it") {
  const Scratch scratch;
  const CubinFile file = sample_cubin('a');
  const CubinFile other = sample_cubin('b');
  Store store(scratch / "root");
  store.cubins.save(file);
  write_file(path_of(scratch / "root", other), encode_cubin(file));
  REQUIRE(::chmod((scratch / "root/v1/cubins/bb").c_str(), 0700) == 0);
  CHECK_FALSE(store.cubins.load(other.hash).has_value());
  CHECK(store.journal.says("holds the cubin " + file.hash));
}

TEST_CASE("an invalid upper cubin does not hide a valid lower one") {
  const Scratch scratch;
  const CubinFile file = sample_cubin();
  Store(scratch / "ro").cubins.save(file);
  Store(scratch / "rw").cubins.save(file);
  write_file(path_of(scratch / "rw", file), "broken");
  Store store(scratch / "rw", {scratch / "ro"});
  CHECK(same(store.cubins.load(file.hash), file));
  CHECK(store.journal.warnings() == 1);
  store.cubins.save(file);
  CHECK(read_file(path_of(scratch / "rw", file)) == encode_cubin(file));
}

TEST_CASE("the list has every valid cubin of every layer once, without its bytes") {
  const Scratch scratch;
  Store(scratch / "ro").cubins.save(sample_cubin('c'));
  Store(scratch / "ro").cubins.save(sample_cubin('a'));
  Store store(scratch / "rw", {scratch / "ro"});
  store.cubins.save(sample_cubin('b'));
  store.cubins.save(sample_cubin('a'));
  store.cubins.save(sample_cubin('d'));
  write_file(path_of(scratch / "rw", sample_cubin('d')), "broken");
  write_file(scratch / "rw/v1/cubins/aa/notes.txt", "no cubin");
  const std::vector<CubinFile> list = store.cubins.list();
  REQUIRE(list.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(list[i].hash == std::string(32, "abc"[i]));
    CHECK(list[i].key == sample_cubin().key);
    CHECK(list[i].cubin.empty());
  }
  CHECK(store.journal.warnings() == 1);
}

TEST_CASE("a size cap: the least recently used go, a hit saves, the newest always stays") {
  const Scratch scratch;
  const auto one = [](char digit) { return sample_cubin(digit, 1000); };
  const auto bytes = static_cast<std::int64_t>(encode_cubin(one('a')).size());
  Settings settings = settings_for(scratch / "root");
  settings.cache_limit_bytes = 4 * bytes;
  Journal journal;
  CacheRoot root(settings, real_files(), journal.log);
  CubinStore cubins(root, journal.log);
  const auto there = [&](char digit) { return std::filesystem::exists(path_of(scratch / "root", one(digit))); };
  for (const char digit : {'a', 'b', 'c', 'd'}) {
    cubins.save(one(digit));
    age(path_of(scratch / "root", one(digit)), 1000 - digit);
  }
  CHECK(there('a'));
  CHECK(cubins.load(one('a').hash).has_value());
  cubins.save(one('e'));
  CHECK(there('a'));
  CHECK_FALSE(there('b'));
  CHECK(there('e'));

  settings.cache_limit_bytes = 1;
  CacheRoot tiny(settings, real_files(), journal.log);
  CubinStore(tiny, journal.log).save(one('f'));
  CHECK(there('f'));
  CHECK_FALSE(there('a'));
  CHECK_FALSE(there('e'));
  CHECK(journal.warnings() == 0);
}

TEST_CASE("what the size cap removed again does not count as kept") {
  const Scratch scratch;
  const auto one = [](char digit) { return sample_cubin(digit, 1000); };
  Settings settings = settings_for(scratch / "root");
  settings.cache_limit_bytes = 3 * static_cast<std::int64_t>(encode_cubin(one('a')).size());
  Journal journal;
  CacheRoot root(settings, real_files(), journal.log);
  CubinStore cubins(root, journal.log);
  const auto save = [&](char digit) {
    cubins.save(one(digit));
    age(path_of(scratch / "root", one(digit)), 1000 - digit);
  };
  for (const char digit : {'a', 'b', 'c'}) save(digit);
  CHECK(root.kept().files == 3);
  CHECK(root.kept().failed == 0);
  CHECK(root.kept().problem.empty());

  save('d');  // at the cap two of four stay
  CHECK(root.kept().files == 2);
  CHECK(root.kept().failed == 2);
  CHECK(root.kept().problem ==
        "the cache's size cap removed 2 again: MAXSIM_JIT_CACHE_LIMIT_MB is 0, and all of them need 1");
  cubins.save(one('a'));  // made again
  CHECK(root.kept().files == 3);
  CHECK(root.kept().failed == 1);

  // Of what a process only used, it misses what is gone, and does not claim what is there.
  CacheRoot next(settings, real_files(), journal.log);
  CubinStore used(next, journal.log);
  CHECK(used.load(one('a').hash).has_value());
  CHECK(used.load(one('d').hash).has_value());
  CHECK(next.kept().files == 0);
  CHECK(next.kept().failed == 0);
  cubins.remove(one('d').hash);
  CHECK(next.kept().failed == 1);
  CHECK(root.kept().failed == 1);  // removed on purpose
  (void)root.clear();
  CHECK(root.kept().failed == 1);  // 'b', as before: what was cleared is not missed
  CHECK(journal.warnings() == 0);
}

TEST_CASE("what others removed, or nobody can look for, is not blamed on the size cap") {
  const Scratch scratch;
  Settings settings = settings_for(scratch / "root");
  settings.cache_limit_bytes = std::int64_t{1} << 30;
  Journal journal;
  CacheRoot root(settings, real_files(), journal.log);
  CubinStore cubins(root, journal.log);
  for (const char digit : {'a', 'b'}) cubins.save(sample_cubin(digit));
  {
    Cache other(scratch / "root");
    CHECK(other.root.remove("v1/cubins/aa/" + sample_cubin('a').hash + ".cubin"));
  }
  CHECK(root.kept().failed == 1);
  CHECK(root.kept().problem == "1 are no longer in " + (scratch / "root") + ": another process removed them");
  REQUIRE(::chmod((scratch / "root/v1/cubins").c_str(), 0777) == 0);
  CHECK(root.kept().failed == 2);
  CHECK(root.kept().problem.starts_with("2 can't be found: " + (scratch / "root/v1/cubins is writable")));
}

TEST_CASE("far below the cap the directory is not combed at every save") {
  const Scratch scratch;
  const auto files = std::make_shared<FaultyFiles>();
  Store store(scratch / "root", {}, files);
  store.cubins.save(sample_cubin('a'));
  const int after_first = files->count(FileCall::list);
  for (const char digit : {'b', 'c', 'd'}) store.cubins.save(sample_cubin(digit));
  CHECK(after_first > 0);
  CHECK(files->count(FileCall::list) == after_first);
}

TEST_CASE("the cap holds however many threads save") {
  const Scratch scratch;
  Settings settings = settings_for(scratch / "root");
  settings.cache_limit_bytes = 20'000;
  Journal journal;
  CacheRoot root(settings, std::make_shared<FaultyFiles>(), journal.log);
  CubinStore cubins(root, journal.log);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 40; ++i) {
          CubinFile file = sample_cubin('a', 1000);
          file.hash = hash_name(std::to_string(t * 1000 + i));
          cubins.save(file);
        }
      });
    }
  }
  cubins.save(sample_cubin('f', 1000));
  std::int64_t total = 0;
  for (const std::string &relative : root.list("v1/cubins")) {
    total += static_cast<std::int64_t>(read_file(scratch / ("root/" + relative)).size());
  }
  CHECK(total <= 20'000);
  CHECK(total > 10'000);
  CHECK(journal.warnings() == 0);
}

TEST_CASE("cubin_problem: the right bytes at the right place") {
  const CubinFile file = sample_cubin();
  const std::string bytes = encode_cubin(file);
  const std::string relative = "v1/cubins/aa/" + file.hash + ".cubin";
  CHECK(cubin_problem(relative, bytes).empty());
  CHECK_FALSE(cubin_problem(relative, bytes + "x").empty());
  CHECK_FALSE(cubin_problem("v1/cubins/bb/" + file.hash + ".cubin", bytes).empty());
  CHECK_FALSE(cubin_problem("v1/cubins/bb/" + std::string(32, 'b') + ".cubin", bytes).empty());
  CHECK_FALSE(cubin_problem("v1/cubins/aa/x.cubin", bytes).empty());
  CHECK_FALSE(cubin_problem("v1/notes.txt", bytes).empty());
}

}  // namespace msj::store
