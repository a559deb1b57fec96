#include "tune/entry.h"

#include <algorithm>
#include <cmath>

#include "base/bounded_json.h"
#include "base/error.h"
#include "base/hash.h"
#include "text/printable.h"
#include "tune/config_json.h"

namespace msj::tune {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxBytes = std::size_t{4} << 20;
constexpr std::size_t kMaxDepth = 8;

// ---- writing ------------------------------------------------------------------------------------------------------

// Nanoseconds are below what CUDA's events resolve.
double rounded_ms(double milliseconds) { return std::round(milliseconds * 1e6) / 1e6; }

Json key_json(const AutotuneKey &key) {
  const OpSpec &op = key.op();
  Json bucket = {{"version", key.bucket().version}};
  for (std::size_t i = 0; i < op.sizes.size(); ++i) {
    const std::int64_t edge = key.bucket().edges[i];
    if (edge == 0) continue;
    bucket[std::string(op.sizes[i].name)] = edge == kMore ? Json("more") : Json(edge);
  }
  Json dtypes = Json::array();
  for (const DType dtype : key.dtypes().all()) dtypes.push_back(name(dtype));
  return {{"op", op.name}, {"bucket", bucket}, {"dtypes", dtypes}, {"tuning_epoch", op.tuning_epoch}};
}

Json candidate_json(const CandidateRecord &record) {
  Json json = {{"config", config_to_json(record.config)}, {"layout", name(record.layout)}};
  if (!record.rejected.empty()) {
    json["rejected"] = record.rejected;
  } else {
    json["median_ms"] = rounded_ms(record.timing.median_ms);
    json["dispersion"] = std::round(record.timing.dispersion * 1e4) / 1e4;
    json["rounds"] = record.timing.rounds;
  }
  return json;
}

Json provenance_json(const Provenance &provenance) {
  return {{"driver", provenance.driver_version},
          {"nvrtc", provenance.nvrtc_version},
          {"library", provenance.library_version},
          {"source_hash", provenance.source_hash},
          {"date", provenance.date}};
}

std::string dump(const Json &json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string file_text(const Json &json) { return dump(json, 2) + "\n"; }

// Over everything but itself and the date: two sweeps that found the same differ in nothing else.
std::string checksum(Json json) {
  json.erase("checksum");
  if (const auto provenance = json.find("provenance"); provenance != json.end() && provenance->is_object()) {
    provenance->erase("date");
  }
  return hash_name(dump(json, -1));
}

// ---- reading ------------------------------------------------------------------------------------------------------

// Thrown within this file alone.
[[noreturn]] void refuse(const std::string &sentence) { throw Error(MSJ_ERROR_IO, sentence); }

const Json &field(const Json &json, const char *name) {
  const auto it = json.is_object() ? json.find(name) : json.end();
  if (it == json.end()) refuse(fmt::format("\"{}\" is missing", name));
  return *it;
}

std::string text_field(const Json &json, const char *name) {
  const Json &value = field(json, name);
  if (!value.is_string()) refuse(fmt::format("\"{}\" is no text", name));
  return value.get<std::string>();
}

std::int64_t integer_field(const Json &json, const char *name, std::int64_t least) {
  const Json &value = field(json, name);
  if (!value.is_number_integer()) refuse(fmt::format("\"{}\" is no integer", shortened(name)));
  const auto number = value.get<std::int64_t>();  // 2^63 and more wrap around to below 0, and are told as they are
  if (number < least || number > kMore - 1) refuse(fmt::format("\"{}\" is {}", shortened(name), value.dump()));
  return number;
}

int int_field(const Json &json, const char *name, int least) {
  const std::int64_t number = integer_field(json, name, least);
  if (number > std::numeric_limits<int>::max()) refuse(fmt::format("\"{}\" is {}", name, number));
  return static_cast<int>(number);
}

double number_field(const Json &json, const char *name) {
  const Json &value = field(json, name);
  if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() < 0) {
    refuse(fmt::format("\"{}\" is no number from 0", name));
  }
  return value.get<double>();
}

TileConfig config_field(const Json &json, const char *name) {
  auto config = config_from_json(field(json, name));
  if (!config) refuse(fmt::format("\"{}\" is no tile config", name));
  return std::move(*config);
}

CandidateRecord read_candidate(const Json &json) {
  CandidateRecord record;
  record.config = config_field(json, "config");
  const std::string layout = text_field(json, "layout");
  if (layout != name(Layout::aligned16) && layout != name(Layout::any)) refuse("\"layout\" is no layout class");
  record.layout = layout == name(Layout::any) ? Layout::any : Layout::aligned16;
  if (json.contains("rejected")) {
    record.rejected = text_field(json, "rejected");
    if (record.rejected.empty()) refuse("\"rejected\" gives no reason");
  } else {
    record.timing.median_ms = number_field(json, "median_ms");
    record.timing.dispersion = number_field(json, "dispersion");
    record.timing.rounds = int_field(json, "rounds", 1);
  }
  return record;
}

void check_winner(const Entry &entry, const TileConfig &config, Layout layout) {
  const bool timed = std::any_of(entry.candidates.begin(), entry.candidates.end(), [&](const CandidateRecord &record) {
    return record.rejected.empty() && record.layout == layout && record.config == config;
  });
  if (!timed) refuse(fmt::format("the winner of layout class {} is no candidate that was timed", name(layout)));
}

void check_key_shape(const Json &key) {
  const Json &bucket = field(key, "bucket");
  integer_field(bucket, "version", 1);
  for (const auto &[size, edge] : bucket.items()) {
    if (edge != "more") integer_field(bucket, size.c_str(), 1);
  }
  const Json &dtypes = field(key, "dtypes");
  if (!dtypes.is_array() || dtypes.empty()) refuse("\"dtypes\" is no list");
  for (const Json &dtype : dtypes) {
    if (!dtype.is_string() || !dtype_from(std::string_view(dtype.get_ref<const std::string &>()))) {
      refuse("\"dtypes\" holds what is no dtype");
    }
  }
}

// The sizes are an object of positive integers; which ones, the op's table says.
void check_sizes_shape(const Json &sizes) {
  if (!sizes.is_object() || sizes.empty()) refuse("\"sizes\" is no object");
  for (const auto &[size, value] : sizes.items()) integer_field(sizes, size.c_str(), 1);
}

// Everything that can be checked without a key. The checksum is of values, whatever bytes say them: those are compared
// too, so that nothing lies before, between or after them.
Entry read_entry(const Json &json, std::string_view text) {
  if (!json.is_object()) refuse("it is no JSON object");
  if (const std::string schema = text_field(json, "schema"); schema != kEntrySchema) {
    refuse(fmt::format("its schema is \"{}\", not \"{}\"", shortened(schema), kEntrySchema));
  }
  if (text_field(json, "checksum") != checksum(json)) refuse("its checksum does not match what it says");
  if (text != file_text(json)) refuse("its bytes are others than this library writes for what it says");
  Entry entry;
  const Json &key = field(json, "key");
  check_key_shape(key);
  entry.op = text_field(key, "op");
  entry.tuning_epoch = int_field(key, "tuning_epoch", 0);
  entry.environment = text_field(json, "environment");
  entry.configs = {config_field(json, "config"), config_field(json, "config_any")};
  check_sizes_shape(field(json, "sizes"));
  const Json &candidates = field(json, "candidates");
  if (!candidates.is_array()) refuse("\"candidates\" is no list");
  for (const Json &candidate : candidates) entry.candidates.push_back(read_candidate(candidate));
  for (const Layout layout : kLayouts) check_winner(entry, entry.configs.of(layout), layout);
  const Json &provenance = field(json, "provenance");
  if (!provenance.is_object()) refuse("\"provenance\" is no object");
  entry.provenance = {int_field(provenance, "driver", 0), text_field(provenance, "nvrtc"),
                      text_field(provenance, "library"), text_field(provenance, "source_hash"),
                      text_field(provenance, "date")};
  return entry;
}

// Bounded in size and depth: later steps recurse.
Json parse_bounded(std::string_view text) {
  if (text.size() > kMaxBytes) refuse(fmt::format("it has {} bytes, too many for an entry", text.size()));
  std::string why;
  Json json = parse_bounded_json(text, kMaxDepth, why);
  if (!why.empty()) refuse(why);
  return json;
}

// Whole, as long as a part of any key is: two buckets may differ in their last words.
std::string shown(const Json &part) {
  constexpr std::size_t kMost = 400;
  const std::string text = dump(part, -1);
  return text.size() <= kMost ? text : shortened(text);
}

void check_key(const Json &found, const AutotuneKey &key) {
  const Json expected = key_json(key);
  for (const auto &[part, value] : expected.items()) {
    const Json &there = field(found, part.c_str());
    if (there != value) refuse(fmt::format("its {} is {}, not {}", part, shown(there), dump(value, -1)));
  }
  if (found.size() != expected.size()) refuse("its key has more parts than this library knows");
}

Sizes read_sizes(const Json &json, const OpSpec &op) {
  Sizes sizes{};
  for (std::size_t i = 0; i < op.sizes.size(); ++i) {
    sizes[i] = integer_field(json, std::string(op.sizes[i].name).c_str(), 1);
  }
  return sizes;
}

// "" or why `read` refused; nothing else leaves it.
template <typename Read>
std::string reason_of(const Read &read) {
  try {
    read();
  } catch (const std::exception &error) {
    return error.what();
  }
  return {};
}

}  // namespace

