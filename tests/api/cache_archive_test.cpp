// A real cache, with entries and cubins, carried to another place and tidied, through the C ABI.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/hash.h"
#include "store/cubin_format.h"
#include "store/tar.h"
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

// Both winners become what no library of today knows.
void make_unknown(Json &json) {
  for (const char *which : {"config", "config_any"}) {
    const Json known = json[which];
    Json unknown = known;
    unknown["tunables"]["from_the_future"] = 1;
    for (const char *other : {"config", "config_any"}) {
      if (json[other] == known) json[other] = unknown;
    }
    for (Json &candidate : json["candidates"]) {
      if (candidate["config"] == known) candidate["config"] = unknown;
    }
  }
}

void make_stale(Json &json, std::int64_t by) {
  json["key"]["tuning_epoch"] = json["key"]["tuning_epoch"].get<std::int64_t>() + by;
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
  const std::string before = read_text(warmed.out / "a.tar");
  msj_export_options of_ampere{};
  of_ampere.struct_size = sizeof of_ampere;
  of_ampere.arch = "sm_80";
  char *json = nullptr;
  check_sentence(msj_cache_export(session.get(), &of_ampere, (warmed.out / "a.tar").c_str(), &json), MSJ_ERROR_IO,
                 {warmed.out / "a.tar", "is not written: no entry or cubin for sm_80 is cached"});
  CHECK(json == nullptr);
  CHECK(read_text(warmed.out / "a.tar") == before);
}

TEST_CASE("what can't be read is no empty cache: the archive that is there stays") {
  const Warmed warmed;
  const std::string file = warmed.out.path() + "/cache.tar";
  Session session(warmed.cache.path());
  CHECK(exported(session, file)["entries"] == 1);
  const std::string before = read_text(file);
  const auto refused = [&](const std::string &layers) {
    Session other(layers);
    char *text = nullptr;
    CHECK(msj_cache_export(other.get(), nullptr, file.c_str(), &text) == MSJ_ERROR_IO);
    CHECK(read_text(file) == before);
    return std::string(msj_last_error());
  };
  CHECK(refused(warmed.cache.path() + ":/nowhere/at-all").find("does not exist") != std::string::npos);
  std::filesystem::permissions(warmed.cache.path() + "/v1", std::filesystem::perms::all);
  CHECK(refused(warmed.cache.path()).find("is not written: ") != std::string::npos);
}

