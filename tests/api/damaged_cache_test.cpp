// Every file of a warmed cache, damaged in every way and met by whole calls: `cache verify` has named it, the call is
// as right as with a sound cache, there is one warning, and the file is replaced by a valid one.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "api/documents.h"
#include "store/cubin_format.h"
#include "support/damage.h"
#include "support/session.h"
#include "support/tiny_kernels.h"

using namespace msj;
using namespace msj::testing;
using std::filesystem::path;

namespace {

// What a process did with a cache: verify, then a call without features and one with all.
struct Outcome {
  std::set<std::string> named;      // by verify, before the calls
  std::vector<std::string> images;  // the cubins that were launched
  std::vector<std::string> complaints;
  msj_counters stats;
};

CallShape shape_of(FeatureSet features) { return small_call(*ops::all_ops().front().spec, features); }

// A cache with one entry, the cubins of its sweep, and those of the two calls.
class WarmedCache {
 public:
  WarmedCache() : sound_(run()) {
    for (const auto &file : entry_files(root())) files_.emplace_back(file, read_text(file));
    for (const auto &file : cubin_files(root())) files_.emplace_back(file, read_text(file));
    std::filesystem::create_directory(outside_);
    REQUIRE(entry_files(root()).size() == 1);
    REQUIRE(sound_.stats.sweeps == 1);
    REQUIRE(sound_.complaints.empty());
  }

  [[nodiscard]] std::string root() const { return scratch_ / "cache"; }
  [[nodiscard]] const std::string &outside() const { return outside_; }
  [[nodiscard]] const Outcome &sound() const { return sound_; }
  [[nodiscard]] const std::vector<std::pair<path, std::string>> &files() const { return files_; }  // with their bytes
  // Those that a warm run reads: the entry, and what it launches.
  [[nodiscard]] std::vector<std::pair<path, std::string>> read_files() const {
    std::vector<std::pair<path, std::string>> read;
    for (const auto &[file, bytes] : files_) {
      const bool launched = std::ranges::any_of(
          sound_.images, [&bytes](const std::string &image) { return bytes.find(image) != std::string::npos; });
      if (is_entry(file) || launched) read.emplace_back(file, bytes);
    }
    REQUIRE(read.size() == 3);
    return read;
  }
  [[nodiscard]] static bool is_entry(const path &file) { return file.extension() == ".json"; }

  // A process with the cache's root, or with other layers.
  [[nodiscard]] Outcome run(const std::string &layers = {}) {
    gpu_->reset();
    Session session(layers.empty() ? root() : layers);
    Outcome outcome{};
    const auto verified = api::verified_files(session.pipeline());
    for (const auto &problem : verified["problems"]) {
      outcome.named.insert(problem["path"].get<std::string>());
    }
    for (const FeatureSet features : {FeatureSet{0}, shape_of(0).op->all_features()}) {
      session.must_run(shape_of(features));
      const fake::Launch launch = gpu_.last_launch();
      outcome.images.emplace_back(static_cast<const char *>(launch.image), launch.image_bytes);
    }
    outcome.complaints = session.complaints();
    outcome.stats = session.stats();
    return outcome;
  }

  // After a run that met damage: every file is as it was (but for a cubin's date), and the next run notices nothing.
  void check_healed() {
    for (const auto &[file, bytes] : files_) {
      CAPTURE(file.string());
      REQUIRE(std::filesystem::is_regular_file(std::filesystem::symlink_status(file)));
      if (is_entry(file)) {
        CHECK(read_text(file) == bytes);
      } else {
        std::string why;
        const auto now = store::decode_cubin(read_text(file), why);
        REQUIRE_MESSAGE(now, why);
        CHECK(now->cubin == store::decode_cubin(bytes, why)->cubin);
      }
    }
    const Outcome next = run();
    CHECK(next.named.empty());
    CHECK(next.complaints.empty());
    CHECK(next.images == sound_.images);
    CHECK(next.stats.nvrtc_invocations == 0);
    CHECK(next.stats.sweeps == 0);
  }

