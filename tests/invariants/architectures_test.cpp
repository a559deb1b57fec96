// Every specialization compiles for every architecture, and none spills registers: samples here, the full matrix under
// the label `matrix`. And every candidate is admissible with all features on (DESIGN, invariant 6).
#include <doctest/doctest.h>

#include "support/compile_jobs.h"
#include "tune/ceilings.h"

using namespace msj;
using namespace msj::testing;

namespace {

constexpr std::array<std::string_view, 6> kArchitectures = {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"};

// Rows over `levels[i]` values each, so that every pair of values of two columns is in some row. Greedy: each row
// takes, column by column, the value that covers most pairs that are not covered yet.
std::vector<std::vector<std::size_t>> pairwise(const std::vector<std::size_t> &levels) {
  std::set<std::array<std::size_t, 4>> open;  // column, value, later column, value
  for (std::size_t a = 0; a < levels.size(); ++a) {
    for (std::size_t b = a + 1; b < levels.size(); ++b) {
      for (std::size_t x = 0; x < levels[a]; ++x) {
        for (std::size_t y = 0; y < levels[b]; ++y) open.insert({a, x, b, y});
      }
    }
  }
  std::vector<std::vector<std::size_t>> rows;
  while (!open.empty()) {
    const auto seed = *open.begin();
    std::vector<std::size_t> row(levels.size(), 0);
    std::vector<bool> chosen(levels.size(), false);
    row[seed[0]] = seed[1];
    row[seed[2]] = seed[3];
    chosen[seed[0]] = chosen[seed[2]] = true;
    const auto covers = [&](std::size_t a, std::size_t x, std::size_t b, std::size_t y) {
      return open.contains(a < b ? std::array{a, x, b, y} : std::array{b, y, a, x});
    };
    for (std::size_t column = 0; column < levels.size(); ++column) {
      if (chosen[column]) continue;
      std::size_t best = 0;
      for (std::size_t value = 0; value < levels[column]; ++value) {
        std::size_t covered = 0;
        for (std::size_t other = 0; other < levels.size(); ++other) {
          if (chosen[other] && covers(column, value, other, row[other])) ++covered;
        }
        if (covered > best || value == 0) {
          best = std::max(best, covered);
          if (covered == best) row[column] = value;
        }
      }
      chosen[column] = true;
    }
    for (std::size_t a = 0; a < levels.size(); ++a) {
      for (std::size_t b = a + 1; b < levels.size(); ++b) open.erase({a, row[a], b, row[b]});
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

TEST_CASE("a kernel that spills is noticed") {
  const cuda::Architecture architecture = cuda::parse_architecture("sm_90a");
  CompileJobs jobs;
  // 128 floats are alive at once in a thread that may have 32 registers.
  const std::string log = jobs.compile_log(
      "extern \"C\" __global__ void __launch_bounds__(1024, 2) spills(float *x) {\n"
      "  float a[128];\n"
      "#pragma unroll\n"
      "  for (int i = 0; i < 128; ++i) a[i] = x[i * 1024 + threadIdx.x];\n"
      "  __syncthreads();\n"
      "#pragma unroll\n"
      "  for (int i = 0; i < 128; ++i) x[i * 1024 + threadIdx.x] = a[127 - i] * a[i];\n"
      "}\n",
      architecture);
  CHECK(reports_spills(log));
  const std::string fine = jobs.compile_log("extern \"C\" __global__ void fine(float *x) { *x = 1; }\n", architecture);
  CHECK_FALSE(reports_spills(fine));
}

// Every pair of features, dtypes, layout classes and architectures. Static sizes take their turn: a pair of each with
// each architecture would be twice as many compiles.
TEST_CASE("default configs compile for every architecture without spills: every pair of choices") {
  CompileJobs jobs;
  std::size_t turn = 0;
  for (const ops::Op &op : ops::all_ops()) {
    const auto dtypes = own_dtypes(*op.spec);
    std::vector<std::size_t> levels(op.spec->features.size(), 2);
    levels.insert(levels.end(), {dtypes.size(), kLayouts.size(), kArchitectures.size()});
    for (const auto &row : pairwise(levels)) {
      FeatureSet features = 0;
      for (std::size_t f = 0; f < op.spec->features.size(); ++f) features |= static_cast<FeatureSet>(row[f]) << f;
      const std::size_t *rest = row.data() + op.spec->features.size();
      jobs.add_default(*op.spec, features, dtypes[rest[0]], kLayouts[rest[1]], kArchitectures[rest[2]],
                       kStaticSamples[turn++ % kStaticSamples.size()]);
    }
  }
  jobs.check_all();
}

// Every one on sm_90a; elsewhere samples of each path, which tests/matrix has in full.
TEST_CASE("all features of every candidate compile without spills for sm_90a, some for each other architecture") {
  CompileJobs jobs;
  for (const ops::Op &op : ops::all_ops()) {
    const FeatureSet all = op.spec->all_features();
    jobs.add_candidates_in_turn(*op.spec, all, "sm_90a", 128, 0);
    jobs.add_candidates_in_turn(*op.spec, all, "sm_80", 128, 1, 3);
    jobs.add_candidates_in_turn(*op.spec, all, "sm_100a", 48, 0, 6);
    jobs.add_candidates_in_turn(*op.spec, all, "sm_89", 320, 0, 7);
    jobs.add_candidates_in_turn(*op.spec, all, "sm_120a", 96, 1, 6);
  }
  jobs.check_all();
}

TEST_CASE("the ceilings' kernels compile for every architecture without a word") {
  CompileJobs jobs;
  jit::KernelSources sources("");
  const std::string &source = sources.expanded(std::string(tune::kCeilingsSource));
  for (const std::string_view name : kArchitectures) {
    CAPTURE(name);
    CHECK(jobs.compile_log(source, cuda::parse_architecture(name)) == "");
  }
}
