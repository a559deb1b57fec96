// The full matrix: every feature set, dtype, layout class, architecture and kind of static size at the default config;
// and all features of every candidate. Tens of minutes: under the label `matrix`, not in CI.
#include <doctest/doctest.h>

#include "support/compile_jobs.h"

using namespace msj;
using namespace msj::testing;

namespace {

constexpr std::array<std::string_view, 6> kArchitectures = {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"};
constexpr std::array<std::int64_t, 10> kStatics = {16, 48, 64, 96, 128, 256, 320, 768, 1024, 4096};

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
      jobs.check_all();
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
      jobs.check_all();
    }
  }
}
