#include "store/archive.h"

#include <algorithm>
#include <cerrno>
#include <set>

#include "faulty_files.h"
#include "scratch.h"
#include "store/cubin_store.h"
#include "tar_files.h"

namespace msj::store {

namespace {

constexpr const char *kEntry = "v1/gpu/autotune/op/key.json";

std::string cubin_path(char digit) {
  const std::string hash(32, digit);
  return fmt::format("{}/{}/{}.cubin", kCubins, hash.substr(0, 2), hash);
}

std::string cubin_bytes(char digit, std::size_t size = 40) { return encode_cubin(sample_cubin(digit, size)); }

// Real cubins are checked as ever; an entry is right if it begins with "entry", and obsolete if it ends with "old".
std::string check(const std::string &relative, std::string_view bytes) {
  if (relative.starts_with(kCubins)) return cubin_problem(relative, bytes);
  return bytes.starts_with("entry") ? std::string() : std::string("is no entry");
}
std::string obsolete(const std::string &, std::string_view bytes) { return bytes.ends_with("old") ? "is old" : ""; }

Exported exported_to(Cache &cache, const std::string &file) {
  return export_archive(cache.root, file, {check, [](const std::string &, std::string_view) { return true; }});
}
Imported imported_from(Cache &cache, const std::string &file) {
  return import_archive(cache.root, file, {check, obsolete});
}

// The sentence of the Error that `call` throws; "" if it throws none.
template <typename Call>
std::string sentence_of(const Call &call) {
  try {
    call();
  } catch (const Error &error) {
    CHECK(error.status() == MSJ_ERROR_IO);
    return error.what();
  }
  return {};
}

bool is_in(const std::string &part, const std::string &text) { return text.find(part) != std::string::npos; }

void fill(Cache &cache) {
  REQUIRE(cache.root.publish(kEntry, "entry"));
  REQUIRE(cache.root.publish(cubin_path('a'), cubin_bytes('a')));
  REQUIRE(cache.root.publish(cubin_path('b'), cubin_bytes('b', 3000)));
}

// Below a root: "v1/…" of every file.
std::vector<std::string> files_of(const std::string &root) {
  std::vector<std::string> found;
  std::error_code none;
  for (const auto &entry : std::filesystem::recursive_directory_iterator(root, none)) {
    if (!entry.is_directory()) found.push_back(std::filesystem::relative(entry.path(), root).string());
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace

TEST_CASE("exported, imported: the same files, and the same archive from them") {
  const Scratch scratch;
  Cache from(scratch / "from");
  fill(from);
  REQUIRE(from.root.lock("idle", std::chrono::seconds(0)));
  const Exported exported = exported_to(from, scratch / "a.tar");
  CHECK(exported.entries == 1);
  CHECK(exported.cubins == 2);
  CHECK(exported.bytes == static_cast<std::int64_t>(5 + cubin_bytes('a').size() + cubin_bytes('b', 3000).size()));

  Cache to(scratch / "to");
  const Imported imported = imported_from(to, scratch / "a.tar");
  CHECK(imported.entries == 1);
  CHECK(imported.cubins == 2);
  CHECK(imported.bytes == exported.bytes);
  CHECK(imported.refused.empty());
  for (const std::string &file : {std::string(kEntry), cubin_path('a'), cubin_path('b')}) {
    CHECK(read_file(scratch / ("to/" + file)) == read_file(scratch / ("from/" + file)));
    CHECK(mode_of(scratch / ("to/" + file)) == 0600);
  }
  (void)exported_to(to, scratch / "b.tar");
  age(scratch / ("to/" + cubin_path('a')), 5000);
  (void)exported_to(to, scratch / "c.tar");
  CHECK(read_file(scratch / "a.tar") == read_file(scratch / "b.tar"));
  CHECK(read_file(scratch / "a.tar") == read_file(scratch / "c.tar"));

  const Imported again = imported_from(to, scratch / "a.tar");
  CHECK(again.entries + again.cubins == 0);
  CHECK(again.identical == 3);
  CHECK(to.journal.warnings() == 0);
}

TEST_CASE("of each path the first valid file of all layers is exported, as a lookup finds it") {
  const Scratch scratch;
  Cache below(scratch / "below");
  fill(below);
  Cache above(scratch / "above", {scratch / "below"});
  REQUIRE(above.root.publish(kEntry, "entry of above"));
  REQUIRE(above.root.publish(cubin_path('a'), "no cubin"));
  REQUIRE(above.root.publish(cubin_path('c'), "no cubin, here or below"));
  CHECK(exported_to(above, scratch / "a.tar").cubins == 2);
  CHECK(above.journal.warnings() == 2);
  Cache to(scratch / "to");
  CHECK(imported_from(to, scratch / "a.tar").cubins == 2);
  CHECK(read_file(scratch / "to/" + kEntry) == "entry of above");
  CHECK(read_file(scratch / "to/" + cubin_path('a')) == cubin_bytes('a'));
  CHECK(imported_from(above, scratch / "a.tar").cubins == 2);  // over what is invalid, and over a lower layer
  CHECK(read_file(scratch / "above/" + cubin_path('a')) == cubin_bytes('a'));
}

TEST_CASE("only what is wanted is exported") {
  const Scratch scratch;
  Cache cache(scratch / "root");
  fill(cache);
  const auto entries = [](const std::string &relative, std::string_view) { return relative.ends_with(".json"); };
  const Exported exported = export_archive(cache.root, scratch / "a.tar", {check, entries});
  CHECK(exported.entries == 1);
  CHECK(exported.cubins == 0);
}

TEST_CASE("an archive that can't be written is no file, and a sentence") {
  const Scratch scratch;
  auto files = std::make_shared<FaultyFiles>();
  Cache cache(scratch / "root", {}, files);
  fill(cache);
  std::filesystem::create_directory(scratch / "out");
  const std::string file = scratch / "out/a.tar";
  const auto exporting = [&] { (void)exported_to(cache, file); };
  for (const bool existed : {false, true}) {
    if (existed) write_file(file, "old");
    for (const FileCall call : {FileCall::write, FileCall::sync, FileCall::link, FileCall::rename}) {
      for (int nth = 1; nth < 3; ++nth) {
        files->fail(call, nth, ENOSPC);
        const std::string sentence = sentence_of(exporting);
        CAPTURE(kFileCallNames[static_cast<std::size_t>(call)]);
        if (files->hits() == 0 || (call == FileCall::sync && nth == 2)) continue;  // the directory: the file is there
        const std::string step = call == FileCall::sync     ? " (on fsync)"
                                 : call == FileCall::link   ? " (on link)"
                                 : call == FileCall::rename ? " (on rename)"
                                                            : "";
        CHECK(sentence == fmt::format("{} can't be written{}: No space left on device", file, step));
        CHECK(std::filesystem::exists(file) == existed);
        if (existed) CHECK(read_file(file) == "old");
        CHECK(leftovers(scratch / "out") == 0);
      }
      if (!existed) std::filesystem::remove(file);
      if (existed) write_file(file, "old");
    }
  }
  files->heal();
  CHECK(
      is_in("there is no directory " + scratch / "none", sentence_of([&] { exported_to(cache, scratch / "none/a"); })));
  CHECK(is_in("no regular file", sentence_of([&] { exported_to(cache, scratch / "out"); })));
  CHECK(is_in("no regular file", sentence_of([&] { exported_to(cache, "/dev/null"); })));
  CHECK(is_in("there is no directory", sentence_of([&] { exported_to(cache, file + "/a.tar"); })));
  CHECK(files->left_open() == 0);
}

TEST_CASE("a failing close: the archive is there and nothing is said, or it is not and a sentence says so") {
  const Scratch scratch;
  auto files = std::make_shared<FaultyFiles>();
  Cache cache(scratch / "root", {}, files);
  fill(cache);
  const std::string file = scratch / "out/a.tar";
  std::filesystem::create_directory(scratch / "out");
  (void)exported_to(cache, file);
  const std::string whole = read_file(file);
  for (const bool existed : {false, true}) {
    for (int nth = 1;; ++nth) {
      CAPTURE(nth);
      std::filesystem::remove(file);
      if (existed) write_file(file, "old");
      files->fail(FileCall::close, nth, EIO);
      const std::string sentence = sentence_of([&] { (void)exported_to(cache, file); });
      if (files->hits() == 0) break;
      if (sentence.empty()) {
        CHECK(read_file(file) == whole);
      } else {
        CHECK(sentence == file + " can't be written (on close): Input/output error");
        CHECK(std::filesystem::exists(file) == existed);
        if (existed) CHECK(read_file(file) == "old");
      }
      CHECK(leftovers(scratch / "out") == 0);
    }
  }
}

TEST_CASE("a link to an archive is followed, in both ways") {
  const Scratch scratch;
  Cache cache(scratch / "root");
  fill(cache);
  write_file(scratch / "there/real.tar", "");
  REQUIRE(::symlink("there/real.tar", (scratch / "link.tar").c_str()) == 0);
  CHECK(exported_to(cache, scratch / "link.tar").entries == 1);
  CHECK(std::filesystem::is_symlink(scratch / "link.tar"));
  CHECK(imported_from(cache, scratch / "link.tar").identical == 3);
  std::filesystem::remove(scratch / "there/real.tar");
  CHECK(exported_to(cache, scratch / "link.tar").entries == 1);
  CHECK(std::filesystem::is_regular_file(std::filesystem::symlink_status(scratch / "there/real.tar")));
  REQUIRE(::symlink("loop", (scratch / "loop").c_str()) == 0);
  CHECK(sentence_of([&] { exported_to(cache, scratch / "loop"); }) ==
        scratch / "loop" + " can't be written: Too many levels of symbolic links");
}

TEST_CASE("members that have no place in a cache are refused, each by its name; the others are taken") {
  const Scratch scratch;
  const std::string cubin = cubin_bytes('a');
  const std::string target = scratch / "target.json";
  write_file(target, "untouched");
  std::string too_large = tar_member({.name = "v1/gpu/autotune/op/large.json"});
  const std::uint64_t size = static_cast<std::uint64_t>(kMaxFileBytes) + 1;
  too_large.replace(124, 11, fmt::format("{:011o}", size));
  seal_header(too_large);
  too_large += std::string(size + kTarBlock - size % kTarBlock, 'x');
  const std::vector<HandMade> members = {
      {"./", '5'},
      {"./v1/", '5'},
      {"../v1/gpu/autotune/op/key.json", '0', "entry"},
      {"v1/../../evil.json", '0', "entry"},
      {"/" + std::string(kEntry), '0', "entry"},
      {target, '0', "entry"},
      {"v2/gpu/autotune/op/key.json.txt", '0', "entry"},
      {"v1/gpu/autotune/op/.hidden.json", '0', "entry"},
      {"v1/cubins/aa/.tmp-1-0", '0', cubin},
      {"v1//gpu/autotune/op/key.json", '0', "entry"},
      {"", '0', "entry"},
      {"v1/notes.txt", '0', "entry"},
      {"v1/locks/x.json", '0', "entry"},  // passed over, as a lock
      {.name = "v1/gpu/autotune/op/link.json", .type = '2', .link = target},
      {.name = "v1/gpu/autotune/op/hard.json", .type = '1', .link = kEntry},
      {"v1/gpu/autotune/op/null.json", '3'},
      {"v1/gpu/autotune/op/fifo.json", '6'},
      {"v1/gpu/autotune/op/wrong.json", '0', "wrong"},
      {cubin_path('b'), '0', cubin},  // another's name
      {"./" + cubin_path('a'), '0', cubin},
      {kEntry, '0', "entry"},
  };
  std::string tar;
  for (const HandMade &member : members) tar += tar_member(member);
  write_file(scratch / "a.tar", tar + too_large + tar_end());
  Cache cache(scratch / "root");
  const Imported imported = imported_from(cache, scratch / "a.tar");
  std::vector<std::string> refused;
  for (const auto &one : imported.refused) refused.push_back(one.path + " " + one.problem);
  const std::string no_name = " is no name for a cache file";
  CHECK(refused ==
        std::vector<std::string>{
            "../v1/gpu/autotune/op/key.json" + no_name, "v1/../../evil.json" + no_name,
            "/" + std::string(kEntry) + no_name, target + no_name,
            "v2/gpu/autotune/op/key.json.txt no file of this cache has such a name",
            "v1/gpu/autotune/op/.hidden.json" + no_name, "v1/cubins/aa/.tmp-1-0" + no_name,
            "v1//gpu/autotune/op/key.json" + no_name, no_name, "v1/notes.txt no file of this cache has such a name",
            "v1/gpu/autotune/op/link.json is a symbolic link, not a file",
            "v1/gpu/autotune/op/hard.json is a hard link, not a file",
            "v1/gpu/autotune/op/null.json is a device, not a file",
            "v1/gpu/autotune/op/fifo.json is a FIFO, not a file", "v1/gpu/autotune/op/wrong.json is no entry",
            cubin_path('b') + " holds the cubin " + std::string(32, 'a'),
            "v1/gpu/autotune/op/large.json has 67108865 bytes; at most 67108864 are accepted"});
  CHECK(imported.entries == 1);
  CHECK(imported.cubins == 1);
  CHECK(files_of(scratch / "root") == std::vector<std::string>{cubin_path('a'), kEntry});
  CHECK(files_of(scratch.path()).size() == 4);  // with the archive and the target: nothing beside the root
  CHECK(read_file(target) == "untouched");
}

TEST_CASE("names that no file can have are refused, and told by their beginning") {
  const Scratch scratch;
  const std::string name(100'000, 'n');
  const std::string entry = "v1/gpu/autotune/op/" + name + ".json";
  write_file(scratch / "a.tar", tar_of({{"x", 'x', pax("path", entry)},
                                        {"short", '0', "entry"},
                                        {"x", 'x', pax("path", name)},
                                        {"short", '2'},
                                        {"x", 'x', pax("path", "v1/gpu/autotune/op/" + name.substr(0, 251) + ".json")},
                                        {"short", '0', "entry"},
                                        {kEntry, '0', "entry"}}));
  Cache cache(scratch / "root");
  const Imported imported = imported_from(cache, scratch / "a.tar");
  CHECK(imported.entries == 1);
  REQUIRE(imported.refused.size() == 3);
  for (const auto &refused : imported.refused) {
    CHECK(refused.path.size() < 120);
    CHECK(is_in("nnn…", refused.path));
  }
  CHECK(is_in("(100024 bytes)", imported.refused[0].path));
  CHECK(imported.refused[0].problem == "is no name for a cache file");
  CHECK(imported.refused[1].problem == "is a symbolic link, not a file");
  CHECK(imported.refused[2].problem == "is no name for a cache file");
}

TEST_CASE("a valid file that is there stays; an invalid one is replaced, and an obsolete one by one that is not") {
  const Scratch scratch;
  const auto outcome = [&](const std::string &own, const std::string &given) {
    const Scratch root;
    Cache cache(root / "root");
    REQUIRE(cache.root.publish(kEntry, own));
    write_file(scratch / "a.tar", tar_of({{kEntry, '0', given}}));
    const Imported imported = imported_from(cache, scratch / "a.tar");
    CHECK(imported.refused.empty());
    CHECK(imported.entries + imported.identical + imported.kept == 1);
    const std::string now = read_file(root / "root/" + kEntry);
    CHECK(now == (imported.entries == 1 ? given : own));
    return std::string(imported.entries == 1 ? "replaced" : imported.identical == 1 ? "identical" : "kept");
  };
  CHECK(outcome("entry, mine", "entry, yours") == "kept");
  CHECK(outcome("entry, mine", "entry, mine") == "identical");
  CHECK(outcome("damaged", "entry, yours") == "replaced");
  CHECK(outcome("entry, old", "entry, yours") == "replaced");
  CHECK(outcome("entry, old", "entry, also old") == "kept");
  CHECK(outcome("entry, mine", "entry, old") == "kept");
}

TEST_CASE("cut off or with a flipped bit: nothing invalid is kept, and of a cut one nothing at all") {
  const Scratch scratch(memory_directory());
  const std::string good = tar_of(
      {{kEntry, '0', "entry"}, {cubin_path('a'), '0', cubin_bytes('a')}, {cubin_path('b'), '0', cubin_bytes('b')}});
  const auto import_bytes = [&](const std::string &tar) {
    std::filesystem::remove_all(scratch / "root");
    write_file(scratch / "a.tar", tar);
    Cache cache(scratch / "root");
    std::string sentence = sentence_of([&] { (void)imported_from(cache, scratch / "a.tar"); });
    if (!sentence.empty()) {
      CHECK(sentence.starts_with(scratch / "a.tar "));
      CHECK(files_of(scratch / "root").empty());
    }
    for (const auto &found : cache.root.verify(check)) CHECK(found.problem.empty());
    return sentence;
  };
  CHECK(import_bytes(good).empty());
  for (std::size_t size = 0; size < good.size() - kTarBlock; size += 61) {
    CAPTURE(size);
    CHECK_FALSE(import_bytes(good.substr(0, size)).empty());
  }
  for (std::size_t at = 0; at < good.size(); at += 3) {
    CAPTURE(at);
    std::string flipped = good;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << at % 8));
    (void)import_bytes(flipped);
  }
}

TEST_CASE("compressed archives, and what is none") {
  using namespace std::string_literals;
  const Scratch scratch;
  Cache cache(scratch / "root");
  const std::string file = scratch / "a.tar";
  const auto sentence = [&](const std::string &bytes) {
    write_file(file, bytes + std::string(2000, 'x'));
    return sentence_of([&] { (void)imported_from(cache, file); });
  };
  CHECK(is_in(file + " is compressed with gzip; decompress it first (gzip -d)", sentence("\x1f\x8b\x08"s)));
  CHECK(is_in("is compressed with zstd", sentence("\x28\xb5\x2f\xfd"s)));
  CHECK(is_in("is compressed with xz", sentence("\xfd"
                                                "7zXZ\0"s)));
  CHECK(is_in("is compressed with bzip2", sentence("BZh9"s)));
  CHECK(is_in(file + " is no tar archive", sentence("PK")));
  CHECK(is_in("can't be opened: No such file", sentence_of([&] { (void)imported_from(cache, scratch / "none"); })));
  CHECK(is_in("is no regular file", sentence_of([&] { (void)imported_from(cache, scratch.path()); })));
  REQUIRE(::mkfifo((scratch / "fifo").c_str(), 0600) == 0);
  CHECK(is_in("is no regular file", sentence_of([&] { (void)imported_from(cache, scratch / "fifo"); })));
  CHECK(files_of(scratch / "root").empty());
}

TEST_CASE("an archive that changes while it is imported: the sentence says how many files were taken") {
  const Scratch scratch;
  const std::string tar = scratch / "a.tar";
  const std::string whole = tar_of(
      {{kEntry, '0', "entry"}, {cubin_path('a'), '0', cubin_bytes('a')}, {cubin_path('b'), '0', cubin_bytes('b')}});
  write_file(tar, whole);
  const auto files = std::make_shared<FaultyFiles>();
  std::set<std::size_t> numbers;
  for (int nth = 1;; ++nth) {
    std::filesystem::remove_all(scratch / "root");
    Cache cache(scratch / "root", {}, files);
    files->fail(FileCall::read, nth, EIO);
    const std::string sentence = sentence_of([&] { (void)imported_from(cache, tar); });
    if (files->hits() == 0) break;
    const std::size_t taken = files_of(scratch / "root").size();
    const std::string unread = tar + " can't be read: Input/output error";
    const bool is_first_reading = sentence == unread;
    CAPTURE(sentence);
    CHECK((is_first_reading || sentence == fmt::format("{}; {} of its files were imported before", unread, taken)));
    if (is_first_reading) CHECK(taken == 0);
    if (!is_first_reading) numbers.insert(taken);
  }
  CHECK(numbers == std::set<std::size_t>{0, 1, 2, 3});
  files->heal();

  // Cut by another's hand once the first file is there.
  std::filesystem::remove_all(scratch / "root");
  Cache cache(scratch / "root");
  const auto cutting = [&](const std::string &relative, std::string_view bytes) {
    std::filesystem::resize_file(tar, whole.size() / 2);
    return check(relative, bytes);
  };
  const std::string cut = sentence_of([&] { (void)import_archive(cache.root, tar, {cutting, obsolete}); });
  CHECK(is_in("became shorter than its", cut));
  CHECK(cut.ends_with(fmt::format("; {} of its files were imported before", files_of(scratch / "root").size())));
}

TEST_CASE("an archive that can't be read, and a cache that can't keep it, are one sentence") {
  const Scratch scratch;
  auto files = std::make_shared<FaultyFiles>();
  Cache cache(scratch / "root", {}, files);
  write_file(scratch / "a.tar", tar_of({{kEntry, '0', "entry"}, {cubin_path('a'), '0', cubin_bytes('a')}}));
  const auto importing = [&] { (void)imported_from(cache, scratch / "a.tar"); };
  for (int nth = 1; nth < 8; ++nth) {
    files->fail(FileCall::read, nth, EIO, true);
    CHECK(is_in(scratch / "a.tar can't be read: ", sentence_of(importing)));
  }
  std::filesystem::remove_all(scratch / "root");
  files->fail(FileCall::write, 1, ENOSPC, true);
  const std::string full = sentence_of(importing);
  CHECK(is_in(scratch / "a.tar can't be imported further, after 0 of its files: ", full));
  CHECK(is_in("No space left on device", full));
  CHECK(files_of(scratch / "root").empty());
  files->heal();
  files->set_short_transfers(true);
  CHECK(imported_from(cache, scratch / "a.tar").cubins == 1);
  CHECK(files->left_open() == 0);
}

}  // namespace msj::store
