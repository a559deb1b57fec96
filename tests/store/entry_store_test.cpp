#include "store/entry_store.h"

#include "scratch.h"

namespace msj::store {

namespace {

struct Store : Cache {
  using Cache::Cache;
  EntryStore entries{root, journal.log};
};

EntryFile entry(const std::string &key, const std::string &text) {
  return {"H200 cc9.0", "dense_forward", key, text, {}};
}

std::string valid(std::string_view text) { return text.starts_with("{") ? "" : "is no entry"; }

}  // namespace

TEST_CASE("an entry is kept under its environment, op and key") {
  const Scratch scratch;
  Store store(scratch / "root");
  CHECK_FALSE(store.entries.load("H200 cc9.0", "dense_forward", "k").has_value());
  store.entries.save(entry("k", "{}"));
  const auto found = store.entries.load("H200 cc9.0", "dense_forward", "k");
  REQUIRE(found.has_value());
  CHECK(found->text == "{}");
  CHECK(found->path == scratch / "root/v1/H200 cc9.0/autotune/dense_forward/k.json");
  CHECK_FALSE(store.entries.load("H100", "dense_forward", "k").has_value());
  CHECK_FALSE(store.entries.load("H200 cc9.0", "dense_forward", "j").has_value());
  CHECK_FALSE(store.entries.load("..", "dense_forward", "k").has_value());
  CHECK(store.journal.warnings() == 0);
}

TEST_CASE("an invalid upper entry does not hide a valid lower one; saving replaces it") {
  const Scratch scratch;
  Store(scratch / "ro").entries.save(entry("k", "{low}"));
  Store store(scratch / "rw", {scratch / "ro"});
  store.entries.save(entry("k", "broken"));
  const auto load = [&] { return store.entries.load("H200 cc9.0", "dense_forward", "k", valid); };
  REQUIRE(load().has_value());
  CHECK(load()->text == "{low}");
  CHECK(store.journal.warnings() == 1);
  const auto placed = [](const std::string &, std::string_view text) { return valid(text); };
  CHECK(store.entries.list(placed).at(0).text == "{low}");
  store.entries.save(entry("k", "{high}"));
  CHECK(load()->text == "{high}");
  CHECK(store.journal.warnings() == 1);
}

TEST_CASE("what is passed over hides nothing below it, and nothing is said of it") {
  const Scratch scratch;
  Store(scratch / "ro").entries.save(entry("k", "{low}"));
  Store(scratch / "ro").entries.save(entry("old", "{old, low}"));
  Store store(scratch / "rw", {scratch / "ro"});
  store.entries.save(entry("k", "{old, high}"));
  store.entries.save(entry("old", "{old, high}"));
  const auto check = [](std::string_view text) {
    return text.starts_with("{old") ? Verdict::passed_over() : Verdict(valid(text));
  };
  const auto load = [&](const std::string &key) {
    const auto found = store.entries.load("H200 cc9.0", "dense_forward", key, check);
    return found ? found->text : "none";
  };
  age(scratch / "rw/v1/H200 cc9.0/autotune/dense_forward/k.json", 5000);
  CHECK(load("k") == "{low}");
  CHECK(load("old") == "none");
  CHECK(age_of(scratch / "rw/v1/H200 cc9.0/autotune/dense_forward/k.json") > 4000);  // it was not used
  const auto placed = [&](const std::string &, std::string_view text) { return check(text); };
  const std::vector<EntryFile> list = store.entries.list(placed);
  REQUIRE(list.size() == 2);
  CHECK(list[0].text == "{low}");
  CHECK(list[0].path == scratch / "ro/v1/H200 cc9.0/autotune/dense_forward/k.json");
  CHECK(list[1].text == "{old, high}");
  CHECK(store.journal.warnings() == 0);
}

TEST_CASE("the list: all layers in order of path, an upper layer first, nothing but entries") {
  const Scratch scratch;
  Store(scratch / "ro").entries.save(entry("b", "{low b}"));
  Store(scratch / "ro").entries.save(entry("a", "{low a}"));
  Store store(scratch / "rw", {scratch / "ro"});
  store.entries.save(entry("b", "{high b}"));
  CHECK(store.root.publish("v1/cubins/aa/x.cubin", "no entry"));
  CHECK(store.root.publish("v1/other.json", "no entry"));
  const std::vector<EntryFile> list = store.entries.list();
  REQUIRE(list.size() == 2);
  CHECK(list[0].key == "a");
  CHECK(list[0].text == "{low a}");
  CHECK(list[0].path == scratch / "ro/v1/H200 cc9.0/autotune/dense_forward/a.json");
  CHECK(list[1].environment == "H200 cc9.0");
  CHECK(list[1].op == "dense_forward");
  CHECK(list[1].text == "{high b}");
}

}  // namespace msj::store
