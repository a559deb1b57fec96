// A real cache, with entries and cubins, carried to another place and tidied, through the C ABI.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/hash.h"
#include "store/cubin_format.h"
#include "support/sentences.h"
#include "support/session.h"
#include "support/tiny_kernels.h"

using namespace msj;
using namespace msj::testing;
using Json = nlohmann::ordered_json;

namespace {

Json taken(msj_status status, char *text) {
  INFO(msj_last_error());
  REQUIRE(status == MSJ_OK);
  Json json = Json::parse(text);
  msj_string_free(text);
  CHECK(json["schema"] == "maxsim-jit/cache/1");
  return json;
}

Json exported(Session &session, const std::string &file, const char *op = nullptr, const char *arch = nullptr) {
  msj_export_options options{};
  options.struct_size = sizeof options;
  options.op = op;
  options.arch = arch;
  char *text = nullptr;
  const msj_status status = msj_cache_export(session.get(), &options, file.c_str(), &text);
  return taken(status, text);
}

Json imported(Session &session, const std::string &file) {
  char *text = nullptr;
  const msj_status status = msj_cache_import(session.get(), file.c_str(), &text);
  return taken(status, text);
}

Json acted(Session &session, std::int32_t action) {
  char *text = nullptr;
  const msj_status status = msj_cache(session.get(), action, &text);
  return taken(status, text);
}

const OpSpec &dense() { return *ops::find_op("dense_forward")->spec; }
const OpSpec &fp8() { return *ops::find_op("fp8_forward")->spec; }

// The entry as another library would have written it: with a checksum that is right.
void rewrite(const std::filesystem::path &file, const std::function<void(Json &)> &change) {
  Json json = Json::parse(read_text(file));
  change(json);
  Json summed = json;
  summed.erase("checksum");
  summed["provenance"].erase("date");
  json["checksum"] = hash_name(summed.dump());
  write_text(file, json.dump(2) + "\n");
}

// What an action removed: the ends of paths with reasons, but for locks.
std::vector<std::string> removed(const Json &document) {
  std::vector<std::string> found;
  for (const Json &file : document["removed"]) {
    const std::filesystem::path path = file["path"].get<std::string>();
    if (path.parent_path().filename() == "locks") continue;
    found.push_back(path.filename().string() + ": " + file["reason"].get<std::string>());
  }
  return found;
}

// A cache with the entry and the cubins of one tuned call.
struct Warmed {
  explicit Warmed(const OpSpec &op = dense()) {
    Session session(cache.path());
    session.must_run(small_call(op));
    REQUIRE(entry_files(cache.path()).size() == 1);
  }
  [[nodiscard]] std::filesystem::path entry() const { return entry_files(cache.path()).front(); }
  TinyKernels kernels;
  FakeGpu gpu;
  ScratchDirectory cache;
  ScratchDirectory out;
};

}  // namespace

TEST_CASE("what was exported and imported elsewhere is neither compiled nor tuned again") {
  Warmed warmed;
  Session from(warmed.cache.path());
  const Json sent = exported(from, warmed.out / "a.tar");
  CHECK(sent["entries"] == 1);
  CHECK(sent["cubins"] == cubin_files(warmed.cache.path()).size());
  CHECK(sent["file"] == warmed.out / "a.tar");
  (void)exported(from, warmed.out / "b.tar");
  CHECK(read_text(warmed.out / "a.tar") == read_text(warmed.out / "b.tar"));

  Session to(warmed.out / "cache");
  const Json got = imported(to, warmed.out / "a.tar");
  CHECK(got["entries"] == sent["entries"]);
  CHECK(got["cubins"] == sent["cubins"]);
  CHECK(got["bytes"] == sent["bytes"]);
  CHECK(got["problems"].empty());
  to.must_run(small_call(dense()));
  CHECK(to.stats().nvrtc_invocations == 0);
  CHECK(to.stats().sweeps == 0);
  CHECK(to.stats().autotune_hits == 1);
  CHECK(to.complaints().empty());
  CHECK(acted(to, MSJ_CACHE_VERIFY)["problems"].empty());
}

TEST_CASE("an export of one op or architecture") {
  Warmed warmed;
  Session session(warmed.cache.path());
  session.must_run(small_call(fp8()));
  const std::size_t cubins = cubin_files(warmed.cache.path()).size();
  const Json of_dense = exported(session, warmed.out / "a.tar", "dense_forward");
  const Json of_fp8 = exported(session, warmed.out / "a.tar", "fp8_forward");
  CHECK(of_dense["entries"] == 1);
  CHECK(of_fp8["entries"] == 1);
  CHECK(of_dense["cubins"].get<std::size_t>() + of_fp8["cubins"].get<std::size_t>() == cubins);
  CHECK(of_dense["cubins"] > 0);
  const Json of_hopper = exported(session, warmed.out / "a.tar", nullptr, "sm_90");
  CHECK(of_hopper["entries"] == 2);
  CHECK(of_hopper["cubins"] == cubins);
  const Json of_ampere = exported(session, warmed.out / "a.tar", nullptr, "sm_80");
  CHECK(of_ampere["entries"] == 0);
  CHECK(of_ampere["cubins"] == 0);
}

