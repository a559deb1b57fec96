// How it is made fast enough to serve: the active query rows are read once; each thread takes a document, reads its
// active rows tile by tile into panels, and runs every query row over the panels.
#include "reference/maxsim.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "reference/lookup.h"
#include "reference/numeric.h"
#include "reference/parallel.h"

namespace msj::reference {

double floored_norm(const RowBlock &rows, std::int64_t n) {
  const double *row = rows.row(n);
  double sum = 0;
  for (std::int64_t k = 0; k < rows.width; ++k) sum += row[k * rows.lanes] * row[k * rows.lanes];
  const double norm = std::sqrt(sum);
  return norm < kNormFloor ? kNormFloor : norm;
}

void widen(const TensorView &matrix, std::int64_t item, std::span<const std::int64_t> tokens, const RowBlock &out) {
  for (std::size_t n = 0; n < tokens.size(); ++n) {
    convert_row(matrix.dtype, matrix.data, offset(matrix, item, tokens[n]), matrix.strides[2], out.width,
                out.row(static_cast<std::int64_t>(n)), out.lanes);
  }
}

namespace {

bool keeps(const TensorView &mask, std::int64_t row, std::int64_t token) {
  return !mask.present || load<std::uint8_t>(mask.data, offset(mask, row, token)) != 0;
}

struct Problem {
  Problem(const BoundCall &call, const TokenRows &queries, const TokenRows &documents)
      : q(queries),
        d(documents),
        q_mask(operand(call, "q_mask")),
        d_mask(find_named(call.op->operands, "d_mask") < 0 ? absent : operand(call, "d_mask")),
        d_lengths(operand(call, "d_lengths")),
        scores(operand(call, "scores")),
        argmax(operand(call, "argmax")),
        Nq(size(call, "Nq")),
        Nd(size(call, "Nd")),
        Lq(size(call, "Lq")),
        Ld(size(call, "Ld")),
        empty_score(param(call, "empty_doc") == MSJ_EMPTY_DOC_NEG_INF ? -std::numeric_limits<double>::infinity()
                                                                      : 0.0) {}

  // Tokens of document j; kBroken: one that can't be read.
  [[nodiscard]] std::int64_t length(std::int64_t j) const {
    if (d.length) return d.length(j);
    if (!d_lengths.present) return Ld;
    return std::clamp<std::int64_t>(load<std::int32_t>(d_lengths.data, j * d_lengths.strides[0]), 0, Ld);
  }

  static inline const TensorView absent;
  const TokenRows &q, &d;
  const TensorView &q_mask, &d_mask, &d_lengths, &scores, &argmax;
  std::int64_t Nq, Nd, Lq, Ld;
  double empty_score;
};

// Active query tokens of all queries, query after query.
struct Queries {
  std::vector<std::int64_t> first;  // of query i; first[Nq] is their number
  std::vector<std::int64_t> token;  // s of each
  std::vector<double> values;       // [count, width]
  std::vector<Factors> factors;
  RowBlock rows{};

  explicit Queries(const Problem &p) {
    for (std::int64_t i = 0; i < p.Nq; ++i) {
      first.push_back(count());
      for (std::int64_t s = 0; s < p.Lq; ++s) {
        if (keeps(p.q_mask, i, s)) token.push_back(s);
      }
    }
    first.push_back(count());
    values.resize(static_cast<std::size_t>(count() * p.q.width));
    factors.resize(static_cast<std::size_t>(count()));
    rows = {values.data(), p.q.width, 1, factors.data()};
    for (std::int64_t i = 0; i < p.Nq; ++i) {
      const auto begin = static_cast<std::size_t>(first[static_cast<std::size_t>(i)]);
      const auto end = static_cast<std::size_t>(first[static_cast<std::size_t>(i) + 1]);
      const RowBlock out = {values.data() + begin * static_cast<std::size_t>(p.q.width), p.q.width, 1,
                            factors.data() + begin};
      p.q.read(i, std::span(token).subspan(begin, end - begin), out);
    }
  }

  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(token.size()); }
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

// What one thread needs, allocated before it starts.
struct Workspace {
  std::vector<std::int64_t> active;  // document tokens, ascending
  std::vector<double> panels;        // [kTile / kPanel, width, kPanel]
  std::array<Factors, kTile> factors{};
  std::vector<Best> best;  // of each active query token

