// The host's side of oracle.cu: float64 truth on the GPU for a problem, checks against it, and inputs made in place.
// Primary context only.
#pragma once

#include <array>
#include <vector>

#include "gpu/oracle_task.h"
#include "gpu/problem.h"

namespace msj::gpu {

class Oracle {
 public:
  // `exact`: only equal scores and equal winners pass.
  Oracle(const Problem &problem, bool exact);

  void set(std::size_t operand, const View &view);
  void compute();  // needs q, d and the masks and lengths that the problem has
  void check();    // scores and, if set, argmax
  // That every element of a result was written, and nothing beside it. Poisons the result.
  void check_around(const Operand &result);
  [[nodiscard]] Verdict verdict() const;

  // C order: [Nq, Nd, Lq], [Nq, Nd].
  [[nodiscard]] std::vector<int> winners() const { return download<int>(winners_); }
  [[nodiscard]] std::vector<double> sums() const { return download<double>(sums_); }
  [[nodiscard]] std::vector<double> bounds() const { return download<double>(bounds_); }

 private:
  template <typename T>
  [[nodiscard]] static std::vector<T> download(const DeviceBytes &memory) {
    std::vector<T> values(memory.bytes() / sizeof(T));
    memory.download(values.data());
    return values;
  }
  [[nodiscard]] static std::size_t doubles(std::int64_t count) {
    return static_cast<std::size_t>(count) * sizeof(double);
  }

  Task task_{};
  DeviceBytes q_norms_, d_norms_, maxima_, magnitudes_, winners_, sums_, bounds_, verdict_;
};

// "" if a verdict is clean, else what is wrong with it.
[[nodiscard]] inline std::string complaint(const Verdict &v) {
  if (v.bad_scores == 0 && v.bad_argmax == 0 && v.unwritten == 0 && v.corrupted == 0) return {};
  return fmt::format(
      "{} wrong scores (first {}, worst {:.3g} of the bound), {} wrong argmax (first {}, worst {:.3g}), "
      "{} results not written, {} words written beside them",
      v.bad_scores, static_cast<std::int64_t>(v.first_bad_score), v.worst_score, v.bad_argmax,
      static_cast<std::int64_t>(v.first_bad_argmax), v.worst_argmax, v.unwritten, v.corrupted);
}

// ---- truth and checks -----------------------------------------------------------------------------------------------

inline Oracle::Oracle(const Problem &problem, bool exact)
    : q_norms_(doubles(problem.Nq * problem.Lq)),
      d_norms_(doubles(problem.Nd * problem.Ld)),
      maxima_(doubles(problem.Nq * problem.Nd * problem.Lq)),
      magnitudes_(maxima_.bytes()),
      winners_(maxima_.bytes() / 2),
      sums_(doubles(problem.Nq * problem.Nd)),
      bounds_(sums_.bytes()),
      verdict_(sizeof(Verdict)) {
  task_.Nq = problem.Nq, task_.Nd = problem.Nd, task_.Lq = problem.Lq, task_.Ld = problem.Ld, task_.d = problem.d;
  task_.dtype = static_cast<int>(problem.dtype);
  task_.normalize = problem.has(kNormalize) ? 1 : 0;
  task_.neg_inf = problem.neg_inf ? 1 : 0;
  task_.exact = exact ? 1 : 0;
  task_.coefficient = accuracy(problem.dtype, problem.d);
  task_.q_norms = reinterpret_cast<double *>(q_norms_.get());
  task_.d_norms = reinterpret_cast<double *>(d_norms_.get());
  task_.maxima = reinterpret_cast<double *>(maxima_.get());
  task_.magnitudes = reinterpret_cast<double *>(magnitudes_.get());
  task_.winners = reinterpret_cast<int *>(winners_.get());
  task_.sums = reinterpret_cast<double *>(sums_.get());
  task_.bounds = reinterpret_cast<double *>(bounds_.get());
  task_.verdict = reinterpret_cast<Verdict *>(verdict_.get());
  Verdict none{};
  none.first_bad_score = none.first_bad_argmax = ~0ULL;
  verdict_.upload(&none);
}

inline void Oracle::set(std::size_t operand, const View &view) {
  const std::array<View *, MSJ_DENSE_FORWARD_OPERANDS> places = {
      &task_.q, &task_.documents, &task_.q_mask, &task_.d_mask, &task_.d_lengths, &task_.scores, &task_.argmax};
  *places.at(operand) = view;
}

inline void Oracle::compute() {
  Gpu &gpu = Gpu::get();
  if (task_.normalize != 0) {
    gpu.launch("oracle_norms", blocks_of(task_.Nq * task_.Lq), 256, task_.q, task_.dtype, task_.q_norms);
    gpu.launch("oracle_norms", blocks_of(task_.Nd * task_.Ld), 256, task_.documents, task_.dtype, task_.d_norms);
  }
  gpu.launch("oracle_max", task_.Nq * task_.Nd * ((task_.Lq + 31) / 32), 256, task_);
  gpu.launch("oracle_sum", blocks_of(task_.Nq * task_.Nd), 256, task_);
}

inline void Oracle::check() {
  Gpu &gpu = Gpu::get();
  gpu.launch("check_scores", blocks_of(task_.Nq * task_.Nd), 256, task_);
  if (task_.argmax.data == nullptr) return;
  gpu.launch("check_argmax", blocks_of(task_.Nq * task_.Nd * task_.Lq), 256, task_);
}

inline void Oracle::check_around(const Operand &result) {
  Gpu &gpu = Gpu::get();
  const int poison = kPoisonedWord;
  gpu.launch("take_back", striding_blocks(result.placement().elements()), 256, result.view(), poison, task_.verdict);
  const char *words = result.memory().get();
  const auto count = static_cast<long long>(result.memory().bytes() / sizeof(int));
  gpu.launch("count_changed", striding_blocks(count), 256, words, count, poison, task_.verdict);
}

inline Verdict Oracle::verdict() const {
  Verdict verdict{};
  verdict_.download(&verdict);
  return verdict;
}

// ---- inputs ---------------------------------------------------------------------------------------------------------

// `spread`: of Values::rows.
inline void fill_values(const Operand &operand, Values values, int spread, std::uint64_t seed) {
  const Filling filling{operand.view(), static_cast<int>(operand.placement().dtype), values, spread, seed};
  Gpu::get().launch("fill_values", striding_blocks(operand.placement().elements()), 256, filling);
}

inline void fill_mask(const Operand &operand, std::uint64_t seed) {
  const int boolean = operand.placement().dtype == DType::boolean ? 1 : 0;
  const auto salt = static_cast<unsigned long long>(seed);
  Gpu::get().launch("fill_mask", striding_blocks(operand.placement().elements()), 256, operand.view(), boolean, salt);
}

inline void fill_lengths(const Operand &operand, std::int64_t longest, std::uint64_t seed) {
  const auto most = static_cast<long long>(longest);
  const auto salt = static_cast<unsigned long long>(seed);
  Gpu::get().launch("fill_lengths", striding_blocks(operand.placement().elements()), 256, operand.view(), most, salt);
}

}  // namespace msj::gpu
