#include "tune/entry.h"

#include <doctest/doctest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "toy_op.h"
#include "tune/space.h"

using namespace msj;
using namespace msj::testing;
using Json = nlohmann::ordered_json;

namespace {

constexpr const char *kEnvironment = "NVIDIA-H200_sm_90a_132sm_227KiB";

tune::Entry sample() {
  tune::Entry entry;
  entry.op = "toy";
  entry.tuning_epoch = 1;
  entry.environment = kEnvironment;
  entry.configs = {toy_config("fast", 128, 4), toy_config("simple", 64, 2)};
  entry.sizes = {1, 101, 29, 45, 64, 32};
  entry.candidates = {{toy_config("simple", 64, 2), Layout::aligned16, {0.0123456789, 0.00123456, 20, {}}, {}},
                      {toy_config("simple", 64, 2), Layout::any, {1.0 / 3.0, 0, 3, {}}, {}},
                      {toy_config("fast", 128, 4), Layout::aligned16, {0.01, 0.5, 20, {}}, {}},
                      {toy_config("fast", 128, 100), Layout::aligned16, {}, "it needs \"too\" much\nmemory"}};
  entry.provenance = {13000, "13.0", "0.1.0", "00112233445566778899aabbccddeeff", "2026-01-02T03:04:05Z"};
  return entry;
}

std::string text() { return to_json(sample(), toy_key()); }

// Why the text is not taken; "" if it is.
std::string refusal(const std::string &text, const tune::AutotuneKey &key = toy_key(),
                    const std::string &environment = kEnvironment) {
  std::string why;
  const auto entry = tune::parse_entry(text, key, environment, why);
  CHECK(entry.has_value() == why.empty());
  return why;
}

// The text of a changed object, with the checksum that a writer of this library would have put.
std::string resealed(Json json) {
  Json body = json;
  body.erase("checksum");
  if (body.contains("provenance") && body["provenance"].is_object()) body["provenance"].erase("date");
  json["checksum"] = hash_name(body.dump());
  return json.dump(2) + "\n";
}

// Pointers to every value in the object, containers included.
void collect(const Json &json, const std::string &at, std::vector<std::string> &pointers) {
  if (!at.empty()) pointers.push_back(at);
  if (!json.is_structured()) return;
  std::size_t index = 0;
  for (const auto &item : json.items()) {
    collect(item.value(), at + "/" + (json.is_array() ? std::to_string(index++) : item.key()), pointers);
  }
}

bool is_free_text(const std::string &pointer) {
  return pointer == "/provenance/nvrtc" || pointer == "/provenance/library" || pointer == "/provenance/source_hash" ||
         pointer == "/provenance/date" || pointer == "/candidates/3/rejected";
}

// Which config lost or was left out, only the checksum knows.
bool is_of_no_winner(const std::string &pointer) {
  return pointer.starts_with("/candidates/0/config/") || pointer.starts_with("/candidates/3");
}

}  // namespace

TEST_CASE("entry: there and back") {
  std::string why;
  const auto entry = tune::parse_entry(text(), toy_key(), kEnvironment, why);
  CAPTURE(why);
  REQUIRE(entry);
  const tune::Entry expected = sample();
  CHECK(entry->op == expected.op);
  CHECK(entry->tuning_epoch == expected.tuning_epoch);
  CHECK(entry->environment == expected.environment);
  CHECK(entry->configs == expected.configs);
  CHECK(entry->sizes == expected.sizes);
  REQUIRE(entry->candidates.size() == expected.candidates.size());
  CHECK(entry->candidates[0].timing.median_ms == 0.012346);
  CHECK(entry->candidates[0].timing.dispersion == 0.0012);
  CHECK(entry->candidates[1].layout == Layout::any);
  CHECK(entry->candidates[1].timing.rounds == 3);
  CHECK(entry->candidates[3].rejected == expected.candidates[3].rejected);
  CHECK(entry->provenance.source_hash == expected.provenance.source_hash);
  CHECK(entry->provenance.date == expected.provenance.date);
  // What was read is written as it was.
  CHECK(to_json(*entry, toy_key()) == text());
  CHECK(tune::entry_problem(text()).empty());
}

