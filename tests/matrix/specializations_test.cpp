// The full matrix: every feature set, dtype, layout class, architecture and kind of static size at the default config;
// and all features of every candidate. Tens of minutes on 16 cores: under the label `matrix`, not in CI.
// MSJ_MATRIX_PART=3/20: the third of twenty parts alone, of which each has some of all.
#include <doctest/doctest.h>

#include <cstdlib>
#include <sstream>

#include "support/compile_jobs.h"

using namespace msj;
using namespace msj::testing;

namespace {

constexpr std::array<std::string_view, 6> kArchitectures = {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"};
constexpr std::array<std::int64_t, 10> kStatics = {16, 48, 64, 96, 128, 256, 320, 768, 1024, 4096};

void check_part(CompileJobs &jobs) {
  std::size_t part = 1;
  std::size_t parts = 1;
  if (const char *wanted = std::getenv("MSJ_MATRIX_PART"); wanted != nullptr) {
    char slash = 0;
    std::istringstream text(wanted);
    REQUIRE((text >> part >> slash >> parts && slash == '/'));
  }
  REQUIRE((part >= 1 && part <= parts));
  jobs.thin(part - 1, parts);
  jobs.check_all();
}

}  // namespace

TEST_CASE("every specialization at the default config compiles without spills") {
  for (const ops::Op &op : ops::all_ops()) {
    for (const std::string_view architecture : kArchitectures) {
      CompileJobs jobs;
      for (const auto &own : own_dtypes(*op.spec)) {
        for (const Layout layout : kLayouts) {
          for (const FeatureSet features : all_feature_sets(*op.spec)) {
            for (const std::int64_t statics : kStaticSamples) {
              jobs.add_default(*op.spec, features, own, layout, architecture, statics);
            }
          }
        }
      }
      check_part(jobs);
    }
  }
}

TEST_CASE("all features of every candidate compile without spills at every kind of static size") {
  for (const ops::Op &op : ops::all_ops()) {
    for (const std::string_view architecture : kArchitectures) {
      CompileJobs jobs;
      for (const auto &own : own_dtypes(*op.spec)) {
        for (const std::int64_t statics : kStatics) {
          jobs.add_candidates(*op.spec, op.spec->all_features(), own, architecture, statics);
        }
      }
      check_part(jobs);
    }
  }
}
