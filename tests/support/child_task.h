// What a child process is asked to do: run an op with some feature sets on a cache, and report what it took.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "support/child_process.h"
#include "support/session.h"

namespace msj::testing {

struct ChildTask {
  CallShape shape;  // its features are those of `sets`
  std::vector<FeatureSet> sets = {0};
  std::string cache;
  std::string report;      // the file to write
  std::string start = {};  // wait until this file is there; "": don't
};

struct ChildReport {
  int status = -1;  // exit status of the process
  std::int64_t nvrtc_invocations = -1;
  std::int64_t cubin_hits_disk = -1;
  std::int64_t sweeps = -1;
  std::int64_t launches = -1;
  bool nvrtc_mapped = true;
};

[[nodiscard]] inline std::string to_text(const ChildTask &task) {
  nlohmann::json json = {{"op", task.shape.op->name},       {"sets", task.sets},    {"cache", task.cache},
                         {"report", task.report},           {"start", task.start},  {"sizes", task.shape.sizes},
                         {"streamed", task.shape.streamed}, {"own", task.shape.own}};
  return json.dump();
}

[[nodiscard]] inline ChildTask task_from(const std::string &text) {
  const auto json = nlohmann::json::parse(text);
  ChildTask task;
  task.shape.op = ops::find_op(json["op"].get<std::string>())->spec;
  task.shape.sizes = json["sizes"].get<Sizes>();
  task.shape.own = json["own"].get<std::vector<DType>>();
  task.shape.streamed = json["streamed"].get<Strides>();
  task.sets = json["sets"].get<std::vector<FeatureSet>>();
  task.cache = json["cache"];
  task.report = json["report"];
  task.start = json["start"];
  return task;
}

// In the child: the body of its test case.
inline void run_child_task() {
  const char *text = std::getenv("MSJ_TEST_TASK");
  REQUIRE(text != nullptr);
  ChildTask task = task_from(text);
  FakeGpu gpu;
  Session session(task.cache);
  while (!task.start.empty() && !std::filesystem::exists(task.start)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (const FeatureSet set : task.sets) {
    task.shape.features = set;
    session.must_run(task.shape);
  }
  const msj_counters stats = session.stats();
  const bool mapped = read_text("/proc/self/maps").find("libnvrtc") != std::string::npos;
  write_text(task.report, nlohmann::json({{"nvrtc_invocations", stats.nvrtc_invocations},
                                          {"cubin_hits_disk", stats.cubin_hits_disk},
                                          {"sweeps", stats.sweeps},
                                          {"launches", stats.launches},
                                          {"nvrtc_mapped", mapped}})
                              .dump());
}

// In the parent: starts `test_case`, whose body is run_child_task(), in a process of its own.
class ChildRun {
 public:
  ChildRun(const std::string &test_case, const ChildTask &task)
      : report_(task.report), process_(test_case, {{"MSJ_TEST_TASK", to_text(task)}}) {}

  [[nodiscard]] ChildReport wait() {
    ChildReport report;
    report.status = process_.wait();
    if (report.status != 0) return report;
    const auto json = nlohmann::json::parse(read_text(report_));
    report.nvrtc_invocations = json["nvrtc_invocations"];
    report.cubin_hits_disk = json["cubin_hits_disk"];
    report.sweeps = json["sweeps"];
    report.launches = json["launches"];
    report.nvrtc_mapped = json["nvrtc_mapped"];
    return report;
  }

 private:
  std::string report_;
  ChildProcess process_;
};

}  // namespace msj::testing
