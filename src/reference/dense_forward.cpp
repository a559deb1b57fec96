// How it is made fast enough to serve: the active query tokens are widened to float64 once; each thread takes a
// document, widens its active tokens panel by panel (8 tokens beside one another for each k, so that one vector
// instruction serves 8 dot products without reordering any sum), and runs every query token over the panels.
#include "reference/dense_forward.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "reference/numeric.h"
#include "reference/parallel.h"

namespace msj::reference {

namespace {

constexpr std::int64_t kPanel = 8;   // document tokens side by side
constexpr std::int64_t kPanels = 8;  // of a tile: they stay in the second-level cache
constexpr std::int64_t kRows = 4;    // query tokens at a time
constexpr double kNormFloor = 1e-12;

// Four float64 side by side, in whatever registers the machine has.
using Lanes = double __attribute__((vector_size(32)));
using LanesInMemory = double __attribute__((vector_size(32), aligned(alignof(double)), may_alias));
constexpr std::int64_t kVectors = kPanel / 4;

// One more code for machines with wider vectors and fused multiply-adds. The bits agree: a product of two numbers of at
// most 24 bits is exact in float64, so that it does not matter whether it is rounded before the sum.
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define MSJ_WIDE_VECTORS __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define MSJ_WIDE_VECTORS
#endif

const TensorView &operand(const BoundCall &call, int index) { return call.operands[static_cast<std::size_t>(index)]; }

std::int64_t size(const BoundCall &call, std::string_view name) {
  return call.sizes[static_cast<std::size_t>(find_named(call.op->sizes, name))];
}

bool has_feature(const BoundCall &call, std::string_view name) {
  return ((call.features >> find_named(call.op->features, name)) & 1U) != 0;
}

std::int64_t param(const BoundCall &call, std::string_view name) {
  return call.params[static_cast<std::size_t>(find_named(call.op->params, name))];
}

// The element offset of (a, b) in the leading dimensions.
std::int64_t offset(const TensorView &view, std::int64_t a, std::int64_t b) {
  return a * view.strides[0] + b * view.strides[1];
}

bool keeps(const TensorView &mask, std::int64_t row, std::int64_t token) {
  return !mask.present || load<std::uint8_t>(mask.data, offset(mask, row, token)) != 0;
}

double floored_norm(double sum_of_squares) {
  const double norm = std::sqrt(sum_of_squares);
  return norm < kNormFloor ? kNormFloor : norm;  // a NaN stays
}

struct Problem {
  explicit Problem(const BoundCall &call)
      : q(operand(call, MSJ_DENSE_FORWARD_Q)),
        d(operand(call, MSJ_DENSE_FORWARD_D)),
        q_mask(operand(call, MSJ_DENSE_FORWARD_Q_MASK)),
        d_mask(operand(call, MSJ_DENSE_FORWARD_D_MASK)),
        d_lengths(operand(call, MSJ_DENSE_FORWARD_D_LENGTHS)),
        scores(operand(call, MSJ_DENSE_FORWARD_SCORES)),
        argmax(operand(call, MSJ_DENSE_FORWARD_ARGMAX)),
        Nq(size(call, "Nq")),
        Nd(size(call, "Nd")),
        Lq(size(call, "Lq")),
        Ld(size(call, "Ld")),
        width(size(call, "d")),
        normalize(has_feature(call, "normalize")),
        empty_score(param(call, "empty_doc") == MSJ_EMPTY_DOC_NEG_INF ? -std::numeric_limits<double>::infinity()
                                                                      : 0.0) {}

  const TensorView &q, &d, &q_mask, &d_mask, &d_lengths, &scores, &argmax;
  std::int64_t Nq, Nd, Lq, Ld, width;
  bool normalize;
  double empty_score;
};

// Active query tokens of all queries, widened, query after query.
struct Queries {
  std::vector<std::int64_t> first;  // of query i; first[Nq] is their number
  std::vector<std::int64_t> token;  // s of each
  std::vector<double> values;       // [count, width]
  std::vector<double> norm;         // 1 without normalize