 private:
  TinyKernels kernels_;
  FakeGpu gpu_;
  ScratchDirectory scratch_;
  std::string outside_ = scratch_ / "outside";
  Outcome sound_;
  std::vector<std::pair<path, std::string>> files_;
};

// Cut at every 64 bytes; one bit flipped in every byte of the first `header` bytes and in every `step`-th after it.
std::vector<std::string> broken(const std::string &good, std::size_t header, std::size_t step) {
  std::vector<std::string> all;
  for (std::size_t size = 0; size < good.size(); size += 64) all.push_back(good.substr(0, size));
  for (std::size_t at = 0; at < good.size(); at += at < header ? 1 : step) {
    all.push_back(good);
    all.back()[at] = static_cast<char>(good[at] ^ (1 << at % 8));
  }
  return all;
}

// An entry's date is for people alone, and one kind of white space says as much as another.
bool says_the_same(const std::string &good, const std::string &bad) {
  if (good.size() != bad.size()) return false;
  const std::size_t date = good.find("2026-01-02T");
  for (std::size_t i = 0; i < good.size(); ++i) {
    const bool spaces =
        std::isspace(static_cast<unsigned char>(good[i])) != 0 && std::isspace(static_cast<unsigned char>(bad[i])) != 0;
    if (good[i] != bad[i] && !spaces && !(i >= date && i < date + 20)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("truncated at every 64 bytes, bits flipped throughout: never launched, and a sound layer below serves") {
  WarmedCache cache;
  const std::string upper = cache.root() + "-upper";
  std::filesystem::copy(cache.root(), upper, std::filesystem::copy_options::recursive);
  int met = 0;
  for (const auto &[sound_file, good] : cache.read_files()) {
    const path file = upper + sound_file.string().substr(cache.root().size());
    const bool is_entry = WarmedCache::is_entry(file);
    CAPTURE(file.string());
    for (const std::string &bad : broken(good, is_entry ? 0 : store::kCubinHeaderBytes, is_entry ? 29 : 127)) {
      if (is_entry && says_the_same(good, bad)) continue;
      put_file(file, bad);
      CAPTURE(bad.size());
      const Outcome outcome = cache.run(upper + ":" + cache.root());
      REQUIRE(outcome.named == std::set<std::string>{file.string()});
      REQUIRE(outcome.images == cache.sound().images);
      REQUIRE(outcome.complaints.size() == 1);
      REQUIRE(outcome.complaints[0].find(file.string()) != std::string::npos);
      REQUIRE(outcome.stats.nvrtc_invocations == 0);
      REQUIRE(outcome.stats.sweeps == 0);
      ++met;
    }
    put_file(file, good);
  }
  CHECK(met > 400);
}

TEST_CASE("one file, damaged in each way: named, warned of once, replaced, and nothing else done again") {
  WarmedCache cache;
  for (const auto &[file, good] : cache.read_files()) {
    for (const Damage damage : all_damages()) {
      CAPTURE(file.string());
      CAPTURE(name(damage));
      damage_file(file, damage, cache.outside());
      const Outcome outcome = cache.run();
      const bool is_gone = damage == Damage::deleted;
      CHECK(outcome.named == (is_gone ? std::set<std::string>() : std::set<std::string>{file.string()}));
      CHECK(outcome.images == cache.sound().images);
      CHECK(outcome.complaints.size() == (is_gone ? 0 : 1));
      CHECK(outcome.stats.nvrtc_invocations == (WarmedCache::is_entry(file) ? 0 : 1));
      CHECK(outcome.stats.sweeps == (WarmedCache::is_entry(file) ? 1 : 0));
      cache.check_healed();
    }
  }
}

TEST_CASE("every file at once, each damaged in another way") {
  WarmedCache cache;
  const std::vector<Damage> damages = all_damages();
  for (std::size_t round = 0; round < damages.size(); round += 3) {  // each meets some of each kind
    std::set<std::string> there;
    for (std::size_t i = 0; i < cache.files().size(); ++i) {
      const path &file = cache.files()[i].first;
      const Damage damage = damages[(i + round) % damages.size()];
      damage_file(file, damage, cache.outside());
      if (damage != Damage::deleted) there.insert(file.string());
    }
    CAPTURE(round);
    const Outcome outcome = cache.run();
    CHECK(outcome.named == there);
    CHECK(outcome.images == cache.sound().images);
    CHECK(outcome.complaints.size() == there.size());
    CHECK(outcome.stats.nvrtc_invocations == static_cast<std::int64_t>(cache.files().size()) - 1);
    CHECK(outcome.stats.sweeps == 1);
    cache.check_healed();
  }
}

TEST_CASE("a directory that holds something is nobody's to remove: in memory, with one warning") {
  WarmedCache cache;
  for (const auto &[file, good] : cache.read_files()) {
    CAPTURE(file.string());
    damage_file(file, Damage::directory, cache.outside());
    write_text(file / "precious", "data");
    const Outcome outcome = cache.run();
    CHECK(outcome.named.contains(file.string()));
    CHECK(outcome.images == cache.sound().images);
    CHECK(outcome.complaints.size() == 1);
    CHECK(read_text(file / "precious") == "data");
    put_file(file, good);
  }
}

TEST_CASE("a cubin of another specialization under a right name and checksum: one warning, and it is built again") {
  WarmedCache cache;
  const auto [file, good] = cache.read_files().back();
  std::string why;
  auto other = store::decode_cubin(good, why);
  REQUIRE_MESSAGE(other, why);
  other->key += " ";
  const std::string upper = cache.root() + "-upper";
  std::filesystem::copy(cache.root(), upper, std::filesystem::copy_options::recursive);
  put_file(file, store::encode_cubin(*other));
  // A sound one in the layer below serves,
  std::filesystem::rename(cache.root(), cache.root() + "-swapped");
  const Outcome layered = cache.run(cache.root() + "-swapped:" + upper);
  CHECK(layered.complaints.size() == 1);
  CHECK(layered.stats.nvrtc_invocations == 0);
  std::filesystem::rename(cache.root() + "-swapped", cache.root());
  // and without one it is replaced.
  const Outcome alone = cache.run();
  CHECK(alone.images == cache.sound().images);
  CHECK(alone.complaints.size() == 1);
  CHECK(alone.stats.nvrtc_invocations == 1);
  cache.check_healed();
}

// Files as nobody but an attacker or a broken tool makes them: the checksum is right.
TEST_CASE("a cubin whose texts are none, are nested too deep, or are another's: named by verify, left out of inspect") {
  WarmedCache cache;
  const auto [file, good] = cache.read_files().back();
  const auto [other_file, other_good] = cache.read_files()[1];
  std::string why;
  const auto sound = store::decode_cubin(good, why);
  const auto other = store::decode_cubin(other_good, why);
  REQUIRE(sound);
  REQUIRE(other);
  const std::string deep = std::string(10'000, '[') + std::string(10'000, ']');
  const std::string base = sound->key.substr(0, sound->key.size() - 1);
  std::string other_size = sound->key;
  other_size.replace(other_size.find("\"d\":128"), 7, "\"d\":144");
  const std::string unknown = R"({"op":"sideways","architecture":"sm_90a"})";
  std::string other_feature = sound->key;
  const std::size_t features = other_feature.find("\"features\":[") + 12;
  other_feature.insert(features, "\"" + std::string(10'000, 'x') + (other_feature[features] == ']' ? "\"" : "\","));
  std::vector<std::pair<std::string, std::string>> wrong;
  for (const std::string &architecture : {std::string("sm_1"), std::string(10'000, 'x'), std::string("x\\u0000y")}) {
    std::string key = sound->key;
    key.replace(key.find("\"sm_90a\""), 8, "\"" + architecture + "\"");
    wrong.emplace_back(key, sound->provenance);
  }
  for (const std::string &key :
       {std::string(), std::string("null"), std::string("[]"), std::string("\xff\xfe"),
        std::string("{\"op\":\"\xff\",\"architecture\":\"sm_90a\"}"),
        std::string("{\"op\":5,\"architecture\":\"sm_90a\"}"), base + ",\"x\":" + deep + "}", sound->key + " ",
        base + ",\"x\":1}", other_size, other_feature, other->key, unknown}) {
    wrong.emplace_back(key, sound->provenance);
  }
  for (const std::string &provenance : {std::string(), std::string("[]"), "{\"x\":" + deep + "}"}) {
    wrong.emplace_back(sound->key, provenance);
  }
  for (const auto &[key, provenance] : wrong) {
    CAPTURE(key.substr(0, 200));
    put_file(file, store::encode_cubin({sound->hash, key, provenance, sound->cubin}));
    Session session(cache.root());
    const auto verified = api::verified_files(session.pipeline());
    REQUIRE(verified["problems"].size() == 1);
    CHECK(verified["problems"][0]["path"] == file.string());
    CHECK(verified["problems"][0]["problem"].get<std::string>().size() < 500);
    const auto shown = nlohmann::json::parse(api::inspect_cubins(session.pipeline(), {}, {}));
    CHECK(shown["cubins"].size() == cubin_files(cache.root()).size() - 1);
    CHECK(session.complaints().size() == 1);
  }
  // Of another version of the library nothing can be said.
  put_file(file, store::encode_cubin({sound->hash, unknown, R"({"library":"0.0.1"})", sound->cubin}));
  Session session(cache.root());
  CHECK(api::verified_files(session.pipeline())["problems"].empty());
}

TEST_CASE("a sound entry that a lookup would not take is named by verify, too, and replaced") {
  WarmedCache cache;
  const auto [file, good] = cache.read_files().front();
  Session session(cache.root());
  const tune::AutotuneKey key = session.key(shape_of(0));
  const std::string environment = session.pipeline().device(0).environment();
  std::string why;
  const auto entry = tune::parse_entry(good, key, environment, why);
  REQUIRE_MESSAGE(entry, why);

  tune::Entry no_candidate = *entry;
  for (tune::CandidateRecord &record : no_candidate.candidates) {
    if (record.config == no_candidate.configs.config)
      record.config.tunables[record.config.tunables.begin()->first] += 16;
  }
  no_candidate.configs.config.tunables[no_candidate.configs.config.tunables.begin()->first] += 16;
  no_candidate.configs.config_any = no_candidate.configs.config;
  for (const Layout layout : kLayouts) {
    no_candidate.candidates.push_back({no_candidate.configs.config, layout, {1, 0, 20, {}}, {}});
  }
  CallShape larger = shape_of(0);
  larger.sizes[0] = 100;
  tune::Entry elsewhere = *entry;
  elsewhere.environment += "x";

  for (const std::string &text :
       {to_json(no_candidate, key), to_json(*entry, session.key(larger)), to_json(elsewhere, key)}) {
    CHECK(tune::entry_problem(text) == "");
    put_file(file, text);
    {
      Session looking(cache.root());
      const auto shown = nlohmann::json::parse(api::inspect_entries(looking.pipeline(), {}, {}));
      CHECK(std::ranges::none_of(shown["entries"], [](const auto &row) { return row["source"] == "tuned"; }));
      CHECK(looking.complaints().size() == 1);
    }
    const Outcome outcome = cache.run();
    CHECK(outcome.named == std::set<std::string>{file.string()});
    CHECK(outcome.images == cache.sound().images);
    CHECK(outcome.complaints.size() == 1);
    CHECK(outcome.stats.nvrtc_invocations == 0);
    CHECK(outcome.stats.sweeps == 1);
    cache.check_healed();
  }
}
