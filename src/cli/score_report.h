// What `score` gives back: files, text for people, or JSON.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/output.h"
#include "cli/score_run.h"

namespace msj::cli {

struct ScoreReport {
  std::map<std::string, std::string, std::less<>> files;  // by operand; where its result goes
  std::int64_t top_k = 0;                                 // 0: all documents, in their order
  std::optional<std::vector<std::int64_t>> documents;     // what the scores' columns are called; absent: their places
  std::string device;                                     // "cpu", "cuda:0"
  double seconds = 0;                                     // of the call, compiles and copies included
};

// Before any work: throws UsageError or Failure where a file could not be written at the end, or is one of the `inputs`
// (by operand; "": not given).
void check_output_files(const ScoreReport &report, const OpInfo &op,
                        const std::map<std::string, std::string, std::less<>> &inputs);
// Likewise where a file would be in an index's directory, whose files are inputs, is what a link in it leads to, or is
// that of the candidates ("": not given). Throws UsageError, or Failure where the directory can't be listed.
void check_outputs_outside(const ScoreReport &report, const std::string &directory, const std::string &candidates);
// All of them or, where one can't be written, none.
void write_output_files(const ScoreReport &report, const ScoreJob &job, Console &console);

// "query  document  score", a line for each.
[[nodiscard]] std::string score_text(const ScoreReport &report, const ScoreJob &job);
// "maxsim-jit/score/1". All scores are in it where neither a file nor top_k takes their place. Without top_k,
// "documents" names the columns, those of a file too, where they are not all of the index.
[[nodiscard]] Json score_json(const ScoreReport &report, const ScoreJob &job, const SizeMap &sizes,
                              const msj_counters &counters);

}  // namespace msj::cli