  explicit Queries(const Problem &p) {
    for (std::int64_t i = 0; i < p.Nq; ++i) {
      first.push_back(count());
      for (std::int64_t s = 0; s < p.Lq; ++s) {
        if (keeps(p.q_mask, i, s)) token.push_back(s);
      }
    }
    first.push_back(count());
    values.resize(static_cast<std::size_t>(count() * p.width));
    norm.assign(static_cast<std::size_t>(count()), 1.0);
    for (std::int64_t i = 0; i < p.Nq; ++i) {
      for (std::int64_t row = first[static_cast<std::size_t>(i)]; row < first[static_cast<std::size_t>(i) + 1]; ++row) {
        widen(p, i, row);
      }
    }
  }

  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(token.size()); }

 private:
  void widen(const Problem &p, std::int64_t i, std::int64_t row) {
    double *out = values.data() + row * p.width;
    convert_row(p.q.dtype, p.q.data, offset(p.q, i, token[static_cast<std::size_t>(row)]), p.q.strides[2], p.width, out,
                1);
    if (!p.normalize) return;
    double sum = 0;
    for (std::int64_t k = 0; k < p.width; ++k) sum += out[k] * out[k];
    norm[static_cast<std::size_t>(row)] = floored_norm(sum);
  }
};

// The best document token so far of one query token. Ascending t: the first of equals stays; the first NaN stays for
// good, since no comparison with it is true.
struct Best {
  double value = 0;
  std::int64_t token = -1;

  void see(double candidate, std::int64_t t) {
    if (token < 0 || candidate > value || (std::isnan(candidate) && !std::isnan(value))) {
      value = candidate;
      token = t;
    }
  }
};

// dots[r][lane] = Σ_k q[r][k] · panel[k][lane], summed in ascending k.
MSJ_WIDE_VECTORS void multiply(const double *const *q, const double *panel, std::int64_t width,
                               double (*dots)[kPanel]) {
  Lanes sums[kRows][kVectors] = {};
  for (std::int64_t k = 0; k < width; ++k, panel += kPanel) {
    const auto *tokens = reinterpret_cast<const LanesInMemory *>(panel);
#pragma GCC unroll 4
    for (std::int64_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (std::int64_t v = 0; v < kVectors; ++v) sums[r][v] += q[r][k] * tokens[v];
    }
  }
#pragma GCC unroll 4
  for (std::int64_t r = 0; r < kRows; ++r) {
    auto *out = reinterpret_cast<LanesInMemory *>(dots[r]);
#pragma GCC unroll 4
    for (std::int64_t v = 0; v < kVectors; ++v) out[v] = sums[r][v];
  }
}

// What one thread needs, allocated before it starts.
struct Workspace {
  std::vector<std::int64_t> active;  // document tokens, ascending
  std::vector<double> panels;        // [kPanels, width, kPanel]
  std::array<double, kPanel * kPanels> norm{};
  std::vector<Best> best;  // of each active query token

  Workspace(const Problem &p, std::int64_t query_tokens)
      : panels(static_cast<std::size_t>(kPanels * p.width * kPanel)), best(static_cast<std::size_t>(query_tokens)) {
    active.reserve(static_cast<std::size_t>(p.Ld));
  }
};

class Document {
 public:
  Document(const Problem &problem, const Queries &queries, Workspace &workspace, std::int64_t j)
      : p_(problem), queries_(queries), w_(workspace), j_(j) {}

  void score() {
    find_active_tokens();
    std::fill(w_.best.begin(), w_.best.end(), Best{});
    const std::span<const std::int64_t> active = w_.active;
    constexpr std::size_t kTile = kPanel * kPanels;
    for (std::size_t start = 0; start < active.size(); start += kTile) {
      score_tile(active.subspan(start, std::min(kTile, active.size() - start)));
    }
    for (std::int64_t i = 0; i < p_.Nq; ++i) write(i);
  }

 private:
  void find_active_tokens() {
    std::int64_t length = p_.Ld;
    if (p_.d_lengths.present) {
      const auto given = load<std::int32_t>(p_.d_lengths.data, j_ * p_.d_lengths.strides[0]);
      length = std::clamp<std::int64_t>(given, 0, p_.Ld);
    }
    w_.active.clear();
    for (std::int64_t t = 0; t < length; ++t) {
      if (keeps(p_.d_mask, j_, t)) w_.active.push_back(t);
    }
  }

