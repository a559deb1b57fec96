// Past 2^31 elements, where a 32-bit offset wraps: in the documents, in the argmax, in the scores. Windows at the ends
// and around element 2^31 are checked against the oracle, and that every result was written, on every path.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "gpu/instance.h"
#include "gpu/op_candidates.h"
#include "gpu/oracle.h"
#include "support/scratch.h"

using namespace msj;
using namespace msj::gpu;

namespace {

constexpr std::int64_t kWindow = 8;  // documents
constexpr std::int64_t kWrap = std::int64_t{1} << 31;

// Documents [first, first + kWindow) of an operand whose dimension `dim` counts documents.
View window(const Operand &operand, std::size_t dim, std::int64_t first) {
  View view = operand.view();
  const std::int64_t bytes = msj::bytes(operand.placement().dtype);
  view.data = static_cast<char *>(view.data) + first * operand.placement().strides[dim] * bytes;
  view.shape[dim] = kWindow;
  return view;
}

Verdict judge_window(const Instance &instance, std::int64_t first) {
  Problem part = instance.problem();
  part.Nd = kWindow;
  Oracle oracle(part, false);
  oracle.set(MSJ_DENSE_FORWARD_Q, instance.operand(MSJ_DENSE_FORWARD_Q).view());
  oracle.set(MSJ_DENSE_FORWARD_D, window(instance.operand(MSJ_DENSE_FORWARD_D), 0, first));
  oracle.set(MSJ_DENSE_FORWARD_SCORES, window(instance.operand(MSJ_DENSE_FORWARD_SCORES), 1, first));
  if (part.has(kArgmax)) {
    oracle.set(MSJ_DENSE_FORWARD_ARGMAX, window(instance.operand(MSJ_DENSE_FORWARD_ARGMAX), 1, first));
  }
  oracle.compute();
  oracle.check();
  return oracle.verdict();
}

Verdict check_written(const Instance &instance) {
  Oracle oracle(
      [] {
        Problem tiny;
        return tiny;
      }(),
      false);
  oracle.check_around(instance.operand(MSJ_DENSE_FORWARD_SCORES));
  if (instance.problem().has(kArgmax)) oracle.check_around(instance.operand(MSJ_DENSE_FORWARD_ARGMAX));
  return oracle.verdict();
}

bool fits(const Problem &problem) {
  std::size_t needed = std::size_t{2} << 30;
  for (const auto &placement : problem.placements()) {
    if (placement) needed += static_cast<std::size_t>(placement->span() * bytes(placement->dtype));
  }
  const Current current;
  std::size_t free = 0;
  std::size_t total = 0;
  Gpu::get().check(Gpu::get().driver().MemGetInfo(&free, &total), "cuMemGetInfo");
  if (needed <= free) return true;
  fmt::print("large: left out, {} bytes are free and {} are needed\n", free, needed);
  return false;
}

void check(const Problem &problem, std::int64_t wrapping_document) {
  CAPTURE(problem.text());
  if (!fits(problem)) return;
  const testing::ScratchDirectory cache;
  AllPaths paths(ops::dense_forward_spec(), cache.path());
  const Instance instance(problem);
  paths.each(problem.call_to_prepare(), [&](ForcedPath &path) {
    CAPTURE(path.path());
    instance.poison();
    run(path.get(), instance.call());
    float worst = 0;
    for (const std::int64_t first : {std::int64_t{0}, wrapping_document - kWindow / 2, problem.Nd - kWindow}) {
      CAPTURE(first);
      const Verdict verdict = judge_window(instance, first);
      CHECK(complaint(verdict) == "");
      worst = std::max(worst, verdict.worst_score);
    }
    CHECK(complaint(check_written(instance)) == "");
    fmt::print("large: {}: {}: worst error / bound {:.3f}\n", path.path(), problem.text(), worst);
  });
}

}  // namespace

TEST_CASE("more than 2^31 elements of documents") {
  Problem p;
  p.Nd = 70'001, p.Lq = 32, p.Ld = 256, p.d = 128;
  REQUIRE(p.Nd * p.Ld * p.d > kWrap);
  for (const Placing placing : {Placing::contiguous, Placing::offset_one}) {
    p.documents = placing;
    check(p, kWrap / (p.Ld * p.d));
  }
}

TEST_CASE("more than 2^31 elements of argmax") {
  Problem p;
  p.Nq = 64, p.Nd = 270'000, p.Lq = 128, p.Ld = 2, p.d = 16;
  p.features = kArgmax;
  REQUIRE(p.Nq * p.Nd * p.Lq > kWrap);
  check(p, kWrap / p.Lq % p.Nd);
}

TEST_CASE("more than 2^31 scores") {
  Problem p;
  p.Nq = 47'000, p.Nd = 47'000, p.Lq = 1, p.Ld = 1, p.d = 16;
  REQUIRE(p.Nq * p.Nd > kWrap);
  check(p, kWrap % p.Nd);
}
