#include "tune/bucket.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "toy_op.h"

using namespace msj;
using namespace msj::testing;
using tune::BucketRules;
using tune::kMore;
using tune::ShapeBucket;

namespace {

BucketRules rules() { return BucketRules::parse(BucketRules::embedded()); }

// The contract's edges, written out once more: what this file and configs/buckets.json say must agree.
const std::map<int, std::vector<std::int64_t>> kEdges = {{toy::Nq, {1, 8, 64, kMore}},
                                                         {toy::Nd, {128, 1024, 16384, kMore}},
                                                         {toy::Lq, {16, 32, 64, 128, 256, 512, 1024}},
                                                         {toy::Ld, {64, 256, 1024, 4096}}};

std::int64_t edge(int size, std::int64_t value) {
  Sizes sizes = toy_sizes(1, 1, 1, 1);
  sizes[static_cast<std::size_t>(size)] = value;
  return rules().bucket(kToy, sizes).edges[static_cast<std::size_t>(size)];
}

// Every bucket of every size: 4 × 4 × 7 × 4, with these static sizes.
std::vector<ShapeBucket> all_buckets(std::int64_t m, std::int64_t k) {
  const BucketRules all = rules();
  const auto inside = [](std::int64_t edge) { return edge == kMore ? std::int64_t{1} << 30 : edge; };
  std::vector<ShapeBucket> buckets;
  for (const std::int64_t nq : kEdges.at(toy::Nq)) {
    for (const std::int64_t nd : kEdges.at(toy::Nd)) {
      for (const std::int64_t lq : kEdges.at(toy::Lq)) {
        for (const std::int64_t ld : kEdges.at(toy::Ld)) {
          buckets.push_back(all.bucket(kToy, toy_sizes(inside(nq), inside(nd), lq, ld, m, k)));
        }
      }
    }
  }
  return buckets;
}

std::string parse_failure(const std::string &text) {
  try {
    (void)BucketRules::parse(text);
  } catch (const Error &error) {
    CHECK(error.status() == MSJ_ERROR_INTERNAL);
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("bucket: every boundary b - 1, b, b + 1, the least and the largest size") {
  for (const auto &[size, edges] : kEdges) {
    CAPTURE(size);
    for (std::size_t i = 0; i < edges.size(); ++i) {
      const std::int64_t last = edges[i];
      if (last == kMore) continue;
      const std::int64_t next = i + 1 < edges.size() ? edges[i + 1] : last;
      CAPTURE(last);
      CHECK(edge(size, last) == last);
      CHECK(edge(size, last + 1) == next);
      if (last > 1) CHECK(edge(size, last - 1) == last);
    }
    CHECK(edge(size, 0) == edges.front());
    CHECK(edge(size, 1) == edges.front());
    CHECK(edge(size, (std::int64_t{1} << 40)) == edges.back());
    CHECK(edge(size, kMore - 1) == edges.back());
  }
}

TEST_CASE("bucket: one query of 32 tokens meets at most 16 keys, whatever its documents") {
  const BucketRules all = rules();
  std::set<std::string> keys;
  for (std::int64_t nd = 0; nd <= 100000; nd += nd < 2000 ? 1 : 83) {
    for (std::int64_t ld = 0; ld <= 8192; ld += 61) keys.insert(all.bucket(kToy, toy_sizes(1, nd, 32, ld)).text());
  }
  for (const std::int64_t ld : {64, 65, 256, 257, 1024, 1025, 4096, 4097, 8192}) {
    for (std::int64_t nd = 0; nd <= 100000; ++nd) keys.insert(all.bucket(kToy, toy_sizes(1, nd, 32, ld)).text());
  }
  CHECK(keys.size() == 16);
}

TEST_CASE("bucket: static sizes are rounded to 16 up to 256, 64 up to 1,024, 256 above") {
  const BucketRules all = rules();
  for (std::int64_t size = 1; size <= 9000; ++size) {
    const std::int64_t step = size <= 256 ? 16 : size <= 1024 ? 64 : 256;
    REQUIRE(all.round_static(size) == (size + step - 1) / step * step);
  }
  CHECK(all.round_static(0) == 16);
  const ShapeBucket bucket = all.bucket(kToy, toy_sizes(1, 1, 1, 1, 100, 300));
  CHECK(bucket.edges[toy::m] == 112);
  CHECK(bucket.edges[toy::k] == 320);
  CHECK(bucket.static_sizes() == Sizes{0, 0, 0, 0, 112, 320});
}

TEST_CASE("bucket: the text names every size, and more") {
  CHECK(rules().bucket(kToy, toy_sizes(1, 1000, 32, 300, 128, 16)).text() == "Nq1-Nd1024-Lq32-Ld1024-m128-k16");
  CHECK(rules().bucket(kToy, toy_sizes(65, 16385, 5000, 5000)).text() == "Nqmore-Ndmore-Lq1024-Ld4096-m64-k32");
}

TEST_CASE("representative sizes: within the limits, off tile multiples, static sizes as they are, for every bucket") {
  const BucketRules all = rules();
  const std::vector<DType> dtypes(kToy.operands.size(), DType::f32);
  for (const auto &[m, k] : std::vector<std::pair<std::int64_t, std::int64_t>>{{64, 16}, {128, 16}, {4096, 8192}}) {
    for (const ShapeBucket &bucket : all_buckets(m, k)) {
      const Sizes sizes = all.representative(bucket, dtypes);
      CAPTURE(bucket.text());
      REQUIRE(tune::operand_bytes(kToy, sizes, dtypes) <= tune::kMaxSweepBytes);
      REQUIRE(kToy.multiply_adds(sizes) <= tune::kMaxSweepMultiplyAdds);
      REQUIRE(sizes[toy::m] == m);
      REQUIRE(sizes[toy::k] == k);
      for (const auto &[size, edges] : kEdges) {
        const auto i = static_cast<std::size_t>(size);
        REQUIRE(sizes[i] >= 1);
        REQUIRE(sizes[i] % 2 == 1);
        if (bucket.edges[i] != kMore) REQUIRE(sizes[i] <= bucket.edges[i]);
        if (bucket.edges[i] == 1) REQUIRE(sizes[i] == 1);
      }
      REQUIRE(all.representative(bucket, dtypes) == sizes);
    }
  }
}

TEST_CASE("representative sizes: typical of a bucket that needs no cut") {
  const BucketRules all = rules();
  const std::vector<DType> dtypes(kToy.operands.size(), DType::bf16);
  const Sizes sizes = all.representative(all.bucket(kToy, toy_sizes(1, 10000, 32, 300, 16, 16)), dtypes);
  CHECK(sizes == Sizes{1, 9999, 29, 601, 16, 16});
  const Sizes many = all.representative(all.bucket(kToy, toy_sizes(1, 90000, 32, 60, 16, 16)), dtypes);
  CHECK(many == Sizes{1, 40001, 29, 45, 16, 16});
}

TEST_CASE("representative sizes: the documents are cut first, then queries, document tokens, query tokens") {
  const BucketRules all = rules();
  const std::vector<DType> dtypes(kToy.operands.size(), DType::bf16);
  const Sizes some = all.representative(all.bucket(kToy, toy_sizes(100, 90000, 32, 60, 16, 16)), dtypes);
  CHECK(some[toy::Nd] < 40001);
  CHECK(some[toy::Nd] > 101);
  CHECK(Sizes{some[0], 0, some[2], some[3]} == Sizes{131, 0, 29, 45});
  // The cut takes no more than it must.
  Sizes more = some;
  more[toy::Nd] += 2;
  CHECK(kToy.multiply_adds(more) > tune::kMaxSweepMultiplyAdds);

  const Sizes most = all.representative(all.bucket(kToy, toy_sizes(100, 90000, 1024, 4096, 128, 16)), dtypes);
  CHECK(most[toy::Nd] == 101);
  CHECK(most[toy::Nq] == 1);
  CHECK(most[toy::Ld] < 3001);
  CHECK(most[toy::Ld] >= 45);
  CHECK(most[toy::Lq] == 933);
  // Where the lowest buckets are still too much, all go below them.
  const Sizes huge = all.representative(all.bucket(kToy, toy_sizes(100, 90000, 1024, 4096, 4096, 8192)), dtypes);
  CHECK(huge[toy::Nd] < 101);
  CHECK(kToy.multiply_adds(huge) <= tune::kMaxSweepMultiplyAdds);
}

TEST_CASE("the ends of a bucket are in it, and the representative sizes are between them where they fit") {
  const BucketRules all = rules();
  const std::vector<DType> dtypes(kToy.operands.size(), DType::bf16);
  for (const std::int64_t Nq : {1, 5, 70}) {
    for (const std::int64_t Nd : {1, 500, 20000}) {
      for (const std::int64_t Lq : {3, 32, 1024, 5000}) {
        for (const std::int64_t Ld : {10, 300, 4096, 9000}) {
          const ShapeBucket bucket = all.bucket(kToy, toy_sizes(Nq, Nd, Lq, Ld, 128, 128));
          const Sizes least = all.least(bucket), largest = all.largest(bucket, dtypes);
          CHECK(all.bucket(kToy, least) == bucket);
          CHECK(all.bucket(kToy, largest) == bucket);
          for (std::size_t i = 0; i < kToy.sizes.size(); ++i) CHECK(least[i] <= largest[i]);
        }
      }
    }
  }
}

TEST_CASE("bucket rules: a size of a new op needs a line in the file and no code") {
  auto json = nlohmann::json::parse(BucketRules::embedded());
  static constexpr std::array<SizeSpec, 2> kSizes = {{{"M", false, 1 << 30}, {"nbits", true, 8}}};
  OpSpec op = kToy;
  op.sizes = kSizes;
  op.operands = {};
  op.cut_order = {};
  op.multiply_adds = [](const Sizes &) { return 1.0; };
  CHECK_THROWS_WITH_AS((void)rules().bucket(op, {1000, 4}), "configs/buckets.json has no edges for M of toy", Error);
  json["edges"]["M"] = {{"edges", {4096, 65536}}, {"above", "more"}, {"representative", {4001, 30001, 130001}}};
  json["edges"]["nbits"] = {{"edges", {1, 2, 4, 8}}, {"above", "last"}, {"representative", {1, 2, 4, 8}}};
  CHECK(parse_failure(json.dump()).find("not odd") != std::string::npos);
  json["edges"]["nbits"] = {{"edges", {1, 3, 5}}, {"above", "last"}, {"representative", {1, 3, 5}}};
  const BucketRules more = BucketRules::parse(json.dump());
  const ShapeBucket bucket = more.bucket(op, {70000, 3});
  CHECK(bucket.text() == "Mmore-nbits3");
  CHECK(more.representative(bucket, {}) == Sizes{130001, 3});
}

TEST_CASE("bucket rules: what is no rules file is refused with a reason") {
  const auto good = nlohmann::json::parse(BucketRules::embedded());
  CHECK(parse_failure(good.dump()).empty());
  const auto broken = [&](const char *pointer, const nlohmann::json &value) {
    auto json = good;
    json[nlohmann::json::json_pointer(pointer)] = value;
    return parse_failure(json.dump());
  };
  const auto says = [](const std::string &sentence, const char *part) {
    CAPTURE(sentence);
    CHECK(sentence.find(part) != std::string::npos);
  };
  says(parse_failure("{"), "no JSON");
  says(parse_failure("[]"), "no JSON object");
  says(parse_failure("{}"), "version");
  says(broken("/version", 0), "version");
  says(broken("/version", "1"), "version");
  says(broken("/static", nlohmann::json::array()), "static");
  says(broken("/static/0/multiple", -16), "multiple");
  says(broken("/static/0/to", 250), "multiple");
  says(broken("/static/2/to", 9000), "last one");
  says(broken("/edges/Nq", 3), "Nq");
  says(broken("/edges/Nq/edges", nlohmann::json::array()), "Nq");
  says(broken("/edges/Nq/edges", {8, 1, 64}), "not increasing");
  says(broken("/edges/Nq/above", "most"), "above");
  says(broken("/edges/Nq/above", 7), "");
  says(broken("/edges/Nq/representative", {1, 5, 37}), "one representative");
  says(broken("/edges/Nq/representative/1", 9), "not in its bucket");
  says(broken("/edges/Nq/representative/1", 6), "not odd");
  says(broken("/edges/Nq/edges/0", "1"), "positive integer");
}
