// The features are real: for one config and layout class, no two feature sets of an op have the same machine code.
#include <doctest/doctest.h>

#include "support/compile_jobs.h"
#include "support/cubin_code.h"

using namespace msj;
using namespace msj::testing;

TEST_CASE("no two feature sets have the same machine code") {
  for (const ops::Op &op : ops::all_ops()) {
    CAPTURE(op.spec->name);
    CompileJobs jobs;
    for (const FeatureSet features : all_feature_sets(*op.spec)) {
      jobs.add_default(*op.spec, features, own_dtypes(*op.spec).front(), Layout::aligned16, "sm_90a", 128);
    }
    std::set<std::string> distinct;
    for (const std::string &cubin : jobs.cubins()) {
      std::string code;
      for (const auto &[name, bytes] : code_sections(cubin)) code += name + bytes;
      CHECK_FALSE(code.empty());
      distinct.insert(code);
    }
    CHECK(distinct.size() == jobs.size());
  }
}
