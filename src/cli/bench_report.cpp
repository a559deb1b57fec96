#include "cli/bench_report.h"

#include <fmt/ranges.h>

#include <set>

namespace msj::cli {
namespace {

std::string milliseconds(std::optional<double> value) { return value ? fmt::format("{:.4f}", *value) : "-"; }

Json or_null(std::optional<double> value) { return value ? Json(*value) : Json(); }

std::optional<double> read_ms(const BenchRow &row) {
  if (!row.ceilings) return std::nullopt;
  return row.ceilings->read_ms;
}

// The first that is known.
std::optional<double> empty_ms(const std::vector<BenchRow> &rows) {
  for (const BenchRow &row : rows) {
    if (row.ceilings) return row.ceilings->empty_ms;
  }
  return std::nullopt;
}

// Of all rows, in the alphabet's order.
std::set<std::string> peers_of(const std::vector<BenchRow> &rows) {
  std::set<std::string> names;
  for (const BenchRow &row : rows) {
    for (const auto &[peer, ms] : row.peers) names.insert(peer);
  }
  return names;
}

Json case_json(const BenchCase &of) {
  return {{"op", of.op->name},
          {"shape", of.shape},
          {"sizes", to_json(*of.op, of.sizes)},
          {"dtype", name(of.dtype)},
          {"features", of.op->feature_names(of.features)}};
}

Json row_json(const BenchRow &row) {
  Json json = case_json(row.of);
  json["time_ms"] = row.time.shared_ms;
  json["dispersion"] = row.time.dispersion;
  json["rounds"] = row.rounds;
  const auto timed = [&](auto BenchCeilings::*what) { return row.ceilings ? Json((*row.ceilings).*what) : Json(); };
  json["empty_ms"] = timed(&BenchCeilings::empty_ms);
  json["read_ms"] = timed(&BenchCeilings::read_ms);
  json["loads_ms"] = timed(&BenchCeilings::loads_ms);
  json["bulk_ms"] = row.ceilings ? or_null(row.ceilings->bulk_ms) : Json();
  json["read_bytes"] = timed(&BenchCeilings::read_bytes);
  json["multiply_adds"] = timed(&BenchCeilings::multiply_adds);
  json["matrix_ms"] = or_null(row.matrix_ms());
  json["floor_ms"] = or_null(row.floor_ms());
  json["efficiency"] = or_null(row.efficiency());
  json["least_efficiency"] = or_null(row.least_efficiency());
  json["config"] = row.time.shared;
  json["source"] = row.time.source;
  json["best_config"] = row.time.best;  // of this very shape
  json["best_ms"] = row.time.best_ms;
  json["peers"] = row.peers;
  return json;
}

}  // namespace

std::string efficiency_text(const BenchRow &row) {
  if (const auto known = row.efficiency()) return fmt::format("{:.1f} %", 100 * *known);
  const auto least = row.matrix_rate ? std::nullopt : row.least_efficiency();
  return least ? fmt::format("≥ {:.1f} %", 100 * *least) : "-";
}

std::string bench_text(const BenchReport &report) {
  if (report.rows.empty()) return "";
  const std::set<std::string> peers = peers_of(report.rows);
  std::vector<std::vector<std::string>> rows = {
      {"op", "shape", "dtype", "read", "matrix", "floor", "time", "of floor"}};
  for (const std::string &peer : peers) rows.front().push_back(peer);
  for (const char *last : {"features", "config"}) rows.front().emplace_back(last);
  for (const BenchRow &row : report.rows) {
    auto &cells = rows.emplace_back(
        std::vector<std::string>{row.of.op->name, row.of.shape, std::string(name(row.of.dtype)),
                                 milliseconds(read_ms(row)), milliseconds(row.matrix_ms()),
                                 milliseconds(row.floor_ms()), milliseconds(row.time.shared_ms), efficiency_text(row)});
    for (const std::string &peer : peers) {
      const auto found = row.peers.find(peer);
      cells.push_back(found == row.peers.end() ? "-" : milliseconds(found->second));
    }
    cells.push_back(row.of.features == 0 ? "none" : row.of.features_text());
    cells.push_back(fmt::format("{} ({})", row.time.shared, row.time.source));
  }
  std::string text = report.rows.front().environment + ":";
  if (const auto empty = empty_ms(report.rows)) {
    text += fmt::format(" empty launch {:.4f} ms", *empty);
  } else {
    text += " ceilings are not known";
  }
  if (const auto rate = read_rate(report.rows)) text += fmt::format("; fastest read {:.2f} TB/s", *rate);
  for (const auto &[dtype, rate] : matrix_rates(report.rows)) {
    text += fmt::format("; {} products {:.0f} TFLOP/s", dtype, rate);
  }
  return text + "\nmilliseconds, medians, cold L2, random data\n" + table(std::move(rows));
}

Json bench_json(const BenchReport &report, const msj_counters &counters) {
  Json json = {{"schema", "maxsim-jit/bench/1"},
               {"environment", report.rows.empty() ? Json() : Json(report.rows.front().environment)},
               {"least_rounds", report.least_rounds},
               {"seconds", report.seconds},
               {"read_terabytes_per_second", or_null(read_rate(report.rows))},
               {"matrix_tflops", matrix_rates(report.rows)}};
  for (const char *list : {"rows", "failed", "left_out"}) json[list] = Json::array();
  for (const BenchRow &row : report.rows) json["rows"].push_back(row_json(row));
  for (const BenchFailure &failed : report.failed) {
    Json &entry = json["failed"].emplace_back(case_json(failed.of));
    entry["status"] = failed.status;
    entry["message"] = failed.sentence;
  }
  for (const BenchCase &of : report.left_out) json["left_out"].push_back(case_json(of));
  json["counters"] = to_json(counters);
  return json;
}

}  // namespace msj::cli
