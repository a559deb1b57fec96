// `warm`: compile and tune ahead, for the device at hand or for an architecture without any.
//
// One autotune entry serves every feature set, so that the first set of a problem (op, sizes, dtypes) pays for the
// sweep and all others cost a compile each. Hence two phases: first sets one after the other (a sweep compiles on all
// cores and wants the GPU to itself), then all other sets on all cores. Without a GPU nothing is swept, and there is
// one phase.
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>

#include "cli/call_builder.h"
#include "cli/commands.h"
#include "cli/failure.h"
#include "cli/output.h"
#include "cli/parallel.h"
#include "cli/session.h"
#include "cli/usage.h"
#include "cli/warm_request.h"

namespace msj::cli {
namespace {

struct WarmOptions {
  std::string manifest;
  std::string op;
  std::string sizes;
  std::string dtype;
  std::string features = "all";
  std::string arch;
  std::string gpu;
  std::string layout;
  std::string device = "cuda";
  int jobs = hardware_threads();
  bool json = false;
};

struct Job {
  std::size_t number;  // as the requests list them
  const WarmRequest *request;
  FeatureSet features;
};

struct FailedJob {
  Job job;
  msj_status status;
  std::string sentence;
};

std::vector<WarmRequest> requests_from(const WarmOptions &options, const std::vector<OpInfo> &ops, Console &console) {
  if (!options.manifest.empty()) {
    auto requests = read_manifest(ops, options.manifest);
    if (requests.empty()) console.note(fmt::format("{}: the manifest lists nothing to prepare", options.manifest));
    return requests;
  }
  if (options.op.empty()) usage_error("--op or --manifest is needed");
  if (options.sizes.empty()) usage_error("--sizes is needed with --op");
  if (options.dtype.empty()) usage_error("--dtype is needed with --op");
  const OpInfo &op = find_op(ops, options.op);
  return {{&op, parse_sizes(op, options.sizes), parse_dtypes(op, options.dtype), parse_features(op, options.features)}};
}

std::int32_t layout_from(const std::string &text) {
  if (text.empty()) return MSJ_LAYOUT_OF_CALL;
  if (text == "aligned16") return MSJ_LAYOUT_ALIGNED16;
  return text == "any" ? MSJ_LAYOUT_ANY : MSJ_LAYOUT_BOTH;
}

// Prepares jobs and collects what fails: one that fails does not stop the others.
class Warmer {
 public:
  Warmer(const WarmOptions &options, const maxsim_jit::Context &context, Console &console)
      : context_(context), console_(console), device_(parse_device(options.device)), threads_(options.jobs) {
    if (device_ == MSJ_DEVICE_CPU) usage_error("--device is 'cpu'; warm accepts cuda and cuda:N");
    prepare_options_ = {options.arch, options.gpu, layout_from(options.layout)};
  }

  void run(const std::vector<WarmRequest> &requests) {
    std::vector<Job> first;  // one of each problem: its sweep has the GPU, and its compiles all threads
    std::vector<Job> rest;
    std::size_t number = 0;
    std::set<std::tuple<const OpInfo *, SizeMap, DTypeMap>> problems;
    for (const WarmRequest &request : requests) {
      const bool known = !problems.emplace(request.op, request.sizes, request.dtypes).second;
      for (const FeatureSet features : request.feature_sets) {
        const bool sweeps = prepare_options_.arch.empty() && !known && features == request.feature_sets.front();
        (sweeps ? first : rest).push_back({number++, &request, features});
      }
    }
    total_ = static_cast<std::int64_t>(first.size() + rest.size());
    prepare_all(first, 1);
    prepare_all(rest, threads_);
    console_.clear_bar();
    // Threads fail in any order; reports do not differ from run to run.
    std::ranges::sort(failed_, {}, [](const FailedJob &failed) { return failed.job.number; });
  }

  [[nodiscard]] std::int64_t prepared() const { return done_ - static_cast<std::int64_t>(failed_.size()); }
  [[nodiscard]] const std::vector<FailedJob> &failed() const { return failed_; }

