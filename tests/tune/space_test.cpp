#include "tune/space.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "toy_op.h"

using namespace msj;
using namespace msj::testing;
using tune::admit;
using tune::CandidateSpace;

namespace {

CandidateSpace toy_space() { return CandidateSpace::embedded(kToy, toy_configs()); }

std::string parse_failure(const std::string &text) {
  try {
    (void)CandidateSpace::parse(kToy, text);
  } catch (const Error &error) {
    CHECK(error.status() == MSJ_ERROR_INTERNAL);
    return error.what();
  }
  return {};
}

std::string with_candidate(const std::string &candidate) {
  return R"({"version": 1, "candidates": [)" + candidate + "]}";
}

}  // namespace

TEST_CASE("space: candidates in the file's order, with their dtypes and layouts") {
  const CandidateSpace space = toy_space();
  CHECK(space.version == 3);
  REQUIRE(space.candidates.size() == 5);
  CHECK(space.candidates[0].config == toy_config("simple", 64, 2));
  CHECK(space.candidates[0].takes(Layout::aligned16));
  CHECK(space.candidates[0].takes(Layout::any));
  CHECK(space.candidates[0].takes(DType::f32));
  CHECK_FALSE(space.candidates[2].takes(Layout::any));
  CHECK(space.candidates[2].takes(DType::f16));
  CHECK_FALSE(space.candidates[2].takes(DType::f32));
  CHECK(space.contains(toy_config("fast", 128, 4), DType::bf16, Layout::aligned16));
  CHECK_FALSE(space.contains(toy_config("fast", 128, 4), DType::f32, Layout::aligned16));
  CHECK_FALSE(space.contains(toy_config("fast", 128, 4), DType::bf16, Layout::any));
  CHECK_FALSE(space.contains(toy_config("fast", 128, 3), DType::bf16, Layout::aligned16));
}

TEST_CASE("space: what is no space is refused with the candidate and the reason") {
  const auto says = [](const std::string &text, const std::string &part) {
    const std::string sentence = parse_failure(text);
    CAPTURE(sentence);
    CHECK(sentence.find("configs/spaces/toy.json") == 0);
    CHECK(sentence.find(part) != std::string::npos);
  };
  const std::string good = R"({"path": "simple", "tunables": {"block": 1, "stages": 2}, "layouts": ["any"]})";
  CHECK(parse_failure(with_candidate(good)).empty());
  says("[", "no JSON");
  says("{}", "version");
  says(R"({"version": 1})", "candidates");
  says(with_candidate(""), "no candidate");
  says(with_candidate("3"), "candidate 0");
  says(with_candidate(good + "," + good), "candidate 1 is there twice: simple block=1 stages=2");
  says(with_candidate(R"({"path": "slow", "tunables": {}, "layouts": ["any"]})"), "\"slow\" is no kernel path of toy");
  says(with_candidate(R"({"path": "simple", "tunables": {"block": 1}, "layouts": ["any"]})"), "stages of path simple");
  says(with_candidate(R"({"path": "simple", "tunables": {"block": 1, "stages": 2, "x": 3}, "layouts": ["any"]})"),
       "path simple has no tunable x");
  says(with_candidate(R"({"path": "simple", "tunables": {"block": 1.5, "stages": 2}, "layouts": ["any"]})"),
       "integers");
  says(with_candidate(R"({"path": "simple", "tunables": {"block": 4294967297, "stages": 2}, "layouts": ["any"]})"),
       "integers");
  says(with_candidate(R"({"path": "simple", "tunables": {"block": 1, "stages": 2}})"), "layouts");
  says(with_candidate(R"({"path": "simple", "tunables": {"block": 1, "stages": 2}, "layouts": ["all"]})"), "layouts");
  says(with_candidate(R"({"path": "simple", "tunables": {"block": 1, "stages": 2}, "layouts": [1]})"), "layouts");
  says(with_candidate(
           R"({"path": "simple", "tunables": {"block": 1, "stages": 2}, "layouts": ["any"], "dtypes": ["int4"]})"),
       "\"int4\" is no dtype");
  says(with_candidate(R"({"path": "simple", "tunables": {"block": 1, "stages": 2}, "layouts": ["any"], "note": 1})"),
       "unknown field \"note\"");
}