  Workspace(const Problem &p, std::int64_t query_tokens, std::int64_t longest)
      : panels(static_cast<std::size_t>(kTile * p.d.width)), best(static_cast<std::size_t>(query_tokens)) {
    active.reserve(static_cast<std::size_t>(longest));
  }
};

class Document {
 public:
  Document(const Problem &problem, const Queries &queries, Workspace &workspace, std::int64_t j)
      : p_(problem), queries_(queries), w_(workspace), j_(j) {}

  void score() {
    const std::int64_t length = find_active_tokens();
    const Best broken = {std::numeric_limits<double>::quiet_NaN(), 0};
    std::fill(w_.best.begin(), w_.best.end(), length == kBroken ? broken : Best{});
    const std::span<const std::int64_t> active = w_.active;
    if (queries_.count() > 0 && length != kBroken) {
      for (std::size_t start = 0; start < active.size(); start += kTile) {
        score_tile(active.subspan(start, std::min<std::size_t>(kTile, active.size() - start)));
      }
    }
    for (std::int64_t i = 0; i < p_.Nq; ++i) write(i);
  }

 private:
  // The document's length; a broken one has one active token, which is not read.
  std::int64_t find_active_tokens() {
    const std::int64_t length = p_.length(j_);
    w_.active.clear();
    if (length == kBroken) w_.active.push_back(0);
    for (std::int64_t t = 0; t < length; ++t) {
      if (keeps(p_.d_mask, j_, t)) w_.active.push_back(t);
    }
    return length;
  }

  // Lanes past the last token keep what they had: nobody looks at them.
  void score_tile(std::span<const std::int64_t> tokens) {
    p_.d.read(j_, tokens, {w_.panels.data(), p_.d.width, kPanel, w_.factors.data()});
    for (std::int64_t row = 0; row < queries_.count(); row += kRows) {
      for (std::size_t start = 0; start < tokens.size(); start += kPanel) {
        double dots[kRows][kPanel];
        multiply(queries_.rows, queries_.count(), row, w_.panels.data() + start * static_cast<std::size_t>(p_.d.width),
                 dots);
        keep_best(row, tokens.subspan(start), std::span(w_.factors).subspan(start), dots);
      }
    }
  }

  void keep_best(std::int64_t row, std::span<const std::int64_t> tokens, std::span<const Factors> factors,
                 const double (&dots)[kRows][kPanel]) {
    const auto lanes = std::min<std::size_t>(kPanel, tokens.size());
    const bool has_factors = p_.q.has_factors || p_.d.has_factors;
    for (std::int64_t r = 0; r < std::min(kRows, queries_.count() - row); ++r) {
      const auto q_row = static_cast<std::size_t>(row + r);
      const double divisor = queries_.factors[q_row].divisor;
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        double value = dots[r][lane];
        if (has_factors) value = value / divisor / factors[lane].divisor * factors[lane].multiplier;
        w_.best[q_row].see(value, tokens[lane]);
      }
    }
  }

  void write(std::int64_t i) const {
    const auto first = static_cast<std::size_t>(queries_.first[static_cast<std::size_t>(i)]);
    const auto last = static_cast<std::size_t>(queries_.first[static_cast<std::size_t>(i) + 1]);
    double score = first < last && w_.active.empty() ? p_.empty_score : 0.0;
    if (!w_.active.empty()) {
      for (std::size_t row = first; row < last; ++row) score += w_.best[row].value * queries_.factors[row].multiplier;
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

void maxsim(const BoundCall &call, const TokenRows &query_rows, const TokenRows &document_rows, int threads) {
  const Problem problem(call, query_rows, document_rows);
  if (problem.Nq == 0 || problem.Nd == 0) return;
  const Queries queries(problem);
  const int workers = worker_count(problem.Nd, threads);
  // By the documents themselves: Ld may be a mere hint, and of any size.
  std::int64_t longest = 1;  // token of a broken one
  for (std::int64_t j = 0; j < problem.Nd; ++j) longest = std::max(longest, problem.length(j));
  std::vector<Workspace> workspaces;
  for (int worker = 0; worker < workers; ++worker) workspaces.emplace_back(problem, queries.count(), longest);
  for_each_item(problem.Nd, workers, [&](std::int64_t j, int worker) {
    Document(problem, queries, workspaces[static_cast<std::size_t>(worker)], j).score();
  });
}

}  // namespace msj::reference