 private:
  void prepare_all(const std::vector<Job> &jobs, int threads) {
    parallel_for(static_cast<std::int64_t>(jobs.size()), threads, [&](std::int64_t i) {
      const Job &job = jobs[static_cast<std::size_t>(i)];
      prepare_one(job);
      const std::scoped_lock lock(mutex_);
      console_.progress("warm", ++done_, total_);
    });
  }

  void prepare_one(const Job &job) {
    const WarmRequest &request = *job.request;
    try {
      const auto call = shapes_only_call(*request.op, request.sizes, request.dtypes, job.features, device_);
      maxsim_jit::prepare(context_, call, prepare_options_);
    } catch (const maxsim_jit::Error &error) {
      const std::scoped_lock lock(mutex_);
      failed_.push_back({job, error.status(), error.what()});
    }
  }

  const maxsim_jit::Context &context_;
  Console &console_;
  std::int32_t device_;
  int threads_;
  maxsim_jit::PrepareOptions prepare_options_;
  std::int64_t total_ = 0;
  std::mutex mutex_;  // guards what follows
  std::int64_t done_ = 0;
  std::vector<FailedJob> failed_;
};

// The autotune entries that the cache now holds for the requests' ops; shipped ones do not count.
std::int64_t count_entries(const maxsim_jit::Context &context, const std::vector<WarmRequest> &requests) {
  std::set<std::string> ops;
  for (const WarmRequest &request : requests) ops.insert(request.op->name);
  std::int64_t count = 0;
  for (const std::string &op : ops) {
    const Json document = parse_library_json(context.inspect(op));
    for (const Json &entry : document.at("entries")) count += entry.value("source", "") == "tuned" ? 1 : 0;
  }
  return count;
}

// What could not be kept on disk, or was evicted again, is missed by the process that it was made for.
std::string kept_text(const Json &kept) {
  const auto files = kept.at("files").get<std::int64_t>();
  const auto failed = kept.at("failed").get<std::int64_t>();
  return fmt::format("kept {} of {} cubins and entries; each of the others will be made again", files, files + failed);
}

// What the library's log has said when it happened is not said again.
void note_not_kept(const Json &kept, Console &console) {
  if (kept.at("failed") == 0 || kept.at("logged") == true) return;
  console.note(fmt::format("{}: {}", kept_text(kept), kept.at("problem").get<std::string>()));
}

Json dtypes_json(const DTypeMap &dtypes) {
  Json result = Json::object();
  for (const auto &[operand, dtype] : dtypes) result[operand] = name(dtype);
  return result;
}

Json failed_json(const FailedJob &failed) {
  const WarmRequest &request = *failed.job.request;
  return {{"op", request.op->name},
          {"sizes", to_json(*request.op, request.sizes)},
          {"dtypes", dtypes_json(request.dtypes)},
          {"features", request.op->feature_names(failed.job.features)},
          {"status", status_name(failed.status)},
          {"error", failed.sentence}};
}

// Only a device can be missing, so --arch is not given.
constexpr std::string_view kWithoutGpu = "; or name an architecture: with --arch sm_90a, say, it needs no GPU";

// Each sentence once: without a driver, say, every job fails with the same.
void note_failures(const Warmer &warmer, Console &console) {
  std::map<std::string, std::vector<const FailedJob *>> by_sentence;
  for (const FailedJob &failed : warmer.failed()) by_sentence[failed.sentence].push_back(&failed);
  for (const auto &[sentence, jobs] : by_sentence) {
    const OpInfo &op = *jobs.front()->job.request->op;
    const auto features = op.feature_names(jobs.front()->job.features);
    console.note(fmt::format("{} of {} specializations failed ({} with {}{}): {}{}", jobs.size(),
                             warmer.prepared() + static_cast<std::int64_t>(warmer.failed().size()), op.name,
                             features.empty() ? "no features" : fmt::format("{}", fmt::join(features, ", ")),
                             jobs.size() > 1 ? " and others" : "", sentence,
                             jobs.front()->status == MSJ_ERROR_NO_DRIVER ? kWithoutGpu : ""));
  }
}

void print_json_report(const WarmOptions &options, const Warmer &warmer, std::int64_t entries, const Json &kept,
                       double seconds, const msj_counters &counters) {
  Json report = {{"schema", "maxsim-jit/warm/1"}};
  report["arch"] = options.arch.empty() ? Json() : Json(options.arch);
  report["gpu"] = options.gpu.empty() ? Json() : Json(options.gpu);
  report["layout"] = options.layout.empty() ? "contiguous" : options.layout;
  report["prepared"] = warmer.prepared();
  report["failed"] = Json::array();
  for (const FailedJob &failed : warmer.failed()) report["failed"].push_back(failed_json(failed));
  report["entries"] = entries;
  report["kept"] = kept;
  report["seconds"] = seconds;
  report["counters"] = to_json(counters);
  print_json(report);
}

void print_text_report(const Warmer &warmer, std::int64_t entries, const Json &kept, double seconds,
                       const msj_counters &counters) {
  const std::int64_t all = warmer.prepared() + static_cast<std::int64_t>(warmer.failed().size());
  print_text(
      fmt::format("prepared {} of {} feature sets in {:.2f} s: {} compiled, {} read from disk, {} in memory\n"
                  "sweeps: {}, of {} candidates; autotune entries in the cache: {}\n",
                  warmer.prepared(), all, seconds, counters.nvrtc_invocations, counters.cubin_hits_disk,
                  counters.cubin_hits_memory, counters.sweeps, counters.candidates_timed, entries));
  if (kept.at("failed") != 0) print_text(kept_text(kept) + "\n");
}

int run_warm(const WarmOptions &options, const std::vector<OpInfo> &ops, Console &console) {
  if (!options.gpu.empty() && options.arch.empty()) usage_error("--gpu is given without --arch, which it narrows");
  if (!options.arch.empty()) check_arch(options.arch);
  const auto start = std::chrono::steady_clock::now();
  const auto requests = requests_from(options, ops, console);
  const maxsim_jit::Context context = make_context(console);
  Warmer warmer(options, context, console);
  warmer.run(requests);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const std::int64_t entries = count_entries(context, requests);
  const Json kept = parse_library_json(context.cache(MSJ_CACHE_PATH)).at("kept");
  note_failures(warmer, console);
  note_not_kept(kept, console);
  if (options.json) {
    print_json_report(options, warmer, entries, kept, seconds.count(), context.stats());
  } else {
    print_text_report(warmer, entries, kept, seconds.count(), context.stats());
  }
  return warmer.failed().empty() && kept.at("failed") == 0 ? kExitOk : kExitFailed;
}

}  // namespace

Command add_warm(CLI::App &app, const std::vector<OpInfo> &ops, Console &console) {
  auto options = std::make_shared<WarmOptions>();
  CLI::App *command = app.add_subcommand("warm", "Compile and tune ahead, so that no later call has to");
  auto *manifest = command->add_option("--manifest", options->manifest,
                                       "JSON file: a list of {\"op\", \"sizes\", \"dtype\", \"features\"}");
  auto *op = command->add_option("--op", options->op, "the op, as in dense_forward");
  auto *sizes = command->add_option("--sizes", options->sizes, "its sizes: Nq=1,Nd=1000,Lq=32,Ld=300,d=128");
  auto *dtype = command->add_option(
      "--dtype", options->dtype,
      fmt::format("dtype of the matrices: bf16, or q=bf16,d=bf16; accepted: {}", matrix_dtype_names(ops)));
  auto *features = command->add_option("--features", options->features,
                                       "all: every subset of the op's features; none; or one set: a,b");
  features->capture_default_str();
  for (auto *option : {op, sizes, dtype, features}) manifest->excludes(option);
  command->add_option("--arch", options->arch, "compile for this architecture (sm_90a); needs no GPU, tunes nothing");
  command->add_option("--gpu", options->gpu, "with --arch: the configs shipped for this GPU name only");
  command->add_option("--layout", options->layout, "layout class (default: that of contiguous tensors)")
      ->check(one_of({"aligned16", "any", "both"}));
  command->add_option("--device", options->device, "cuda or cuda:N")->capture_default_str();
  command->add_option("--jobs", options->jobs, "threads")->capture_default_str()->check(whole_number(1, 1024));
  command->add_flag("--json", options->json, "one JSON object on stdout (maxsim-jit/warm/1)");
  return {command, [options, &ops, &console] { return run_warm(*options, ops, console); }};
}

}  // namespace msj::cli
