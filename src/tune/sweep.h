// One sweep: compile every admissible (candidate, layout class) pair on all cores, time them, pick a winner per class.
#pragma once

#include <cstdint>
#include <functional>

#include "cuda/architecture.h"
#include "jit/specializer.h"
#include "tune/entry.h"
#include "tune/timer.h"

namespace msj::tune {

using Progress = std::function<void(const char *what, std::int64_t done, std::int64_t total)>;

// Cubins of all admitted pairs with these features, compiled in parallel; a candidate that does not
// compile is moved to `rejected` with the reason. Any other failure (no NVRTC, no memory) is thrown. `progress` may be
// empty; it is called from any thread, one call at a time.
[[nodiscard]] std::vector<Trial> compile_trials(const AutotuneKey &key, FeatureSet features,
                                                const cuda::Architecture &architecture, Admission &admission,
                                                jit::Specializer &specializer, const Progress &progress);

// What the timer says of each trial, in order: a timing, or why there is none.
[[nodiscard]] std::vector<CandidateRecord> time_trials(const SweepProblem &problem, std::span<const Trial> trials,
                                                       Timer &timer);

// Times the trials and fills an entry (all but environment and provenance). Ties within the clock's noise go to the
// earlier candidate. Throws Error(MSJ_ERROR_CUDA) if none of a class could run.
[[nodiscard]] Entry sweep(const AutotuneKey &key, const SweepProblem &problem, const Admission &admission,
                          std::span<const Trial> trials, Timer &timer);

}  // namespace msj::tune
