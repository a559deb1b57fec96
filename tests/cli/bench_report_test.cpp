// Floors, efficiencies and what is said of them, of rows made up here.
#include <doctest/doctest.h>

#include "cli/bench_plot.h"
#include "cli/bench_report.h"
#include "made_up_ops.h"

using namespace msj::cli;
using namespace msj::testing;

namespace {

const std::vector<OpInfo> &ops() {
  static const std::vector<OpInfo> made_up = made_up_ops();
  return made_up;
}

Json measurement(double time, double read, double multiply_adds) {
  Json json = {{"environment", "A-GPU"}, {"source", "tuned"}};
  json["config"] = {{"path", "fast"}, {"tunables", {{"block", 64}}}};
  json["candidates"] = {{{"config", json["config"]}, {"milliseconds", time}, {"dispersion", 0.01}, {"rounds", 20}}};
  json["ceilings"] = {{"empty_ms", 0.01},      {"read_ms", read},           {"loads_ms", read},
                      {"bulk_ms", read + 0.1}, {"read_bytes", 400'000'000}, {"multiply_adds", multiply_adds}};
  return json;
}

BenchRow row(double time, double read, double multiply_adds) {
  return row_of({"some<shape>", ops().data(), {{"Nq", 1}}, DType::bf16, 0}, measurement(time, read, multiply_adds));
}

}  // namespace

TEST_CASE("the floor is the larger of the read's time and the products'") {
  BenchRow of = row(0.21, 0.11, 5e10);
  CHECK(of.ceilings->read_ms == doctest::Approx(0.1));
  CHECK(of.ceilings->bulk_ms.value() == doctest::Approx(0.2));
  CHECK(of.rounds == 20);
  CHECK_FALSE(of.floor_ms());
  CHECK_FALSE(of.efficiency());
  CHECK(of.least_efficiency().value() == doctest::Approx(0.5));
  CHECK(efficiency_text(of) == "≥ 50.0 %");
  of.matrix_rate = 500;  // 0.2 ms
  CHECK(of.matrix_ms().value() == doctest::Approx(0.2));
  CHECK(of.floor_ms().value() == doctest::Approx(0.2));
  CHECK(efficiency_text(of) == "100.0 %");
  of.matrix_rate = 2000;  // 0.05 ms
  CHECK(of.floor_ms().value() == doctest::Approx(0.1));
  CHECK(efficiency_text(of) == "50.0 %");
  CHECK(of.achieved_rate().value() == doctest::Approx(500));
  CHECK(of.intensity().value() == doctest::Approx(250));
  CHECK(read_rate(std::array{of}).value() == doctest::Approx(4));
}

TEST_CASE("what a clock can't tell is left open") {
  BenchRow of = row(0.01, 0.01, 5e10);
  of.matrix_rate = 500;
  CHECK_FALSE(of.efficiency());
  CHECK_FALSE(of.achieved_rate());
  CHECK(efficiency_text(of) == "-");
  CHECK_FALSE(read_rate(std::array{of}));
}

TEST_CASE("a rate is of reads that a clock can tell, or else of the largest") {
  const auto read = [](double ms, std::int64_t bytes) {
    BenchRow of = row(1, 1, 1);
    of.ceilings->read_ms = ms;
    of.ceilings->read_bytes = bytes;
    return of;
  };
  const BenchRow tiny = read(0.001, 100'000'000);  // 100 TB/s, if one believes it
  const BenchRow small = read(0.05, 200'000'000);  // 4
  const BenchRow large = read(0.2, 600'000'000);   // 3
  CHECK(read_rate(std::array{tiny, small, large}).value() == doctest::Approx(3));
  CHECK(read_rate(std::array{small, tiny}).value() == doctest::Approx(4));
}

