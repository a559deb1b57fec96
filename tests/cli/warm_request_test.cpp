#include "cli/warm_request.h"

#include <doctest/doctest.h>

#include <fstream>

#include "cli/failure.h"
#include "cli/made_up_ops.h"
#include "support/scratch.h"

using namespace msj::cli;
using namespace msj::testing;

namespace {

struct Ops {
  std::vector<OpInfo> all = made_up_ops();
  const OpInfo &plain = all[0];
  const OpInfo &scaled = all[1];
};

std::string sizes_refusal(const OpInfo &op, std::string_view text) {
  return sentence_of<UsageError>([&] { static_cast<void>(parse_sizes(op, text)); });
}

std::string dtypes_refusal(const OpInfo &op, std::string_view text) {
  return sentence_of<UsageError>([&] { static_cast<void>(parse_dtypes(op, text)); });
}

std::vector<WarmRequest> requests_of(const std::vector<OpInfo> &ops, const std::string &manifest) {
  const ScratchDirectory directory;
  std::ofstream(directory / "m.json") << manifest;
  return read_manifest(ops, directory / "m.json");
}

std::string manifest_refusal(const std::string &manifest) {
  const Ops ops;
  return sentence_of<Failure>([&] { static_cast<void>(requests_of(ops.all, manifest)); });
}

}  // namespace

TEST_CASE("sizes in any order, defaults filled in") {
  const Ops ops;
  const SizeMap sizes = parse_sizes(ops.plain, "Ld=300,Nq=1,Nd=1000,Lq=32");
  CHECK(sizes == SizeMap{{"Nq", 1}, {"Nd", 1000}, {"Lq", 32}, {"Ld", 300}, {"d", 128}});
  CHECK(parse_sizes(ops.plain, "Ld=300,Nq=1,Nd=1000,Lq=32,d=96").at("d") == 96);
}

TEST_CASE("sizes are refused by name, value and what is accepted") {
  const Ops ops;
  CHECK(sizes_refusal(ops.plain, "Nq=1") == "--sizes does not name Nd; plain needs Nq, Nd, Lq, Ld; without others it takes d=128");
  CHECK(contains(sizes_refusal(ops.plain, "Nx=1"), "--sizes names 'Nx'; plain has Nq, Nd, Lq, Ld, d"));
  CHECK(contains(sizes_refusal(ops.plain, "Nq"), "NAME=NUMBER"));
  CHECK(contains(sizes_refusal(ops.plain, "Nq=1,Nq=2"), "Nq twice"));
  CHECK(sizes_refusal(ops.plain, "Nq=1001") ==
        "--sizes: size Nq of plain is '1001'; an integer from 1 to 1000 is accepted");
  for (const char *bad : {"Nq=0", "Nq=-1", "Nq=", "Nq=1x", "Nq=1e3", "Nq=99999999999999999999"}) {
    CHECK(contains(sizes_refusal(ops.plain, bad), "an integer from 1 to 1000 is accepted"));
  }
  CHECK(contains(sizes_refusal(ops.scaled, "Nq=0"), "an integer from 1 is accepted"));  // no limit told
}

TEST_CASE("one dtype for all matrices, or each by name") {
  const Ops ops;
  CHECK(parse_dtypes(ops.plain, "fp16") == DTypeMap{{"q", DType::f16}});
  CHECK(parse_dtypes(ops.scaled, "fp8_e4m3") == DTypeMap{{"q", DType::fp8_e4m3}, {"d", DType::fp8_e4m3}});
  CHECK(parse_dtypes(ops.scaled, "q=fp8_e4m3,d=fp8_e5m2") == DTypeMap{{"q", DType::fp8_e4m3}, {"d", DType::fp8_e5m2}});
  CHECK(dtypes_refusal(ops.plain, "fp8_e4m3") == "--dtype: q of plain is 'fp8_e4m3'; accepted: bf16, f16, f32");
  CHECK(contains(dtypes_refusal(ops.scaled, "q=fp8_e4m3"), "does not name that of d"));
  CHECK(contains(dtypes_refusal(ops.plain, "d=bf16"), "operands with a dtype of their own"));
  CHECK(contains(dtypes_refusal(ops.plain, "q=bf16,x"), "'x'"));
  CHECK(dtypes_refusal(ops.plain, "q=f16,q=bf16") == "--dtype names q twice; once is accepted");
  CHECK(dtypes_refusal(ops.scaled, "q=fp8_e4m3,d=fp8_e5m2,q=fp8_e4m3") == "--dtype names q twice; once is accepted");
}