  void score_tile(std::span<const std::int64_t> tokens) {
    widen(tokens);
    for (std::int64_t row = 0; row < queries_.count(); row += kRows) {
      std::array<const double *, kRows> rows{};
      for (std::int64_t r = 0; r < kRows; ++r) {  // the last row again where there are fewer
        rows[static_cast<std::size_t>(r)] = queries_.values.data() + std::min(row + r, queries_.count() - 1) * p_.width;
      }
      const auto size = static_cast<std::int64_t>(tokens.size());
      for (std::int64_t start = 0; start < size; start += kPanel) {
        double dots[kRows][kPanel];
        multiply(rows.data(), w_.panels.data() + start * p_.width, p_.width, dots);
        keep_best(row, tokens.subspan(static_cast<std::size_t>(start)), start, dots);
      }
    }
  }

  // Lanes past the last token keep what they had: nobody looks at them.
  void widen(std::span<const std::int64_t> tokens) {
    for (std::size_t n = 0; n < tokens.size(); ++n) {
      const auto lane = static_cast<std::int64_t>(n);
      double *out = w_.panels.data() + lane / kPanel * kPanel * p_.width + lane % kPanel;
      convert_row(p_.d.dtype, p_.d.data, offset(p_.d, j_, tokens[n]), p_.d.strides[2], p_.width, out, kPanel);
      if (!p_.normalize) continue;
      double sum = 0;
      for (std::int64_t k = 0; k < p_.width; ++k) sum += out[k * kPanel] * out[k * kPanel];
      w_.norm[n] = floored_norm(sum);
    }
  }

  void keep_best(std::int64_t row, std::span<const std::int64_t> tokens, std::int64_t start,
                 const double (*dots)[kPanel]) {
    const auto lanes = std::min<std::int64_t>(kPanel, static_cast<std::int64_t>(tokens.size()));
    for (std::int64_t r = 0; r < std::min(kRows, queries_.count() - row); ++r) {
      const auto q_row = static_cast<std::size_t>(row + r);
      for (std::int64_t lane = 0; lane < lanes; ++lane) {
        double dot = dots[r][lane];
        if (p_.normalize) dot = dot / queries_.norm[q_row] / w_.norm[static_cast<std::size_t>(start + lane)];
        w_.best[q_row].see(dot, tokens[static_cast<std::size_t>(lane)]);
      }
    }
  }

  void write(std::int64_t i) const {
    const auto first = static_cast<std::size_t>(queries_.first[static_cast<std::size_t>(i)]);
    const auto last = static_cast<std::size_t>(queries_.first[static_cast<std::size_t>(i) + 1]);
    double score = first < last && w_.active.empty() ? p_.empty_score : 0.0;
    if (!w_.active.empty()) {
      for (std::size_t row = first; row < last; ++row) score += w_.best[row].value;
    }
    store(p_.scores.data, offset(p_.scores, i, j_), static_cast<float>(score));
    if (!p_.argmax.present) return;
    const std::int64_t base = offset(p_.argmax, i, j_);
    const auto write_token = [&](std::int64_t s, std::int64_t t) {
      store(p_.argmax.data, base + s * p_.argmax.strides[2], static_cast<std::int32_t>(t));
    };
    for (std::int64_t s = 0; s < p_.Lq; ++s) write_token(s, -1);
    for (std::size_t row = first; row < last; ++row) write_token(queries_.token[row], w_.best[row].token);
  }

  const Problem &p_;
  const Queries &queries_;
  Workspace &w_;
  std::int64_t j_;
};

}  // namespace

void dense_forward(const BoundCall &call, int threads) {
  const Problem problem(call);
  if (problem.Nq == 0 || problem.Nd == 0) return;
  const Queries queries(problem);
  const int workers = worker_count(problem.Nd, threads);
  std::vector<Workspace> workspaces;
  for (int worker = 0; worker < workers; ++worker) workspaces.emplace_back(problem, queries.count());
  for_each_item(problem.Nd, workers, [&](std::int64_t j, int worker) {
    Document(problem, queries, workspaces[static_cast<std::size_t>(worker)], j).score();
  });
}

void dense_forward(const BoundCall &call) { dense_forward(call, 0); }

}  // namespace msj::reference
