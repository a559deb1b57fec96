// Many specializations compiled on all cores, to see that each compiles and that none spills registers.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/counters.h"
#include "base/error.h"
#include "cuda/architecture.h"
#include "cuda/nvrtc.h"
#include "support/op_calls.h"
#include "support/specialization.h"
#include "tune/space.h"

namespace msj::testing {

// Static sizes that meet each rule of rounding and each side of the kernels' choices.
inline constexpr std::array<std::int64_t, 5> kStaticSamples = {128, 16, 48, 320, 1024};

// What ptxas says under --warn-on-spills: "Registers are spilled to local memory in function …".
[[nodiscard]] inline bool reports_spills(const std::string &log) { return log.find("spill") != std::string::npos; }

class CompileJobs {
 public:
  // The default config of the call's bucket.
  void add_default(const OpSpec &op, FeatureSet features, const std::vector<DType> &own, Layout layout,
                   std::string_view architecture_name, std::int64_t statics) {
    const cuda::Architecture architecture = cuda::parse_architecture(architecture_name);
    const auto key = key_of(op, own, statics);
    const auto configs = tune::default_configs(tune::CandidateSpace::embedded(op), key, architecture.limits);
    jobs_.push_back(specialization_of(key, configs.of(layout), features, layout, architecture));
  }

  // Every candidate that the architecture admits for some dtypes, in every layout class that it takes, once each: with
  // one of the dtypes that admit it, another one for each `turn`. With a `step`, every so many of each path alone, from
  // where the turn says: at least one.
  void add_candidates_in_turn(const OpSpec &op, FeatureSet features, std::string_view architecture_name,
                              std::int64_t statics, std::size_t turn, std::size_t step = 1) {
    CompileJobs every;
    for (const auto &own : own_dtypes(op)) every.add_candidates(op, features, own, architecture_name, statics);
    using Alike = std::pair<std::string, std::vector<jit::Specialization>>;  // a config and layout class
    std::map<std::string, std::vector<Alike>> paths;
    for (jit::Specialization &job : every.jobs_) {
      const std::string name = to_string(job.config) + std::string(msj::name(job.layout));
      std::vector<Alike> &groups = paths[job.config.path];
      auto group = std::find_if(groups.begin(), groups.end(), [&](const auto &known) { return known.first == name; });
      if (group == groups.end()) group = groups.insert(groups.end(), {name, {}});
      group->second.push_back(std::move(job));
    }
    std::size_t kept = turn;
    for (auto &[path, groups] : paths) {
      for (std::size_t i = turn % std::min(step, groups.size()); i < groups.size(); i += step) {
        std::vector<jit::Specialization> &alike = groups[i].second;
        jobs_.push_back(std::move(alike[kept++ % alike.size()]));
      }
    }
  }

  // Every candidate that the architecture admits, in every layout class that it takes.
  void add_candidates(const OpSpec &op, FeatureSet features, const std::vector<DType> &own,
                      std::string_view architecture_name, std::int64_t statics) {
    const cuda::Architecture architecture = cuda::parse_architecture(architecture_name);
    const auto key = key_of(op, own, statics);
    const auto admission = tune::admit(tune::CandidateSpace::embedded(op), key, architecture.limits);
    CHECK_FALSE(admission.admitted.empty());
    for (const auto &[config, layout] : admission.admitted) {
      jobs_.push_back(specialization_of(key, config, features, layout, architecture));
    }
  }

  [[nodiscard]] std::size_t size() const { return jobs_.size(); }

  // Keeps jobs first, first + step, ...
  void thin(std::size_t first, std::size_t step) {
    std::vector<jit::Specialization> kept;
    for (std::size_t i = first; i < jobs_.size(); i += step) kept.push_back(std::move(jobs_[i]));
    jobs_ = std::move(kept);
  }

  // Compiles all of them; one failed check for each that does not compile or spills.
  void check_all() {
    std::vector<std::string> problems(jobs_.size());
    for_each_job([&](std::size_t job) { problems[job] = problem_of(jobs_[job]); });
    for (const std::string &problem : problems) CHECK(problem == "");
    MESSAGE(jobs_.size() << " specializations compiled");
  }

  // The cubins of all of them.
  [[nodiscard]] std::vector<std::string> cubins() {
    std::vector<std::string> all(jobs_.size());
    for_each_job([&](std::size_t job) {
      const std::string source = jit::translation_unit(jobs_[job], sources_);
      all[job] = nvrtc_->compile(source, "test.cu", jobs_[job].architecture, jit::compile_options(), counters_).cubin;
    });
    return all;
  }

  [[nodiscard]] std::string compile_log(const std::string &source, const cuda::Architecture &architecture) {
    return nvrtc_->compile(source, "test.cu", architecture, jit::compile_options(), counters_).log;
  }

 private:
  template <typename Body>
  void for_each_job(const Body &body) {
    std::atomic<std::size_t> next{0};
    std::vector<std::jthread> workers;
    for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) {
      workers.emplace_back([&] {
        for (std::size_t job = next++; job < jobs_.size(); job = next++) body(job);
      });
    }
  }

  [[nodiscard]] static tune::AutotuneKey key_of(const OpSpec &op, const std::vector<DType> &own, std::int64_t statics) {
    const auto rules = tune::BucketRules::parse(tune::BucketRules::embedded());
    return {op, rules.bucket(op, small_sizes(op, statics)), tune::DtypeTuple(op, own)};
  }

  [[nodiscard]] std::string problem_of(const jit::Specialization &job) {
    try {
      const std::string log = compile_log(jit::translation_unit(job, sources_), job.architecture);
      return log.empty() ? "" : job.key() + ": " + log;  // no warning of any kind
    } catch (const Error &error) {
      return job.key() + ": " + error.what();
    }
  }

  std::vector<jit::Specialization> jobs_;
  jit::KernelSources sources_{""};
  Counters counters_;
  std::shared_ptr<const cuda::Nvrtc> nvrtc_ = cuda::Nvrtc::load({});
};

}  // namespace msj::testing
