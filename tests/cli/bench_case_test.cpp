// The built-in shapes: complete for their ops, and chosen by name.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "cli/bench_case.h"
#include "cli/failure.h"
#include "made_up_ops.h"
#include "maxsim_jit/maxsim_jit.hpp"

using namespace msj::cli;
using namespace msj::testing;

namespace {

const std::vector<OpInfo> &real_ops() {
  static const std::vector<OpInfo> ops = parse_ops(maxsim_jit::describe());
  return ops;
}

std::string refusal(const BenchChoice &choice) {
  return sentence_of<UsageError>([&] { (void)bench_cases(real_ops(), choice); });
}

}  // namespace

TEST_CASE("every case names each size of its op, with a dtype of it, once") {
  const auto cases = bench_cases(real_ops(), {});
  std::set<std::string> seen;
  for (const BenchCase &of : cases) {
    CAPTURE(of.key());
    CHECK(of.sizes.size() == of.op->sizes.size());
    for (const SizeInfo &size : of.op->sizes) CHECK(of.sizes.contains(size.name));
    const auto dtypes = of.op->matrix_dtypes();
    CHECK(std::ranges::find(dtypes, of.dtype) != dtypes.end());
    CHECK(seen.insert(of.key() + "|" + of.features_text()).second);
  }
  CHECK(seen.contains("dense_forward rerank-10k bf16|"));
  CHECK(seen.contains("dense_forward rerank-10k bf16|q_mask d_mask normalize save_argmax"));
  CHECK(seen.contains("fp8_forward colpali fp8_e4m3|scale_q_per_token scale_d_per_token"));
  CHECK(seen.contains("residual_forward plaid2 f16|normalize"));
}

TEST_CASE("ops, shapes and features are chosen by name") {
  const auto one = bench_cases(real_ops(), {"dense_forward", "colpali", "normalize,q_mask", false});
  REQUIRE(one.size() == 3);  // bf16, f32, f16; those with every feature have the asked ones too, and are the same
  for (const BenchCase &of : one) CHECK(of.features_text() == "q_mask normalize");
  CHECK(bench_cases(real_ops(), {"dense_forward", "d768", "none", false}).size() == 1);
  CHECK(bench_cases(real_ops(), {"", "plaid2", "all", false}).front().features == 0b1111);
  std::set<std::string> quick;
  for (const BenchCase &of : bench_cases(real_ops(), {"", "", "", true})) quick.insert(of.shape);
  CHECK(quick.size() == 4);
}

TEST_CASE("unknown names are usage errors that list the known ones") {
  CHECK(contains(refusal({"sparse", "", "", false}), "--ops names 'sparse'; accepted: dense_forward, fp8_forward"));
  CHECK(contains(refusal({"", "rerank-1k,", "", false}), "--shapes names ''; accepted: rerank-1k, "));
  CHECK(contains(refusal({"", "", "bias", false}), "'bias'; dense_forward has q_mask"));
  CHECK(refusal({"fused_head_forward", "colpali", "", false}) ==
        "--shapes is 'colpali', but --ops is 'fused_head_forward'; accepted with it: head-512, head-1024, "
        "head-256-long, head-512-q4, head-128-q32");
}