TEST_CASE("an export of one op passes over key texts of any JSON") {
  const Warmed warmed;
  store::CubinFile odd{std::string(32, '7'), R"({"file":"x","architecture":"sm_90a","op":5})", "{}", "bytes"};
  const std::filesystem::path at = warmed.cache.path() + "/v1/cubins/77/" + odd.hash + ".cubin";
  std::filesystem::create_directories(at.parent_path());
  std::filesystem::permissions(at.parent_path(), std::filesystem::perms::owner_all);
  write_text(at, store::encode_cubin(odd));
  std::filesystem::permissions(at, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  Session session(warmed.cache.path());
  const Json one = exported(session, warmed.out.path() + "/one.tar", "dense_forward");
  CHECK(one["entries"] == 1);
  CHECK(exported(session, warmed.out.path() + "/all.tar")["cubins"] == one["cubins"].get<int>() + 1);
}

TEST_CASE("an entry whose environment or op is no plain name is refused, and the others are taken") {
  const Warmed warmed;
  const std::string good = read_text(warmed.entry());
  const std::string place = std::filesystem::relative(warmed.entry(), warmed.cache.path()).string();
  for (const std::string &environment :
       {std::string("a/b"), std::string(300, 'e'), std::string("."), std::string("a\nb"), std::string()}) {
    CAPTURE(environment);
    rewrite(warmed.entry(), [&](Json &json) { json["environment"] = environment; });
    const std::string name = warmed.entry().filename().string();
    std::string tar;
    store::TarWriter writer([&](std::string_view bytes) { tar += bytes; });
    writer.add(fmt::format("v1/{}/autotune/dense_forward/{}", environment, name), read_text(warmed.entry()));
    writer.add(place, good);
    writer.finish();
    write_text(warmed.out.path() + "/odd.tar", tar);
    const ScratchDirectory elsewhere;
    Session other(elsewhere.path());
    const Json json = imported(other, warmed.out.path() + "/odd.tar");
    CHECK(json["entries"] == 1);
    CHECK(json["problems"].size() == 1);
    write_text(warmed.entry(), good);
  }
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

TEST_CASE("below the locks there is neither an entry nor a cubin, wherever its bytes would be right") {
  Warmed warmed;
  rewrite(warmed.entry(), [](Json &json) { json["environment"] = "locks"; });
  const std::filesystem::path at_home = warmed.entry();
  const std::string entry = read_text(at_home);
  std::filesystem::remove(at_home);
  const std::filesystem::path sound = cubin_files(warmed.cache.path()).front();
  const std::string cubin = read_text(sound);
  const std::string as_environment = "v1/locks/autotune/dense_forward/" + at_home.filename().string();
  const std::vector<std::pair<std::string, std::string>> files = {
      {"v1/locks/a/" + sound.filename().string(), cubin},
      {"v1/locks/a/b.cubin", "no cubin"},
      {"v1/locks/a/b.json", "no entry"},
      {as_environment, entry},
  };
  std::string tar;
  store::TarWriter writer([&](std::string_view bytes) { tar += bytes; });
  for (const auto &[name, bytes] : files) writer.add(name, bytes);
  writer.finish();
  write_text(warmed.out / "a.tar", tar);

  Session to(warmed.out / "cache");
  const Json refused = imported(to, warmed.out / "a.tar");
  CHECK(refused["cubins"] == 0);
  CHECK(refused["entries"] == 0);
  REQUIRE(refused["problems"].size() == files.size());
  for (const Json &problem : refused["problems"]) {
    CHECK(problem["problem"] == "no file of this cache has such a name");
  }

  Session session(warmed.cache.path());
  std::set<std::string> expected;
  for (const auto &[name, bytes] : files) {
    const std::filesystem::path path = warmed.cache / name;
    std::filesystem::create_directories(path.parent_path());
    write_text(path, bytes);
    expected.insert(path.string());
  }
  const auto among = [&](const Json &named) {
    std::set<std::string> found;
    for (const Json &file : named) {
      if (expected.contains(file["path"].get<std::string>())) found.insert(file["path"].get<std::string>());
    }
    return found;
  };
  CHECK(among(acted(session, MSJ_CACHE_VERIFY)["problems"]) == expected);
  const Json sent = exported(session, warmed.out / "b.tar");
  CHECK(sent["entries"] == 0);
  CHECK(sent["cubins"] == cubin_files(warmed.cache / "v1/cubins").size());
  CHECK(among(acted(session, MSJ_CACHE_PRUNE)["removed"]) == expected);
  CHECK(std::filesystem::exists(sound));
  CHECK(acted(session, MSJ_CACHE_VERIFY)["problems"].empty());
}

TEST_CASE("an entry of a library with other candidates stays, as its own cache's; one of this library goes") {
  Warmed warmed;
  rewrite(warmed.entry(), make_unknown);
  {
    Session session(warmed.cache.path());
    const Json listed = acted(session, MSJ_CACHE_VERIFY)["problems"];
    REQUIRE(listed.size() == 1);
    CHECK(listed[0]["problem"].get<std::string>().ends_with("that is no candidate any more"));
  }
  rewrite(warmed.entry(), [](Json &json) { json["provenance"]["library"] = "99.0.0"; });
  const std::string others = read_text(warmed.entry());
  Session session(warmed.cache.path());
  CHECK(acted(session, MSJ_CACHE_VERIFY)["problems"].empty());
  CHECK(removed(acted(session, MSJ_CACHE_PRUNE)).empty());
  CHECK(read_text(warmed.entry()) == others);
  session.must_run(small_call(dense()));  // for this library it is as good as none
  CHECK(session.stats().sweeps == 1);
  CHECK(session.complaints().empty());
  rewrite(warmed.entry(), make_unknown);
  CHECK(removed(acted(session, MSJ_CACHE_PRUNE)).size() == 1);
}

TEST_CASE("an upper entry of another version hides no lower one: not from a lookup, an export or inspect") {
  Warmed below;
  const std::string current = read_text(below.entry());
  const std::string relative = std::filesystem::relative(below.entry(), below.cache.path()).string();
  const auto current_text = [&](const std::string &tar) { return read_text(tar).find(current) != std::string::npos; };
  const std::vector<std::function<void(Json &)>> changes = {
      [](Json &json) { make_stale(json, -1); },
      [](Json &json) { make_stale(json, 1); },
      [](Json &json) { json["key"]["bucket"]["version"] = 99; },
  };
  for (const auto &change : changes) {
    const ScratchDirectory above;
    const std::filesystem::path upper = above / relative;
    std::filesystem::create_directories(upper.parent_path());
    write_text(upper, current);
    rewrite(upper, change);
    const std::string stale = read_text(upper);
    {
      Session session(above.path() + ":" + below.cache.path());
      session.must_run(small_call(dense()));
      CHECK(session.stats().sweeps == 0);
      CHECK(session.stats().autotune_hits == 1);
      CHECK(exported(session, below.out / "a.tar")["entries"] == 1);
      CHECK(current_text(below.out / "a.tar"));
      char *text = nullptr;
      REQUIRE(msj_inspect(session.get(), nullptr, &text) == MSJ_OK);
      const Json entries = Json::parse(text)["entries"];
      msj_string_free(text);
      std::size_t tuned = 0;
      for (const Json &row : entries) {
        if (row["source"] != "tuned") continue;
        ++tuned;
        CHECK(row["bucket"] == Json::parse(current)["key"]["bucket"]);
      }
      CHECK(tuned == 1);
      CHECK(session.complaints().empty());
      CHECK(read_text(upper) == stale);
    }
    // Where no layer has a current one, another library's is still worth carrying.
    Session alone(above.path());
    CHECK(exported(alone, below.out / "b.tar")["entries"] == 1);
    CHECK(read_text(below.out / "b.tar").find(stale) != std::string::npos);
  }
}

TEST_CASE("without a place to read from or write to, a sentence says so") {
  FakeGpu gpu;
  const ScratchDirectory scratch;
  char *json = nullptr;
  Session none(":" + (scratch / "below"));
  check_sentence(msj_cache_export(none.get(), nullptr, (scratch / "a.tar").c_str(), &json), MSJ_ERROR_IO,
                 {"is not written", "below does not exist"});
  std::filesystem::create_directory(scratch / "below");
  std::filesystem::permissions(scratch / "below", std::filesystem::perms::owner_all);
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
