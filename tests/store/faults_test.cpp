// Every call of the file system, failing in every way, at every place where it is made: the library goes on in memory,
// warns once, leaves nothing half done and nothing open.
#include <cerrno>

#include "faulty_files.h"
#include "scratch.h"
#include "store/cubin_store.h"
#include "store/entry_store.h"

namespace msj::store {

namespace {

constexpr std::array<int, 7> kErrors = {ENOSPC, EROFS, ESTALE, EBUSY, EIO, EACCES, EMFILE};

// All that a context does with its cache.
struct Context {
  Context(const Scratch &scratch, const std::shared_ptr<FaultyFiles> &files)
      : cache(scratch / "link/root", {scratch / "ro"}, files) {}
  Cache cache;
  CubinStore cubins{cache.root, cache.journal.log};
  EntryStore entries{cache.root, cache.journal.log};

  // What was loaded is right or missing, never anything else.
  void use() {
    const CubinFile file = sample_cubin('a');
    check(cubins.load(file.hash), file);
    {
      const auto lock = cache.root.lock("key", std::chrono::seconds(0));
      cubins.save(file);
    }
    check(cubins.load(file.hash), file);
    check(cubins.load(sample_cubin('b').hash), sample_cubin('b'));  // of the layer below
    entries.save({"gpu", "op", "key", "{}", {}});
    if (const auto entry = entries.load("gpu", "op", "key")) CHECK(entry->text == "{}");
    for (const CubinFile &listed : cubins.list()) CHECK(listed.key == file.key);
    for (const auto &found : cache.root.verify([](const std::string &relative, std::string_view bytes) -> std::string {
           return relative.ends_with(".cubin") ? cubin_problem(relative, bytes) : "";
         })) {
      CHECK_FALSE(found.path.empty());
    }
    (void)cache.root.writable();
    (void)cache.root.evict("v1/cubins", 1);
    (void)cache.root.clear();
  }

  static void check(const std::optional<CubinFile> &found, const CubinFile &file) {
    if (found) CHECK(found->cubin == file.cubin);
  }
};

void prepare(const Scratch &scratch) {
  Cache below(scratch / "ro", {}, std::make_shared<FaultyFiles>());
  CubinStore(below.root, below.journal.log).save(sample_cubin('b'));
  std::filesystem::create_directory(scratch / "real");
  REQUIRE(::chmod((scratch / "real").c_str(), 0700) == 0);
  REQUIRE(::symlink("real", (scratch / "link").c_str()) == 0);
}

// One fault in one run; whether it was met at all.
bool run_with_fault(const Scratch &scratch, FileCall call, int nth, int error, bool forever) {
  const auto files = std::make_shared<FaultyFiles>();
  Context context(scratch, files);
  files->fail(call, nth, error, forever);
  context.use();
  const bool met = files->hits() > 0;
  CHECK(files->left_open() == 0);
  // A single fault has a single culprit. A lasting one may have several: a root, a directory, a file.
  if (!forever) CHECK(context.cache.journal.warnings() <= 1);
  if (forever) CHECK(context.cache.journal.warnings() <= 6);
  if (call != FileCall::remove) CHECK(leftovers(scratch.path()) == 0);

  // Once the disk is well again, so is the cache.
  files->heal();
  Context next(scratch, files);
  next.cubins.save(sample_cubin('a'));
  CHECK(next.cubins.load(sample_cubin('a').hash).has_value());
  CHECK(next.cubins.load(sample_cubin('b').hash).has_value());
  CHECK(next.cache.journal.warnings() == 0);
  std::filesystem::remove_all(scratch / "real/root");
  return met;
}

}  // namespace

TEST_CASE("without a fault there is no warning, and every kind of call is made") {
  const Scratch scratch(memory_directory());
  prepare(scratch);
  const auto files = std::make_shared<FaultyFiles>();
  Context context(scratch, files);
  context.use();
  CHECK(context.cache.journal.warnings() == 0);
  for (int call = 0; call < kCacheCalls; ++call) {
    CAPTURE(kFileCallNames[static_cast<std::size_t>(call)]);
    CHECK(files->count(static_cast<FileCall>(call)) > 0);
  }
}

TEST_CASE("each call at each place fails once, in each way") {
  const Scratch scratch(memory_directory());
  prepare(scratch);
  int met = 0;
  for (int call = 0; call < kCacheCalls; ++call) {
    CAPTURE(kFileCallNames[static_cast<std::size_t>(call)]);
    for (int nth = 1;; ++nth) {
      CAPTURE(nth);
      // All the ways at each place would take minutes: each place gets one, and the next place the next.
      const int error = kErrors[static_cast<std::size_t>(nth + call) % kErrors.size()];
      CAPTURE(error);
      if (!run_with_fault(scratch, static_cast<FileCall>(call), nth, error, false)) break;
      ++met;
    }
  }
  CHECK(met > 200);
}

TEST_CASE("each call fails from the start and for good, in each way") {
  const Scratch scratch(memory_directory());
  prepare(scratch);
  for (int call = 0; call < kCacheCalls; ++call) {
    for (const int error : kErrors) {
      CAPTURE(kFileCallNames[static_cast<std::size_t>(call)]);
      CAPTURE(error);
      CHECK(run_with_fault(scratch, static_cast<FileCall>(call), 1, error, true));
    }
  }
}

TEST_CASE("a full disk, a read-only one: one warning, however many files") {
  for (const FileCall call :
       {FileCall::write, FileCall::open, FileCall::make_directory, FileCall::sync, FileCall::rename, FileCall::close}) {
    for (const int error : {ENOSPC, EROFS, ESTALE, EBUSY, EIO, EDQUOT}) {
      const Scratch scratch(memory_directory());
      const auto files = std::make_shared<FaultyFiles>();
      Cache cache(scratch / "root", {}, files);
      CubinStore cubins(cache.root, cache.journal.log);
      files->fail(call, 1, error, true);
      for (const char digit : {'a', 'b', 'c', 'd'}) {
        cubins.save(sample_cubin(digit));
        (void)cubins.load(sample_cubin(digit).hash);
      }
      CAPTURE(kFileCallNames[static_cast<std::size_t>(call)]);
      CAPTURE(error);
      CHECK(cache.journal.warnings() == 1);
      CHECK(leftovers(scratch.path()) == 0);
    }
  }
}

TEST_CASE("reading works with transfers of any length") {
  const Scratch scratch(memory_directory());
  const auto files = std::make_shared<FaultyFiles>();
  files->set_short_transfers(true);
  Cache cache(scratch / "root", {}, files);
  CubinStore cubins(cache.root, cache.journal.log);
  cubins.save(sample_cubin('a', 1000));
  const auto file = cubins.load(sample_cubin('a').hash);
  REQUIRE(file.has_value());
  CHECK(file->cubin.size() == 1000);
}

}  // namespace msj::store