TEST_CASE("the user's own measurement stays, and what is changed on the way is refused") {
  Warmed warmed;
  const std::string own = read_text(warmed.entry());
  Session session(warmed.cache.path());
  (void)exported(session, warmed.out / "mine.tar");
  rewrite(warmed.entry(), [](Json &json) { json["provenance"]["library"] = "another"; });
  const std::string other = read_text(warmed.entry());
  (void)exported(session, warmed.out / "other.tar");
  write_text(warmed.entry(), own);
  const Json got = imported(session, warmed.out / "other.tar");
  CHECK(got["kept"] == 1);
  CHECK(got["entries"] == 0);
  CHECK(got["identical"] == cubin_files(warmed.cache.path()).size());
  CHECK(read_text(warmed.entry()) == own);
  // Of an older epoch, it is of no use: now it is replaced.
  rewrite(warmed.entry(), [](Json &json) { json["key"]["tuning_epoch"] = 1; });
  CHECK(imported(session, warmed.out / "other.tar")["entries"] == 1);
  CHECK(read_text(warmed.entry()) == other);

  std::string tar = read_text(warmed.out / "mine.tar");
  const std::size_t code = tar.find(std::string(store::kCubinMagic));
  REQUIRE(code != std::string::npos);
  tar[code + 300] = static_cast<char>(tar[code + 300] ^ 1);
  write_text(warmed.out / "changed.tar", tar);
  Session to(warmed.out / "cache");
  const Json refused = imported(to, warmed.out / "changed.tar");
  REQUIRE(refused["problems"].size() == 1);
  CHECK(refused["problems"][0]["problem"] == "has another checksum than its header says");
  CHECK(refused["problems"][0]["path"].get<std::string>().starts_with("v1/cubins/"));
  CHECK(refused["cubins"].get<std::size_t>() + 1 == cubin_files(warmed.cache.path()).size());
}

TEST_CASE("prune takes damaged files and entries of an older version, and nothing that another library may want") {
  Warmed warmed;
  Session session(warmed.cache.path());
  CHECK(removed(acted(session, MSJ_CACHE_PRUNE)).empty());

  const std::filesystem::path entry = warmed.entry();
  const std::string own = read_text(entry);
  rewrite(entry, [](Json &json) { json["key"]["tuning_epoch"] = 1; });
  CHECK(acted(session, MSJ_CACHE_VERIFY)["problems"].empty());
  CHECK(removed(acted(session, MSJ_CACHE_PRUNE)) ==
        std::vector<std::string>{entry.filename().string() + ": is of tuning epoch 1; this library's is " +
                                 std::to_string(dense().tuning_epoch)});
  const auto kept_after = [&](const std::function<void(Json &)> &change) {
    std::filesystem::create_directories(entry.parent_path());
    write_text(entry, own);
    rewrite(entry, change);
    CHECK(acted(session, MSJ_CACHE_VERIFY)["problems"].empty());
    CHECK(removed(acted(session, MSJ_CACHE_PRUNE)).empty());
  };
  kept_after([](Json &json) { json["key"]["tuning_epoch"] = 99; });
  kept_after([](Json &json) { json["key"]["bucket"]["version"] = 99; });
  kept_after([](Json &json) { json["provenance"]["library"] = "99.0.0"; });

  // Cubins of other sources, of this version or another.
  const std::filesystem::path cubin = cubin_files(warmed.cache.path()).front();
  std::string why;
  auto file = store::decode_cubin(read_text(cubin), why);
  REQUIRE(file);
  for (const char *library : {msj_version(), "99.0.0"}) {
    Json provenance = Json::parse(file->provenance);
    provenance["library"] = library;
    provenance["source_hash"] = "another";
    file->provenance = provenance.dump();
    file->hash = std::string(32, 'a');
    const std::filesystem::path place = warmed.cache / ("v1/cubins/aa/" + file->hash + ".cubin");
    std::filesystem::create_directories(place.parent_path());
    write_text(place, store::encode_cubin(*file));
    CHECK(removed(acted(session, MSJ_CACHE_PRUNE)).empty());
  }

  write_text(cubin, "no cubin");
  const Json pruned = acted(session, MSJ_CACHE_PRUNE);
  REQUIRE(removed(pruned).size() == 1);
  CHECK(removed(pruned)[0].starts_with(cubin.filename().string() + ": "));
  CHECK(pruned["bytes"]["before"].get<std::int64_t>() - pruned["bytes"]["after"].get<std::int64_t>() == 8);
  CHECK(pruned["problems"].empty());
  CHECK(acted(session, MSJ_CACHE_VERIFY)["problems"].empty());
}

TEST_CASE("without a place to read from or write to, a sentence says so") {
  FakeGpu gpu;
  const ScratchDirectory scratch;
  char *json = nullptr;
  Session none(":" + (scratch / "below"));
  CHECK(exported(none, scratch / "a.tar")["cubins"] == 0);
  check_sentence(msj_cache_import(none.get(), (scratch / "a.tar").c_str(), &json), MSJ_ERROR_IO,
                 {"nothing can be imported", "no writable directory"});
  write_text(scratch / "plain", "");
  Session blocked(scratch / "plain/cache");
  check_sentence(msj_cache_import(blocked.get(), (scratch / "a.tar").c_str(), &json), MSJ_ERROR_IO,
                 {"nothing can be imported", scratch / "plain"});
  check_sentence(msj_cache_export(none.get(), nullptr, (scratch / "none/a.tar").c_str(), &json), MSJ_ERROR_IO,
                 {scratch / "none/a.tar", "there is no directory"});
  CHECK(json == nullptr);
}
