// DESIGN, invariant 5: what a sweep times follows from the bucket alone; the first caller's sizes, features, layout and
// buffers leave no trace in the entry.
#include <doctest/doctest.h>

#include <algorithm>

#include "support/child_task.h"
#include "support/session.h"
#include "support/tiny_kernels.h"
#include "tune/bucket.h"

using namespace msj;
using namespace msj::testing;

namespace {

// The least and the largest sizes of the bucket that `sizes` are in.
std::pair<Sizes, Sizes> ends_of_bucket(const OpSpec &op, const Sizes &sizes) {
  const auto rules = tune::BucketRules::parse(tune::BucketRules::embedded());
  const auto bucket = rules.bucket(op, sizes);
  std::pair<Sizes, Sizes> ends{sizes, sizes};
  for (std::size_t i = 0; i < op.sizes.size(); ++i) {
    if (bucket.edges[i] == 0) continue;  // takes no part
    const auto stays = [&](std::int64_t value) {
      Sizes other = sizes;
      other[i] = value;
      return rules.bucket(op, other) == bucket;
    };
    while (ends.first[i] > 1 && stays(ends.first[i] - 1)) --ends.first[i];
    while (ends.second[i] < op.sizes[i].max && stays(ends.second[i] + 1)) ++ends.second[i];
  }
  return ends;
}

std::string only_entry(const std::string &cache) {
  REQUIRE(entry_files(cache).size() == 1);
  return read_text(entry_files(cache).front());
}

}  // namespace

TEST_CASE("child of representative_problem" * doctest::skip()) { run_child_task(); }

TEST_CASE("two processes that start at opposite ends of a bucket write the same entry") {
  const TinyKernels kernels;
  for (const ops::Op &op : ops::all_ops()) {
    CAPTURE(op.spec->name);
    const ScratchDirectory scratch;
    CallShape shape = small_call(*op.spec);
    const auto [least, largest] = ends_of_bucket(*op.spec, shape.sizes);
    REQUIRE(least != largest);
    std::vector<std::string> entries;
    const auto sweep_in_child = [&](const Sizes &sizes, FeatureSet features, Strides streamed) {
      const std::string name = std::to_string(entries.size());
      shape.sizes = sizes;
      shape.streamed = streamed;
      const ChildTask task{shape, {features}, scratch / ("cache" + name), scratch / ("report" + name)};
      const ChildReport report = ChildRun("child of representative_problem", task).wait();
      REQUIRE(report.status == 0);
      CHECK(report.sweeps == 1);
      entries.push_back(only_entry(task.cache));
    };
    sweep_in_child(least, 0, Strides::contiguous);
    sweep_in_child(largest, op.spec->all_features(), Strides::odd_rows);
    CHECK(entries[0] == entries[1]);
  }
}

TEST_CASE("the timer is told of the bucket's problem, not of the caller's") {
  const TinyKernels kernels;
  for (const ops::Op &op : ops::all_ops()) {
    CAPTURE(op.spec->name);
    CallShape shape = small_call(*op.spec);
    const auto [least, largest] = ends_of_bucket(*op.spec, shape.sizes);
    for (const Sizes &sizes : {least, largest}) {
      FakeGpu gpu;
      const ScratchDirectory cache;
      std::vector<tune::SweepProblem> problems;
      std::size_t aligned = 0;
      std::size_t any = 0;
      Session session(cache.path(), "on", [&](const tune::SweepProblem &problem, const tune::Trial &trial) {
        problems.push_back(problem);
        ++(trial.layout == Layout::aligned16 ? aligned : any);
        return 1.0;
      });
      shape.sizes = sizes;
      shape.features = op.spec->all_features();
      session.must_run(shape);
      REQUIRE_FALSE(problems.empty());
      const auto rules = tune::BucketRules::parse(tune::BucketRules::embedded());
      const auto bucket = rules.bucket(*op.spec, shape.sizes);
      const tune::DtypeTuple dtypes(*op.spec, shape.own);
      for (const tune::SweepProblem &problem : problems) {
        CHECK(problem.sizes == rules.representative(bucket, dtypes.all()));
        CHECK(problem.static_sizes == bucket.static_sizes());
        CHECK(problem.features == op.spec->representative_features);
        CHECK(problem.dtypes == dtypes);
      }
      // Each candidate in every class that it takes.
      const auto admission = session.admission(shape);
      const auto count = [&](Layout layout) {
        return static_cast<std::size_t>(
            std::count_if(admission.admitted.begin(), admission.admitted.end(),
                          [&](const tune::Admitted &admitted) { return admitted.layout == layout; }));
      };
      CHECK(aligned == count(Layout::aligned16));
      CHECK(any == count(Layout::any));
      CHECK(any > 0);
    }
  }
}
