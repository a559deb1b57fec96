// `audit`: is one winner for all feature sets, and for all sizes of a bucket, the right one? Every feature set is timed
// with every candidate; its regret is the time of the shared winner over that of its own best, minus 1. Then the
// winner's regret at the least, middle and largest sizes of the bucket, with the features that sweeps are done with.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cli/call_builder.h"
#include "cli/commands.h"
#include "cli/failure.h"
#include "cli/output.h"
#include "cli/regret.h"
#include "cli/session.h"
#include "cli/warm_request.h"

namespace msj::cli {
namespace {

struct AuditOptions {
  std::string op;
  std::string sizes;
  std::string dtype;
  std::string device = "cuda";
  bool pairs = false;
  bool json = false;
};

// None, all, each alone, and all but each.
std::vector<FeatureSet> pairs_of(const OpInfo &op) {
  const FeatureSet all = (FeatureSet{1} << op.features.size()) - 1;
  std::set<FeatureSet> sets = {0, all};
  for (std::size_t f = 0; f < op.features.size(); ++f) {
    sets.insert(FeatureSet{1} << f);
    sets.insert(all & ~(FeatureSet{1} << f));
  }
  return {sets.begin(), sets.end()};
}

std::string set_text(const OpInfo &op, FeatureSet features) {
  return features == 0 ? "none" : fmt::format("{}", fmt::join(op.feature_names(features), ","));
}

std::string percent(double ratio) { return fmt::format("{:.1f} %", 100 * ratio); }

struct Audit {
  std::vector<Regret> features;
  std::vector<Regret> sizes;
};

// Sizes as one of the measurement's places in the bucket gives them. Static ones stay as asked for: the bucket has them
// rounded up, which may be another layout class with another winner.
SizeMap sizes_from(const OpInfo &op, const Json &place, const SizeMap &asked) {
  SizeMap sizes;
  for (const SizeInfo &size : op.sizes) {
    sizes[size.name] = size.is_static ? asked.at(size.name) : place.at(size.name).get<std::int64_t>();
  }
  return sizes;
}

// Without a sweep and an entry there is no winner, and the regret is the default config's.
void note_default(const Audit &audit, Console &console) {
  const bool is_default =
      std::ranges::any_of(audit.features, [](const Regret &row) { return row.source == "default"; });
  if (!is_default) return;
  console.note(
      "'shared' is the untuned default config, no sweep's winner: no entry serves these sizes, or "
      "MAXSIM_JIT_TUNE is off");
}

Audit run_all(const OpInfo &op, const AuditOptions &options, const maxsim_jit::Context &context, Console &console) {
  const SizeMap sizes = parse_sizes(op, options.sizes);
  const DTypeMap dtypes = parse_dtypes(op, options.dtype);
  const std::int32_t device = parse_device(options.device);
  if (device == MSJ_DEVICE_CPU) usage_error("--device is 'cpu'; audit accepts cuda and cuda:N");
  const auto sets = options.pairs ? pairs_of(op) : parse_features(op, "all");
  const auto measured = [&](const SizeMap &at, FeatureSet features) {
    return parse_library_json(maxsim_jit::measure(context, shapes_only_call(op, at, dtypes, features, device)));
  };
  constexpr const char *kPlaces[] = {"least", "middle", "largest"};
  const auto total = static_cast<std::int64_t>(sets.size() + std::size(kPlaces));
  Audit audit;
  Json last;
  std::int64_t done = 0;
  for (const FeatureSet features : sets) {
    last = measured(sizes, features);
    audit.features.push_back(regret_of(set_text(op, features), last));
    console.progress("audit", ++done, total);
  }
  for (const char *place : kPlaces) {
    const SizeMap at = sizes_from(op, last.at("bucket").at(place), sizes);
    std::string what = place;
    for (const auto &[name, size] : at) what += fmt::format(" {}={}", name, size);
    audit.sizes.push_back(regret_of(what, measured(at, op.representative_features)));
    console.progress("audit", ++done, total);
  }
  console.clear_bar();
  return audit;
}

Json to_json(const std::vector<Regret> &regrets, const char *name) {
  Json json = Json::array();
  for (const Regret &regret : regrets) {
    json.push_back({{name, regret.what},
                    {"regret", regret.ratio()},
                    {"shared_ms", regret.shared_ms},
                    {"best_ms", regret.best_ms},
                    {"dispersion", regret.dispersion},
                    {"shared", regret.shared},
                    {"source", regret.source},
                    {"best", regret.best}});
  }
  return json;
}

void print_report(const AuditOptions &options, const OpInfo &op, const Audit &audit) {
  const RegretSummary of_features = summary_of(audit.features);
  const RegretSummary of_sizes = summary_of(audit.sizes);
  if (options.json) {
    print_json({{"schema", "maxsim-jit/audit/1"},
                {"op", op.name},
                {"features", to_json(audit.features, "features")},
                {"sizes", to_json(audit.sizes, "sizes")},
                {"median_regret", of_features.median},
                {"worst_regret", of_features.worst},
                {"worst_regret_of_sizes", of_sizes.worst},
                {"features_of_sizes", set_text(op, op.representative_features)}});
    return;
  }
  std::vector<std::vector<std::string>> rows = {{"", "regret", "shared ms", "best ms", "noise", "its own best"}};
  for (const auto *regrets : {&audit.features, &audit.sizes}) {
    for (const Regret &regret : *regrets) {
      rows.push_back({regret.what, percent(regret.ratio()), fmt::format("{:.4f}", regret.shared_ms),
                      fmt::format("{:.4f}", regret.best_ms), percent(regret.dispersion),
                      regret.best == regret.shared ? "the shared one" : regret.best});
    }
  }
  print_text(table(std::move(rows)));
  print_text(fmt::format("shared: {} ({})\nregret over {} feature sets: median {}, worst {}; over sizes: worst {}\n",
                         audit.features.front().shared, audit.features.front().source, audit.features.size(),
                         percent(of_features.median), percent(of_features.worst), percent(of_sizes.worst)));
}

int run_audit(const AuditOptions &options, const std::vector<OpInfo> &ops, Console &console) {
  const OpInfo &op = find_op(ops, options.op);
  const maxsim_jit::Context context = make_context(console);
  const Audit audit = run_all(op, options, context, console);
  note_default(audit, console);
  print_report(options, op, audit);
  return kExitOk;
}

}  // namespace

Command add_audit(CLI::App &app, const std::vector<OpInfo> &ops, Console &console) {
  auto options = std::make_shared<AuditOptions>();
  CLI::App *command =
      app.add_subcommand("audit", "Time every candidate for every feature set: what does one shared winner cost?");
  command->add_option("--op", options->op, "the op, as in dense_forward")->required();
  command->add_option("--sizes", options->sizes, "its sizes: Nq=1,Nd=1000,Lq=32,Ld=300,d=128")->required();
  command->add_option("--dtype", options->dtype, "dtype of the matrices, as for warm")->required();
  command->add_flag("--pairs", options->pairs, "only no feature, all, each alone, and all but each");
  command->add_option("--device", options->device, "cuda or cuda:N")->capture_default_str();
  command->add_flag("--json", options->json, "one JSON object on stdout (maxsim-jit/audit/1)");
  return {command, [options, &ops, &console] { return run_audit(*options, ops, console); }};
}

}  // namespace msj::cli