TEST_CASE("all features are the power set, names are one set") {
  const Ops ops;
  CHECK(parse_features(ops.plain, "all") == std::vector<FeatureSet>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(parse_features(ops.plain, "none") == std::vector<FeatureSet>{0});
  CHECK(parse_features(ops.plain, "save_argmax,d_mask") == std::vector<FeatureSet>{5});
  CHECK(contains(sentence_of<UsageError>([&] { static_cast<void>(parse_features(ops.plain, "bias")); }),
                 "--features names 'bias'; plain has d_mask, normalize, save_argmax"));
  CHECK(contains(sentence_of<UsageError>([&] { static_cast<void>(parse_features(ops.plain, "")); }),
                 "--features is empty"));
  CHECK(sentence_of<UsageError>([&] { static_cast<void>(parse_features(ops.plain, "d_mask,d_mask")); }) ==
        "--features names d_mask twice; once is accepted");
}

TEST_CASE("a manifest gives a request for each item") {
  const Ops ops;
  const auto requests = requests_of(ops.all, R"([
    {"op": "plain", "sizes": {"Nq": 1, "Nd": 10, "Lq": 2, "Ld": 3}, "dtype": "bf16"},
    {"op": "plain", "sizes": "Nq=1,Nd=10,Lq=2,Ld=3", "dtype": "bf16", "features": ["normalize"]},
    {"op": "plain", "sizes": "Nq=1,Nd=10,Lq=2,Ld=3", "dtype": "bf16", "features": [[], ["d_mask"], []]},
    {"op": "scaled", "sizes": {"Nq": 1, "Lq": 2, "d": 64}, "dtype": "q=fp8_e4m3,d=fp8_e5m2", "features": []}])");
  REQUIRE(requests.size() == 4);
  CHECK(requests[0].feature_sets.size() == 8);
  CHECK(requests[0].sizes.at("d") == 128);
  CHECK(requests[1].feature_sets == std::vector<FeatureSet>{2});
  CHECK(requests[2].feature_sets == std::vector<FeatureSet>{0, 1});
  CHECK(requests[3].op->name == "scaled");
  CHECK(requests[3].feature_sets == std::vector<FeatureSet>{0});
  CHECK(requests_of(ops.all, "[]").empty());
}

TEST_CASE("a bad manifest is refused with its file and item") {
  const std::string good = R"({"op": "plain", "sizes": "Nq=1,Nd=10,Lq=2,Ld=3", "dtype": "bf16"})";
  CHECK(contains(manifest_refusal("{"), "m.json: the manifest is not JSON"));
  CHECK(contains(manifest_refusal("{}"), "m.json: the manifest is a JSON object"));
  CHECK(contains(manifest_refusal("[" + good + ", 3]"), "item 1 of the manifest: it is 3"));
  CHECK(contains(manifest_refusal(R"([{"op": "x"}])"), "item 0 of the manifest: 'op' is 'x'"));
  CHECK(contains(manifest_refusal(R"([{"op": 4}])"), "'op' is 4; a string"));
  CHECK(contains(manifest_refusal(R"([{"op": "plain"}])"), "'sizes' is missing"));
  CHECK(contains(manifest_refusal(R"([{"op": "plain", "sizes": 1}])"), "'sizes' is 1"));
  CHECK(contains(manifest_refusal(R"([{"op": "plain", "sizes": {"Nq": 1.5}}])"), "size Nq of plain is '1.5'"));
  CHECK(contains(manifest_refusal(R"([{"op": "plain", "size": {}}])"), "it has 'size'"));
  CHECK(contains(manifest_refusal(R"([{"op": "plain", "sizes": "Nq=1,Nd=10,Lq=2,Ld=3"}])"), "'dtype' is missing"));
  const std::string open = good.substr(0, good.size() - 1);
  CHECK(contains(manifest_refusal("[" + open + R"(, "features": 1}])"), "'features' is 1"));
  CHECK(contains(manifest_refusal("[" + open + R"(, "features": [1]}])"), "'features' holds 1"));
  CHECK(contains(manifest_refusal("[" + open + R"(, "features": ["d_mask", []]}])"), "mix"));
  const Ops ops;
  CHECK(contains(sentence_of<Failure>([&] { static_cast<void>(read_manifest(ops.all, "/nowhere/m.json")); }),
                 "/nowhere/m.json: the manifest cannot be opened"));
}