TEST_CASE("entry: the text is stable, for people too, and says all of the key") {
  CHECK(text() == text());
  CHECK(text().starts_with("{\n  \"schema\": \"maxsim-jit/autotune/1\",\n  \"key\": {\n    \"op\": \"toy\","));
  CHECK(text().ends_with("\n}\n"));
  const auto json = Json::parse(text());
  CHECK(json["key"]["bucket"].dump() == R"({"version":1,"Nq":1,"Nd":128,"Lq":32,"Ld":64,"m":64,"k":32})");
  CHECK(json["key"]["dtypes"].dump() == R"(["bf16","bf16","bf16","i8","i32","f32","f32","i32"])");
  CHECK(json["key"]["tuning_epoch"] == 1);
  const auto more = toy_key(toy_sizes(1, 100000, 32, 60));
  CHECK(Json::parse(to_json(sample(), more))["key"]["bucket"]["Nd"] == "more");
  CHECK(refusal(to_json(sample(), more), more).empty());
}

TEST_CASE("entry: two of another date differ in the date alone") {
  tune::Entry later = sample();
  later.provenance.date = "2027-01-02T03:04:05Z";
  std::string other = to_json(later, toy_key());
  CHECK(other != text());
  other.replace(other.find("2027"), 4, "2026");
  CHECK(other == text());
}

TEST_CASE("entry: another key, environment, epoch or bucket version is a miss with a reason") {
  const auto says = [](const std::string &why, const char *part) {
    CAPTURE(why);
    CHECK(why.find(part) != std::string::npos);
  };
  says(refusal(text(), toy_key(toy_sizes(2, 100, 32, 60))), "its bucket is");
  says(refusal(text(), toy_key(toy_sizes(1, 100, 32, 60), {DType::f16, DType::bf16})), "its dtypes is");
  says(refusal(text(), toy_key(), "NVIDIA-A100_sm_80_108sm_163KiB"), "its environment is");
  says(refusal(text(), toy_key(toy_sizes(1, 100, 32, 60), {DType::bf16, DType::bf16}, kToyOfNextEpoch)),
       "its tuning_epoch is 1, not 2");
  OpSpec other = kToy;
  other.name = "other";
  says(refusal(text(), toy_key(toy_sizes(1, 100, 32, 60), {DType::bf16, DType::bf16}, other)), "its op is");
}

TEST_CASE("entry: only another version is nobody's fault") {
  const auto next = toy_key(toy_sizes(1, 100, 32, 60), {DType::bf16, DType::bf16}, kToyOfNextEpoch);
  CHECK(tune::is_of_other_version(text(), next));
  auto json = Json::parse(text());
  json["key"]["bucket"]["version"] = 2;
  CHECK(tune::is_of_other_version(resealed(json), toy_key()));
  CHECK_FALSE(tune::is_of_other_version(json.dump(2), toy_key()));  // its checksum is wrong
  CHECK_FALSE(tune::is_of_other_version(text(), toy_key()));
  CHECK_FALSE(tune::is_of_other_version("{", toy_key()));
}