TEST_CASE("space: one config may have a place for each dtype") {
  const auto with_dtype = [](const std::string &dtype) {
    return R"({"path": "simple", "tunables": {"block": 1, "stages": 2}, "layouts": ["any"], "dtypes": [")" + dtype +
           "\"]}";
  };
  CHECK(parse_failure(with_candidate(with_dtype("bf16") + "," + with_dtype("f32"))).empty());
  CHECK_FALSE(parse_failure(with_candidate(with_dtype("bf16") + "," + with_dtype("bf16"))).empty());
}

TEST_CASE("admission: every candidate in every class that it takes, with a reason for each that is left out") {
  const tune::Admission admission = admit(toy_space(), toy_key(), h200_limits());
  REQUIRE(admission.admitted.size() == kToyPairs);
  CHECK(admission.admitted[0].config == toy_config("simple", 64, 2));
  CHECK(admission.admitted[0].layout == Layout::aligned16);
  CHECK(admission.admitted[1].config == toy_config("simple", 64, 2));
  CHECK(admission.admitted[1].layout == Layout::any);
  CHECK(admission.admitted[4].config == toy_config("fast", 128, 4));
  CHECK(admission.admitted[5].config == toy_config("simple", 32, 1));
  REQUIRE(admission.rejected.size() == 1);
  CHECK(admission.rejected[0].config == toy_config("fast", 128, 100));
  CHECK(admission.rejected[0].reason == "it needs 819200 bytes of shared memory, 232448 are there");
  // Candidates of another dtype are none of this key's.
  CHECK(admit(toy_space(), toy_key(toy_sizes(1, 1, 1, 1), {DType::f32, DType::bf16}), h200_limits()).admitted.size() ==
        5);
}

TEST_CASE("admission: depends on the device, the bucket and the layout class") {
  const auto key = toy_key();
  DeviceLimits older = h200_limits();
  older.compute_capability = 89;
  CHECK(tune::admission_problem(key, toy_config("fast", 128, 4), Layout::aligned16, older) ==
        "path fast runs on compute capability 90 to 90, not 89");
  CHECK(tune::admission_problem(key, toy_config("fast", 128, 4), Layout::any, h200_limits()) ==
        "it loads 16 bytes at a time");
  CHECK(tune::admission_problem(key, toy_config("fast", 128, 4), Layout::aligned16, h200_limits()).empty());
  const auto wide = toy_key(toy_sizes(1, 100, 32, 60, 4096));
  CHECK_FALSE(tune::admission_problem(wide, toy_config("fast", 128, 4), Layout::aligned16, h200_limits()).empty());
}

TEST_CASE("admission: any config may be asked about, however wrong") {
  const auto problem = [](const TileConfig &config) {
    return tune::admission_problem(toy_key(), config, Layout::aligned16, h200_limits());
  };
  CHECK(problem({"slow", {}}) == "\"slow\" is no kernel path of toy");
  CHECK(problem({"simple", {}}) == "tunable block of path simple is missing");
  CHECK(problem({"simple", {{"block", 1}, {"stages", 1}, {"x", 1}}}) == "path simple has no tunable x");
}

TEST_CASE("default configs: the first admissible candidate of each class, or an error with every reason") {
  const auto pair = tune::default_configs(toy_space(), toy_key(), h200_limits());
  CHECK(pair.config == toy_config("simple", 64, 2));
  CHECK(pair.config_any == toy_config("simple", 64, 2));
  DeviceLimits tiny = h200_limits();
  tiny.shared_bytes_per_block = 3000;
  // 32 × 1 × 64 fits no more for aligned16, which that candidate does not take.
  try {
    (void)tune::default_configs(toy_space(), toy_key(), tiny);
    FAIL("accepted");
  } catch (const Error &error) {
    CHECK(error.status() == MSJ_ERROR_UNSUPPORTED);
    const std::string sentence = error.what();
    CHECK(sentence.find("layout class aligned16") != std::string::npos);
    CHECK(sentence.find("simple block=64 stages=2: it needs 8192 bytes") != std::string::npos);
    CHECK(sentence.find("fast block=128 stages=4: it needs 32768 bytes") != std::string::npos);
  }
}
