#include "cli/score_report.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <set>
#include <span>
#include <system_error>

#include "cli/failure.h"
#include "cli/npy_write.h"
#include "cli/ranking.h"

namespace msj::cli {
namespace {

NpyType npy_type(DType dtype) {
  switch (dtype) {
    case DType::i32:
      return NpyType::i32;
    case DType::bf16:
      return NpyType::bf16;
    case DType::f16:
      return NpyType::f16;
    default:
      return NpyType::f32;
  }
}

// The same for every way to name a file: symlinks followed, as far as it is there.
std::string place_of(const std::string &file) {
  if (file.empty()) return {};
  std::error_code error;
  const auto place = std::filesystem::weakly_canonical(std::filesystem::absolute(file, error), error);
  return error ? file : place.native();
}

// Where the symlinks of an index lead to: its files may lie in another folder, as those of a Hugging Face snapshot do.
std::set<std::string> linked_places(const std::string &directory) {
  namespace fs = std::filesystem;
  std::set<std::string> places;
  std::error_code error, ignored;
  for (fs::directory_iterator entry(directory, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (entry->is_symlink(ignored)) places.insert(place_of(entry->path().native()));
  }
  if (error) failure("--index {}: its files cannot be listed: {}", directory, error.message());
  return places;
}

// Scores as rows, one a query.
class Rows {
 public:
  explicit Rows(const HostResult &scores)
      : values_(reinterpret_cast<const float *>(scores.data.data()), scores.data.size() / sizeof(float)),
        length_(static_cast<std::size_t>(scores.shape.empty() ? 1 : scores.shape.back())) {}

  [[nodiscard]] std::size_t count() const { return length_ == 0 ? 0 : values_.size() / length_; }
  [[nodiscard]] std::span<const float> operator[](std::size_t row) const {
    return values_.subspan(row * length_, length_);
  }

 private:
  std::span<const float> values_;
  std::size_t length_;
};

std::vector<std::int64_t> documents_of(std::span<const float> row, std::int64_t k) {
  if (k > 0) return top_k(row, k);
  std::vector<std::int64_t> all(row.size());
  std::iota(all.begin(), all.end(), std::int64_t{0});
  return all;
}

Json scores_json(const Rows &rows) {
  Json result = Json::array();
  for (std::size_t query = 0; query < rows.count(); ++query) {
    Json &row = result.emplace_back(Json::array());
    for (const float score : rows[query]) row.push_back(to_json(score));
  }
  return result;
}

std::int64_t name_of(const ScoreReport &report, std::int64_t document) {
  return report.documents ? (*report.documents)[static_cast<std::size_t>(document)] : document;
}

Json top_json(const Rows &rows, const ScoreReport &report) {
  Json result = Json::array();
  for (std::size_t query = 0; query < rows.count(); ++query) {
    Json &row = result.emplace_back(Json::array());
    for (const std::int64_t document : top_k(rows[query], report.top_k)) {
      row.push_back({{"document", name_of(report, document)},
                     {"score", to_json(rows[query][static_cast<std::size_t>(document)])}});
    }
  }
  return result;
}

std::vector<std::string> features_of(const ScoreJob &job) {
  std::vector<std::string> result;
  for (const FeatureInfo &feature : job.op->features) {
    const auto input = std::ranges::find_if(
        job.inputs, [&](const HostTensor &tensor) { return tensor.operand->name == feature.operand; });
    const bool is_result = std::ranges::any_of(
        job.results, [&](const HostResult &result) { return result.operand->name == feature.operand; });
    const bool is_there = input != job.inputs.end() || is_result;
    const bool on = feature.source == FeatureInfo::Source::flag ? (job.flags & feature.flag) != 0
                    : feature.source == FeatureInfo::Source::presence
                        ? is_there
                        : input != job.inputs.end() && input->shape.size() == 2;
    if (on) result.push_back(feature.name);
  }
  return result;
}

}  // namespace

void check_output_files(const ScoreReport &report, const OpInfo &op,
                        const std::map<std::string, std::string, std::less<>> &inputs) {
  std::set<std::string> seen;
  for (const auto &[operand, file] : report.files) {
    if (!seen.insert(place_of(file)).second) {
      usage_error("{} is named for two results; a file for each is accepted", file);
    }
    for (const OperandInfo &input : op.operands) {
      if (input.is_result || place_of(inputs.find(input.name)->second) != place_of(file)) continue;
      usage_error("{} is named for a result, but is the file of {}; another file is accepted", file,
                  option_name(input.name));
    }
    check_output_file(file);
  }
}

void check_outputs_outside(const ScoreReport &report, const std::string &directory, const std::string &candidates) {
  if (report.files.empty()) return;
  const std::set<std::string> linked = linked_places(directory);
  for (const auto &[operand, file] : report.files) {
    const std::string place = place_of(file);
    if (std::filesystem::path(place).parent_path() == place_of(directory)) {
      usage_error("{} is named for a result, but lies in the index {}; a file elsewhere is accepted", file, directory);
    }
    if (linked.contains(place)) {
      usage_error("{} is named for a result, but is a file of the index {}; another file is accepted", file, directory);
    }
    if (place == place_of(candidates)) {
      usage_error("{} is named for a result, but is the file of --candidates; another file is accepted", file);
    }
  }
}

void write_output_files(const ScoreReport &report, const ScoreJob &job, Console &console) {
  std::vector<NewFile> staged;
  std::vector<std::string> notes;
  for (const HostResult &result : job.results) {
    const auto file = report.files.find(result.operand->name);
    if (file == report.files.end()) continue;
    staged.push_back(stage_npy(file->second, npy_type(result.operand->canonical), result.shape, result.data));
    notes.push_back(
        fmt::format("wrote {} [{}] to {}", result.operand->name, fmt::join(result.shape, ", "), file->second));
  }
  for (NewFile &file : staged) file.publish();
  for (const std::string &note : notes) console.note(note);
}

// A NaN without the sign that it happens to have.
std::string printed(float score) { return std::isnan(score) ? "nan" : fmt::format("{}", score); }

std::string score_text(const ScoreReport &report, const ScoreJob &job) {
  const Rows rows(job.results.front());
  fmt::memory_buffer text;
  fmt::format_to(std::back_inserter(text), "query  document  score\n");
  for (std::size_t query = 0; query < rows.count(); ++query) {
    for (const std::int64_t document : documents_of(rows[query], report.top_k)) {
      fmt::format_to(std::back_inserter(text), "{:>5}  {:>8}  {}\n", query, name_of(report, document),
                     printed(rows[query][static_cast<std::size_t>(document)]));
    }
  }
  return fmt::to_string(text);
}

Json score_json(const ScoreReport &report, const ScoreJob &job, const SizeMap &sizes, const msj_counters &counters) {
  const HostResult &scores = job.results.front();
  Json json = {{"schema", "maxsim-jit/score/1"},
               {"op", job.op->name},
               {"device", report.device},
               {"sizes", to_json(*job.op, sizes)}};
  for (const HostTensor &tensor : job.inputs) json["dtypes"][tensor.operand->name] = name(tensor.dtype);
  json["features"] = features_of(job);
  json["seconds"] = report.seconds;
  json["files"] = report.files;
  const Rows rows(scores);
  if (report.documents && report.top_k == 0) json["documents"] = *report.documents;
  if (report.top_k > 0) {
    json["top"] = top_json(rows, report);
  } else if (!report.files.contains(scores.operand->name)) {
    json["scores"] = scores_json(rows);
  }
  json["counters"] = to_json(counters);
  return json;
}

}  // namespace msj::cli
