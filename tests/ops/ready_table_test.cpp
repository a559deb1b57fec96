// The table of what can be launched at once: equal keys find the first that was inserted, whoever inserts meanwhile.
#include <doctest/doctest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "ops/ready_table.h"
#include "ops/registry.h"

using namespace msj;
using msj::ops::LaunchKey;
using msj::ops::Ready;
using msj::ops::ReadyTable;

namespace {

LaunchKey key(std::int64_t edge, FeatureSet features = 0) {
  LaunchKey key;
  key.op = ops::all_ops().front().spec;
  key.features = features;
  key.edges[0] = edge;
  return key;
}

std::shared_ptr<const Ready> ready(const LaunchKey &key) {
  auto made = std::make_shared<Ready>();
  made->key = key;
  return made;
}

}  // namespace

TEST_CASE("what was inserted is found, the first of equal keys stays") {
  ReadyTable table;
  CHECK(table.find(key(1)) == nullptr);
  const Ready *first = table.insert(ready(key(1)));
  CHECK(table.find(key(1)) == first);
  CHECK(table.insert(ready(key(1))) == first);
  CHECK(table.find(key(2)) == nullptr);
  CHECK(table.find(key(1, 1)) == nullptr);
}

TEST_CASE("every part of a key makes another one, in its text and its equality") {
  const LaunchKey base = key(64);
  std::vector<LaunchKey> keys = {base};
  const auto with = [&](auto change) {
    keys.push_back(base);
    change(keys.back());
  };
  with([](LaunchKey &k) { k.context_id = 7; });
  with([](LaunchKey &k) { k.device = 1; });
  with([](LaunchKey &k) { k.features = 2; });
  with([](LaunchKey &k) { k.layout = Layout::any; });
  for (std::size_t i = 0; i < base.op->operands.size(); ++i) with([&](LaunchKey &k) { k.dtypes[i] = DType::f16; });
  for (std::size_t i = 0; i < base.op->sizes.size(); ++i) with([&](LaunchKey &k) { k.edges[i] = 4096; });
  std::set<std::string> texts;
  ReadyTable table;
  for (const LaunchKey &each : keys) {
    texts.insert(each.text());
    CHECK(table.find(each) == nullptr);
    table.insert(ready(each));
  }
  CHECK(texts.size() == keys.size());
  for (const LaunchKey &each : keys) {
    REQUIRE(table.find(each) != nullptr);
    CHECK(table.find(each)->key == each);
  }
}

TEST_CASE("more keys than slots, from many threads, while others read") {
  constexpr std::int64_t kKeys = 10'000;
  ReadyTable table;
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (int reader = 0; reader < 2; ++reader) {
      threads.emplace_back([&] {
        while (!done) {
          for (std::int64_t i = 0; i < kKeys; i += 97) {
            const Ready *found = table.find(key(i));
            if (found != nullptr && found->key.edges[0] != i) ++wrong;
          }
        }
      });
    }
    std::vector<std::jthread> writers;
    for (int writer = 0; writer < 4; ++writer) {
      writers.emplace_back([&] {
        for (std::int64_t i = 0; i < kKeys; ++i) {
          const Ready *inserted = table.insert(ready(key(i)));
          if (inserted != table.find(key(i))) ++wrong;
        }
      });
    }
    writers.clear();
    done = true;
  }
  CHECK(wrong == 0);
  for (std::int64_t i = 0; i < kKeys; ++i) {
    REQUIRE(table.find(key(i)) != nullptr);
    CHECK(table.find(key(i))->key.edges[0] == i);
  }
}
