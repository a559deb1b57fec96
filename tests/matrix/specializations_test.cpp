// The full matrix: every feature set, dtype, layout class, architecture and kind of static size at the default config;
// all features of every candidate; every candidate with the other feature sets by turns. Tens of minutes on 16 cores:
// under the label `matrix`, not in CI. Less of it:
//   MSJ_MATRIX_PART=3/20             the third of twenty parts alone, of which each has some of all
//   MSJ_MATRIX_OPS=a,b               these ops alone
//   MSJ_MATRIX_ARCHITECTURES=sm_90a  these architectures alone
#include <doctest/doctest.h>

#include <cstdlib>
#include <sstream>

#include "support/compile_jobs.h"

using namespace msj;
using namespace msj::testing;

namespace {

constexpr std::array<std::string_view, 6> kArchitectures = {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"};
constexpr std::array<std::int64_t, 10> kStatics = {16, 48, 64, 96, 128, 256, 320, 768, 1024, 4096};

// Whether the variable is unset, or a list with the word in it.
bool is_wanted(const char *variable, std::string_view word) {
  const char *list = std::getenv(variable);
  if (list == nullptr) return true;
  std::istringstream words(list);
  for (std::string one; std::getline(words, one, ',');) {
    if (one == word) return true;
  }
  return false;
}

template <typename Visit>
void for_each_wanted(const Visit &visit) {
  std::size_t visited = 0;
  for (const ops::Op &op : ops::all_ops()) {
    for (const std::string_view architecture : kArchitectures) {
      if (!is_wanted("MSJ_MATRIX_OPS", op.spec->name)) continue;
      if (!is_wanted("MSJ_MATRIX_ARCHITECTURES", architecture)) continue;
      ++visited;
      visit(*op.spec, architecture);
    }
  }
  CHECK_MESSAGE(visited > 0, "MSJ_MATRIX_OPS or MSJ_MATRIX_ARCHITECTURES leaves nothing to compile");
}

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
  for_each_wanted([](const OpSpec &op, std::string_view architecture) {
    CompileJobs jobs;
    for (const auto &own : own_dtypes(op)) {
      for (const Layout layout : kLayouts) {
        for (const FeatureSet features : all_feature_sets(op)) {
          for (const std::int64_t statics : kStaticSamples) {
            jobs.add_default(op, features, own, layout, architecture, statics);
          }
        }
      }
    }
    check_part(jobs);
  });
}

TEST_CASE("all features of every candidate compile without spills at every kind of static size") {
  for_each_wanted([](const OpSpec &op, std::string_view architecture) {
    CompileJobs jobs;
    for (const auto &own : own_dtypes(op)) {
      for (const std::int64_t statics : kStatics) {
        jobs.add_candidates(op, op.all_features(), own, architecture, statics);
      }
    }
    check_part(jobs);
  });
}

TEST_CASE("every candidate compiles without spills with every feature set, each at one kind of static size") {
  for_each_wanted([](const OpSpec &op, std::string_view architecture) {
    CompileJobs jobs;
    std::size_t turn = 0;
    for (const FeatureSet features : all_feature_sets(op)) {
      jobs.add_candidates_in_turn(op, features, architecture, kStatics[turn % kStatics.size()], turn);
      ++turn;
    }
    check_part(jobs);
  });
}