TEST_CASE("a row without ceilings has its time, and nothing that needs them") {
  Json json = measurement(0.21, 0.11, 5e10);
  json["ceilings"] = nullptr;
  BenchRow of = row_of({"some<shape>", ops().data(), {{"Nq", 1}}, DType::bf16, 0}, json);
  of.matrix_rate = 500;
  CHECK_FALSE(of.floor_ms());
  CHECK_FALSE(of.least_efficiency());
  CHECK_FALSE(of.achieved_rate());
  CHECK_FALSE(read_rate(std::array{of}));
  BenchReport report;
  report.rows = {of};
  CHECK(bench_text(report).starts_with("A-GPU: ceilings are not known"));
  const Json row = bench_json(report, {})["rows"][0];
  CHECK(row["time_ms"] == 0.21);
  for (const char *name : {"empty_ms", "read_ms", "loads_ms", "bulk_ms", "read_bytes", "multiply_adds", "floor_ms"})
    CHECK(row[name].is_null());
  report.rows.push_back(::row(0.21, 0.11, 5e10));
  CHECK(bench_text(report).starts_with("A-GPU: empty launch 0.0100 ms"));
  CHECK(contains(bench_svg(report.rows), "</svg>"));
}

TEST_CASE("the table has a column for each peer, and a dash where nothing is known") {
  BenchReport report;
  CHECK(bench_text(report).empty());
  report.rows = {row(0.21, 0.11, 5e10), row(0.3, 0.11, 5e10)};
  report.rows[1].peers["torch"] = 0.5;
  report.rows[1].matrix_rate = 500;
  CHECK(
      bench_text(report) ==
      "A-GPU: empty launch 0.0100 ms; fastest read 4.00 TB/s; bf16 products 500 TFLOP/s\n"
      "milliseconds, medians, cold L2, random data\n"
      "op     shape        dtype  read    matrix  floor   time    of floor  torch   features  config\n"
      "plain  some<shape>  bf16   0.1000  -       -       0.2100  ≥ 50.0 %  -       none      fast block=64 (tuned)\n"
      "plain  some<shape>  bf16   0.1000  0.2000  0.2000  0.3000  69.0 %    0.5000  none      fast block=64 (tuned)\n");
}

TEST_CASE("JSON says null for what is not known, and what is missing") {
  BenchReport report;
  report.rows = {row(0.21, 0.11, 5e10)};
  report.failed = {{report.rows[0].of, "MSJ_ERROR_OUT_OF_MEMORY", "too big"}};
  report.left_out = {report.rows[0].of};
  const Json json = bench_json(report, {});
  CHECK(json["schema"] == "maxsim-jit/bench/1");
  CHECK(json["rows"][0]["efficiency"].is_null());
  CHECK(json["rows"][0]["least_efficiency"].get<double>() == doctest::Approx(0.5));
  CHECK(json["rows"][0]["config"] == "fast block=64");
  CHECK(json["matrix_tflops"].empty());
  CHECK(json["failed"][0]["message"] == "too big");
  CHECK(json["left_out"][0]["shape"] == "some<shape>");
}

TEST_CASE("a plot has a bar and a point for each row, and its text is escaped") {
  const auto count = [](const std::string &text, std::string_view part) {
    int found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  std::vector<BenchRow> rows = {row(0.21, 0.11, 5e10), row(0.3, 0.11, 5e10)};
  rows[1].matrix_rate = 500;
  const std::string svg = bench_svg(rows);
  CHECK(count(svg, "<circle") == 2);
  CHECK(count(svg, "<rect") == 1 + 1 + 2);  // the ground, the legend, the bars
  CHECK(count(svg, "some&lt;shape>") >= 2);
  CHECK(count(svg, "some<shape>") == 0);
  CHECK(contains(svg, "bf16 500 TFLOP/s"));
  CHECK(contains(svg, "slope: 4.00 TB/s read"));
  for (const char *never : {"nan", "inf"}) CHECK_FALSE(contains(svg, never));
  CHECK(contains(bench_svg({}), "</svg>"));
}
