#include "cli/regret.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/failure.h"

namespace msj::cli {

std::string config_text(const Json &config) {
  auto text = config.at("path").get<std::string>();
  for (const auto &[tunable, value] : config.at("tunables").items()) {
    text += fmt::format(" {}={}", tunable, value.get<int>());
  }
  return text;
}

Regret regret_of(const std::string &what, const Json &measurement) {
  const Json &shared = measurement.at("config");
  const Json *of_shared = nullptr;
  const Json *best = nullptr;
  const auto time = [](const Json &candidate) { return candidate.at("milliseconds").get<double>(); };
  for (const Json &candidate : measurement.at("candidates")) {
    if (candidate.contains("rejected")) continue;
    if (candidate.at("config") == shared) of_shared = &candidate;
    if (best == nullptr || time(candidate) < time(*best)) best = &candidate;
  }
  if (of_shared == nullptr) {
    throw Failure(fmt::format("{}: the config that is launched, {}, could not be timed", what, config_text(shared)));
  }
  return {what,
          time(*of_shared),
          time(*best),
          config_text(shared),
          config_text(best->at("config")),
          measurement.value("source", ""),
          std::max(of_shared->at("dispersion").get<double>(), best->at("dispersion").get<double>()),
          of_shared->value("rounds", std::int64_t{0})};
}

RegretSummary summary_of(std::span<const Regret> regrets) {
  if (regrets.empty()) return {};
  std::vector<double> ratios;
  for (const Regret &regret : regrets) ratios.push_back(regret.ratio());
  std::ranges::sort(ratios);
  const std::size_t middle = ratios.size() / 2;
  const double median = ratios.size() % 2 == 1 ? ratios[middle] : (ratios[middle - 1] + ratios[middle]) / 2;
  return {median, ratios.back()};
}

}  // namespace msj::cli