TEST_CASE("entry: every field that is changed, of another type or missing is refused with a reason") {
  const auto good = Json::parse(text());
  std::vector<std::string> pointers;
  collect(good, "", pointers);
  CHECK(pointers.size() > 60);
  const std::vector<Json> others = {nullptr,
                                    true,
                                    -1,
                                    1.5,
                                    "text",
                                    "",
                                    Json::array(),
                                    Json::object(),
                                    1e300,
                                    4294967296,
                                    {Json::object()},
                                    // 64 bits of ones are no -1, and nothing wraps around to a tunable.
                                    18446744073709551615U,
                                    18446744073709551615U - 63};
  for (const std::string &pointer : pointers) {
    CAPTURE(pointer);
    const Json::json_pointer at(pointer);
    for (const Json &other : others) {
      if (good[at] == other) continue;
      auto json = good;
      json[at] = other;
      CAPTURE(other.dump());
      if (pointer != "/provenance/date" || !other.is_string()) CHECK_FALSE(refusal(json.dump(2)).empty());
      // With a checksum that fits, all but free text and plain numbers is still refused.
      const bool is_number = pointer.ends_with("median_ms") || pointer.ends_with("dispersion") ||
                             pointer.ends_with("rounds") || pointer == "/provenance/driver" ||
                             pointer.starts_with("/sizes/");
      if (pointer == "/checksum" || (is_number && other.is_number()) || (is_free_text(pointer) && other.is_string())) {
        continue;
      }
      if (is_of_no_winner(pointer)) continue;
      CHECK_FALSE(refusal(resealed(json)).empty());
    }
    // Without it.
    auto json = good;
    const auto parent = at.parent_pointer();
    if (!json[parent].is_object()) continue;
    json[parent].erase(at.back());
    CHECK_FALSE(refusal(json.dump(2)).empty());
    if (pointer != "/checksum" && !is_of_no_winner(pointer)) CHECK_FALSE(refusal(resealed(json)).empty());
  }
}

TEST_CASE("entry: a winner that was not timed is refused, even if its checksum fits") {
  auto json = Json::parse(text());
  json["config"]["tunables"]["stages"] = 100;  // rejected
  CHECK(refusal(resealed(json)) == "the winner of layout class aligned16 is no candidate that was timed");
  json = Json::parse(text());
  json["config_any"] = json["config"];  // timed for aligned16 alone
  CHECK(refusal(resealed(json)) == "the winner of layout class any is no candidate that was timed");
}

TEST_CASE("entry: what is refused is told in our own words, a size of 2^63 as it is") {
  for (const Json &other : {Json(), Json::array(), Json("x"), Json(3)}) {
    auto json = Json::parse(text());
    json["provenance"] = other;
    CHECK(refusal(resealed(json)) == "\"provenance\" is no object");
    CHECK(refusal(json.dump()) == "its checksum does not match what it says");
  }
  auto json = Json::parse(text());
  json["sizes"].front() = 9223372036854775808U;
  CHECK(refusal(resealed(json)) == "\"" + json["sizes"].begin().key() + "\" is 9223372036854775808");
}

TEST_CASE("entry: text of an entry is quoted by its beginning") {
  const std::string endless(100'000, 'x');
  const auto changed = [&](const std::function<void(Json &)> &change) {
    auto json = Json::parse(text());
    change(json);
    return resealed(std::move(json));
  };
  for (const std::string &bad : {changed([&](Json &json) { json["schema"] = endless; }),
                                 changed([&](Json &json) { json["environment"] = endless; }),
                                 changed([&](Json &json) { json["key"]["op"] = endless; }),
                                 changed([&](Json &json) { json["key"]["bucket"][endless] = 1; }),
                                 changed([&](Json &json) { json["sizes"][endless] = -1; }),
                                 changed([&](Json &json) { json["sizes"][endless] = "1"; })}) {
    const std::string why = refusal(bad);
    CAPTURE(why);
    CHECK(why.find("xxx… (") != std::string::npos);
    CHECK(why.size() < 500);
  }
  TileConfig config = toy_config("simple", 64, 2);
  config.tunables[endless] = 1;
  CHECK(tune::admission_problem(toy_key(), config, Layout::any, h200_limits()).size() < 300);
  config.path = endless;
  CHECK(tune::admission_problem(toy_key(), config, Layout::any, h200_limits()).size() < 300);
}

TEST_CASE("entry: a number that no int can hold wraps around to no tunable") {
  for (const Json &number :
       {Json(18446744073709551612U), Json(9223372036854775808U), Json(4294967300), Json(-4294967292)}) {
    auto json = Json::parse(text());
    json["config"]["tunables"]["stages"] = number;
    json["candidates"][2]["config"]["tunables"]["stages"] = number;  // the winner's own record
    CHECK(refusal(resealed(json)) == "\"config\" is no tile config");
  }
}

TEST_CASE("entry: truncated at every byte, and every bit flipped") {
  const std::string good = text();
  for (std::size_t length = 0; length < good.size(); ++length) REQUIRE_FALSE(refusal(good.substr(0, length)).empty());
  const std::size_t date = good.find("2026-");
  for (std::size_t i = 0; i < good.size(); ++i) {
    if (i >= date && i < date + 20) continue;  // the one thing that no checksum covers, and nothing reads
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = good;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      CAPTURE(i);
      CAPTURE(bit);
      REQUIRE_FALSE(refusal(flipped).empty());
    }
  }
}