std::string to_json(const Entry &entry, const AutotuneKey &key) {
  const OpSpec &op = key.op();
  Json sizes = Json::object();
  for (std::size_t i = 0; i < op.sizes.size(); ++i) sizes[std::string(op.sizes[i].name)] = entry.sizes[i];
  Json candidates = Json::array();
  for (const CandidateRecord &record : entry.candidates) candidates.push_back(candidate_json(record));
  Json json = {{"schema", kEntrySchema},
               {"key", key_json(key)},
               {"environment", entry.environment},
               {"config", config_to_json(entry.configs.config)},
               {"config_any", config_to_json(entry.configs.config_any)},
               {"sizes", std::move(sizes)},
               {"candidates", std::move(candidates)},
               {"provenance", provenance_json(entry.provenance)}};
  json["checksum"] = checksum(json);
  return file_text(json);
}

std::optional<Entry> parse_entry(std::string_view text, const AutotuneKey &key, std::string_view environment,
                                 std::string &why) {
  Entry entry;
  why = reason_of([&] {
    const Json json = parse_bounded(text);
    entry = read_entry(json, text);
    check_key(json["key"], key);
    if (entry.environment != environment) {
      refuse(fmt::format("its environment is \"{}\", not \"{}\"", shortened(entry.environment), environment));
    }
    entry.sizes = read_sizes(json["sizes"], key.op());
  });
  if (!why.empty()) return std::nullopt;
  return entry;
}

bool is_of_other_version(std::string_view text, const AutotuneKey &key) {
  bool other = false;
  const std::string problem = reason_of([&] {
    const Json json = parse_bounded(text);
    read_entry(json, text);
    const Json &found = json["key"];
    other = found["op"] == key.op().name &&
            (found["bucket"]["version"] != key.bucket().version || found["tuning_epoch"] != key.op().tuning_epoch);
  });
  return problem.empty() && other;
}

std::string entry_problem(std::string_view text) {
  return reason_of([&] { read_entry(parse_bounded(text), text); });
}

}  // namespace msj::tune
