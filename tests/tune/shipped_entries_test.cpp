// The entries of configs/tuned: of today's tables, buckets and spaces, or a known GPU would sweep anew without a word.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "ops/registry.h"
#include "tune/bucket.h"
#include "tune/config_json.h"
#include "tune/entry.h"
#include "tune/entry_place.h"
#include "tune/tuner.h"

using namespace msj;

TEST_CASE("each shipped entry is one that a lookup takes") {
  const auto rules = tune::BucketRules::parse(tune::BucketRules::embedded());
  const auto entries = tune::shipped_entries();
  CHECK(entries.size() >= 40);
  for (const auto &entry : entries) {
    const auto &name = entry.first;  // not [name, text]: CAPTURE is a lambda, and clang before 16 captures no binding
    const auto &text = entry.second;
    CAPTURE(name);
    CHECK(tune::entry_problem(text) == "");
    const auto json = nlohmann::ordered_json::parse(text);
    const nlohmann::ordered_json &key = json.at("key");
    const ops::Op *op = ops::find_op(key.at("op").get<std::string>());
    REQUIRE(op != nullptr);
    CHECK(key.at("tuning_epoch") == op->spec->tuning_epoch);
    CHECK(key.at("bucket").at("version") == rules.version());
    CHECK(name.find(op->spec->name) != std::string::npos);
    const auto dtype = dtype_from(key.at("dtypes").front().get<std::string>());
    REQUIRE(dtype);
    const auto space = tune::CandidateSpace::embedded(*op->spec);
    for (const Layout layout : kLayouts) {
      const auto config = tune::config_from_json(json.at(layout == Layout::any ? "config_any" : "config"));
      REQUIRE(config);
      CAPTURE(to_string(*config));
      CHECK(space.contains(*config, *dtype, layout));
    }
  }
}