TEST_CASE("entry: nothing lies before, between or behind the bytes that this library writes") {
  const std::string good = text();
  const std::string nul(1, '\0');
  const std::string of_other_bytes = "its bytes are others than this library writes for what it says";
  CHECK(refusal("\xef\xbb\xbf" + good) == of_other_bytes);
  CHECK(refusal(good + " ") == of_other_bytes);
  CHECK(refusal(good.substr(0, good.size() - 1)) == of_other_bytes);
  CHECK(refusal(Json::parse(good).dump()) == of_other_bytes);
  std::string other_digits = good;
  other_digits.replace(good.find("0.012346"), 8, "0.0123460");
  CHECK(refusal(other_digits) == of_other_bytes);
  for (const std::string &behind : {nul, nul + "{\"anything", "x" + nul}) {
    CHECK(refusal(good + behind).starts_with("it is no JSON text: line "));
  }
  std::string twice = good;
  twice.insert(good.find("\"environment\""), "\"environment\": \"x\",\n  ");
  CHECK(refusal(twice) == "it has \"environment\" twice in one object");
}

TEST_CASE("entry: a text of any names is shown to its end") {
  auto json = Json::parse(text());
  json["schema"] = std::string("max\0sim", 7);
  CHECK(refusal(resealed(json)) == "its schema is \"max\\x00sim\", not \"maxsim-jit/autotune/1\"");
}

// Once seconds and more: names were looked for among all others, lists looked at for each object in them.
TEST_CASE("entry: more than any entry has is refused as soon as it is met") {
  std::string objects = "{\"candidates\":[{}";
  for (int i = 0; i < 200000; ++i) objects += ",{}";
  CHECK(refusal(objects + "]}") == "it has more than 65536 objects, lists and names");
  std::string names = "{\"a\":0";
  for (int i = 0; i < 80000; ++i) names += ",\"" + std::to_string(i) + "\":0";
  CHECK(refusal(names + "}") == "it has an object of more than 1024 names");
}

TEST_CASE("entry: no text brings it down") {
  CHECK_FALSE(refusal("").empty());
  CHECK_FALSE(refusal("null").empty());
  CHECK_FALSE(refusal("[]").empty());
  CHECK_FALSE(refusal(std::string(100, '\0')).empty());
  CHECK_FALSE(refusal("\xff\xfe").empty());
  CHECK_FALSE(refusal("1e999").empty());
  for (const char *number : {"NaN", "nan", "Infinity", "-inf", "1e999", "0x10", "1_0"}) {
    std::string odd = text();
    odd.replace(odd.find("0.012346"), 8, number);
    CHECK(refusal(odd).find("JSON") != std::string::npos);
  }
  CHECK(refusal(std::string(1000000, '[')).find("deep") != std::string::npos);
  CHECK(refusal(std::string(1000000, '[') + std::string(1000000, ']')).find("deep") != std::string::npos);
  CHECK(refusal("{\"schema\": " + std::string(100, '[') + std::string(100, ']') + "}").find("deep") !=
        std::string::npos);
  CHECK(refusal(std::string(std::size_t{5} << 20, ' ')).find("too many") != std::string::npos);
  CHECK(tune::entry_problem("{}") == "\"schema\" is missing");
  CHECK(tune::entry_problem(R"({"schema": "maxsim-jit/autotune/2"})") ==
        "its schema is \"maxsim-jit/autotune/2\", not \"maxsim-jit/autotune/1\"");
}
