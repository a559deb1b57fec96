// What a case throws is its own failure; the rows before and after it stay.
#include "cli/bench_run.h"

#include <doctest/doctest.h>

#include <limits>
#include <new>

#include "cli/failure.h"
#include "made_up_ops.h"
#include "maxsim_jit/maxsim_jit.hpp"

using namespace msj::cli;
using namespace msj::testing;

namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("a case that throws anything loses no other case") {
  const std::vector<OpInfo> ops = made_up_ops();
  std::vector<BenchCase> cases;
  for (const char *shape : {"good", "library", "json", "memory", "command", "last"}) {
    cases.push_back({shape, ops.data(), {}, DType::bf16, 0});
  }
  const auto measure = [](const BenchCase &of) {
    if (of.shape == "library") throw maxsim_jit::Error(MSJ_ERROR_CUDA, "a kernel failed");
    if (of.shape == "json") (void)Json::object().at("config");
    if (of.shape == "memory") throw std::bad_alloc();
    if (of.shape == "command") throw Failure("not timed");
    BenchRow row;
    row.of = of;
    return row;
  };
  Console console(stderr, false);
  const BenchReport report = run_cases(cases, kNoLimit, measure, console);
  REQUIRE(report.rows.size() == 2);
  CHECK(report.rows[0].of.shape == "good");
  CHECK(report.rows[1].of.shape == "last");
  REQUIRE(report.failed.size() == 4);
  CHECK(report.failed[0].status == "MSJ_ERROR_CUDA");
  CHECK(report.failed[0].sentence == "a kernel failed");
  CHECK(report.failed[1].sentence.find("config") != std::string::npos);
  CHECK(report.failed[2].sentence == "the host has not enough memory for this");
  CHECK(report.failed[3].sentence == "not timed");
  CHECK(report.left_out.empty());
}

TEST_CASE("after the time that is given no case is started") {
  const std::vector<OpInfo> ops = made_up_ops();
  const std::vector<BenchCase> cases(3, BenchCase{"some", ops.data(), {}, DType::bf16, 0});
  Console console(stderr, false);
  const auto measure = [](const BenchCase &) { return BenchRow(); };
  const BenchReport report = run_cases(cases, 0, measure, console);
  CHECK(report.rows.empty());
  CHECK(report.left_out.size() == 3);
}
