// The engine on rows that a test supplies: what it asks for, and what it makes of their factors. That the semantics are
// right (masks, ties, NaN, …) is what the tests of the ops say.
#include "reference/maxsim.h"

#include <doctest/doctest.h>

#include <array>
#include <mutex>

#include "ops/dense_forward.h"
#include "ops/fp8_quantize.h"
#include "reference/forward_case.h"
#include "reference/lookup.h"

using namespace msj;
using namespace host;
using reference::RowBlock;
using reference::TokenRows;

namespace {

constexpr FeatureSet kQMask = 1, kDMask = 2, kSaveArgmax = 8;

ForwardCase dense_case(Tokens tokens, FeatureSet features, bool lengths = false) {
  return ForwardCase(ops::dense_forward_spec(), tokens, features, lengths, Order::contiguous);
}

// Rows of one value each, with factors; of every item the same.
struct Row {
  double value;
  double divisor = 1;
  double multiplier = 1;
};

TokenRows rows_of(std::vector<Row> rows) {
  const auto read = [rows](std::int64_t, std::span<const std::int64_t> tokens, const RowBlock &out) {
    for (std::size_t n = 0; n < tokens.size(); ++n) {
      const Row &row = rows[static_cast<std::size_t>(tokens[n])];
      *out.row(static_cast<std::int64_t>(n)) = row.value;
      out.factors[n] = {row.divisor, row.multiplier};
    }
  };
  return {.width = 1, .has_factors = true, .read = read};
}

float score(const std::vector<Row> &queries, const std::vector<Row> &documents, int *winner = nullptr) {
  ForwardCase c = dense_case(
      {1, 1, static_cast<std::int64_t>(queries.size()), static_cast<std::int64_t>(documents.size())}, kSaveArgmax);
  reference::maxsim(c.call(), rows_of(queries), rows_of(documents), 1);
  if (winner != nullptr) *winner = c.best(0, 0, 0);
  return c.score(0, 0);
}

// Which tokens of which items were asked for.
struct Log {
  std::mutex mutex;
  std::vector<std::vector<std::int64_t>> tokens;
  std::size_t longest = 0;

  TokenRows rows(std::int64_t items) {
    tokens.assign(static_cast<std::size_t>(items), {});
    const auto read = [this](std::int64_t item, std::span<const std::int64_t> asked, const RowBlock &out) {
      const std::scoped_lock lock(mutex);
      auto &seen = tokens.at(static_cast<std::size_t>(item));
      seen.insert(seen.end(), asked.begin(), asked.end());
      longest = std::max(longest, asked.size());
      for (std::size_t n = 0; n < asked.size(); ++n) {
        for (std::int64_t k = 0; k < out.width; ++k) out.row(static_cast<std::int64_t>(n))[k * out.lanes] = 1;
      }
    };
    return {.width = 3, .has_factors = false, .read = read};
  }
};

}  // namespace

TEST_CASE(
    "the value of a pair: divided by both divisors, multiplied by the document's; the query's comes after the max") {
  CHECK(score({{.value = 6}}, {{.value = 5}}) == 30.0f);
  CHECK(score({{.value = 6, .divisor = 2}}, {{.value = 5, .divisor = 5}}) == 3.0f);
  CHECK(score({{.value = 6, .multiplier = 10}}, {{.value = 5, .multiplier = -1}}) == -300.0f);
  int winner = -1;
  CHECK(score({{.value = 1, .multiplier = -1}}, {{.value = 3, .multiplier = 1}, {.value = 2, .multiplier = 2}},
              &winner) == -4.0f);
  CHECK(winner == 1);
  CHECK(score({{.value = 1}}, {{.value = 3, .divisor = 4}, {.value = 2, .divisor = 2}}, &winner) == 1.0f);
  CHECK(winner == 1);
  CHECK(score({{.value = 1, .multiplier = 2}, {.value = -1, .multiplier = 3}}, {{.value = 5}, {.value = 1}}) == 7.0f);
}

TEST_CASE("factors that nobody writes are 1, on either side") {
  const std::vector<Row> five = {{.value = 5, .divisor = 2, .multiplier = 3}};
  const TokenRows plain = {
      .width = 1, .has_factors = false, .read = [](std::int64_t, std::span<const std::int64_t>, const RowBlock &out) {
        *out.row(0) = 4;
      }};
  ForwardCase c = dense_case({1, 1, 1, 1}, 0);
  reference::maxsim(c.call(), plain, rows_of(five), 1);
  CHECK(c.score(0, 0) == 30.0f);
  reference::maxsim(c.call(), rows_of(five), plain, 1);
  CHECK(c.score(0, 0) == 30.0f);
  reference::maxsim(c.call(), plain, plain, 1);
  CHECK(c.score(0, 0) == 16.0f);
}

TEST_CASE("every active token is read once, whatever the other side; no other is read") {
  for (const int threads : {1, 3}) {
    ForwardCase c = dense_case({5, 4, 6, 200}, kQMask | kDMask, true);
    Random random(7);
    c.fill_masks(random);
    c.d_mask.fill([&] { return static_cast<double>(pick(random, 0, 3)); });
    c.d_lengths.fill([&] { return static_cast<double>(pick(random, 150, 200)); });
    Log queries, documents;
    reference::maxsim(c.call(), queries.rows(5), documents.rows(4), threads);
    for (std::int64_t i = 0; i < 5; ++i) {
      std::vector<std::int64_t> active;
      for (std::int64_t s = 0; s < 6; ++s) {
        if (c.query_active(i, s)) active.push_back(s);
      }
      CHECK(queries.tokens[static_cast<std::size_t>(i)] == active);
    }
    for (std::int64_t j = 0; j < 4; ++j) {
      std::vector<std::int64_t> active;
      for (std::int64_t t = 0; t < 200; ++t) {
        if (c.document_active(j, t)) active.push_back(t);
      }
      CHECK(active.size() > 100);
      CHECK(documents.tokens[static_cast<std::size_t>(j)] == active);
    }
    CHECK(documents.longest == reference::kTile);
  }
}

TEST_CASE("no active query token: no document is read") {
  ForwardCase c = dense_case({2, 2, 3, 4}, kQMask);
  c.q_mask.fill([] { return 0.0; });
  c.empty_doc = MSJ_EMPTY_DOC_NEG_INF;
  Log queries, documents;
  reference::maxsim(c.call(), queries.rows(2), documents.rows(2), 1);
  CHECK(documents.tokens[0].empty());
  CHECK(c.score(1, 1) == 0.0f);
}

TEST_CASE("a failure of a row reaches the caller, from any thread") {
  ForwardCase c = dense_case({1, 9, 1, 2}, 0);
  const TokenRows failing = {
      .width = 1, .has_factors = false, .read = [](std::int64_t item, std::span<const std::int64_t>, const RowBlock &) {
        if (item == 7) throw_error(MSJ_ERROR_INTERNAL, "row {}", item);
      }};
  for (const int threads : {1, 3}) {
    CHECK_THROWS_AS(reference::maxsim(c.call(), rows_of({{.value = 1}}), failing, threads), Error);
  }
}

TEST_CASE("a table without what the engine needs is named") {
  BoundCall call;
  call.op = &ops::fp8_quantize_spec();
  CHECK_THROWS_WITH_AS(static_cast<void>(reference::operand(call, "q_mask")), "fp8_quantize has no q_mask in its table",
                       Error);
  CHECK_THROWS_AS(static_cast<void>(reference::size(call, "Nq")), Error);
}
