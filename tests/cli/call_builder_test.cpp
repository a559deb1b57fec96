#include "cli/call_builder.h"

#include <doctest/doctest.h>

#include "cli/made_up_ops.h"

using namespace msj::cli;
using namespace msj::testing;

namespace {

const msj_tensor *operand_of(const msj_call &call, std::size_t index) {
  return index < call.operand_count ? call.operands[index] : nullptr;
}

}  // namespace

TEST_CASE("every feature set becomes the presence of its operands and its flags, and nothing else") {
  const auto ops = made_up_ops();
  const SizeMap sizes = {{"Nq", 2}, {"Nd", 3}, {"Lq", 5}, {"Ld", 7}, {"d", 11}};
  for (FeatureSet set = 0; set <= ops[0].all_features(); ++set) {
    CAPTURE(set);
    const auto built = shapes_only_call(ops[0], sizes, {{"q", DType::bf16}}, set, 3);
    const msj_call &call = *built.get();
    CHECK(call.op == 1);
    CHECK(call.device == 3);
    CHECK(call.flags == ((set & 2) != 0 ? 4 : 0));
    CHECK(call.param_count == 0);
    REQUIRE(operand_of(call, 0) != nullptr);
    REQUIRE(operand_of(call, 1) != nullptr);
    CHECK((operand_of(call, 2) != nullptr) == ((set & 1) != 0));
    CHECK(operand_of(call, 3) == nullptr);  // no feature speaks of d_lengths
    CHECK(operand_of(call, 4) != nullptr);
    CHECK((operand_of(call, 5) != nullptr) == ((set & 4) != 0));
  }
}

TEST_CASE("tensors have the sizes' shapes, contiguous strides, the rules' dtypes and no data") {
  const auto ops = made_up_ops();
  const SizeMap sizes = {{"Nq", 2}, {"Nd", 3}, {"Lq", 5}, {"Ld", 7}, {"d", 11}};
  const auto built = shapes_only_call(ops[0], sizes, {{"q", DType::f16}}, 7, 0);
  const msj_tensor &d = *operand_of(*built.get(), 1);
  CHECK(d.struct_size == sizeof(msj_tensor));
  CHECK(d.data == nullptr);
  CHECK(d.dtype == MSJ_F16);  // follows q
  CHECK(d.rank == 3);
  CHECK(std::vector(d.shape, d.shape + 3) == std::vector<std::int64_t>{3, 7, 11});
  CHECK(std::vector(d.strides, d.strides + 3) == std::vector<std::int64_t>{77, 11, 1});
  CHECK(operand_of(*built.get(), 2)->dtype == MSJ_I8);
  CHECK(operand_of(*built.get(), 5)->dtype == MSJ_I32);
}

TEST_CASE("a feature of rank asks for the full rank, or for no operand") {
  const auto ops = made_up_ops();
  const SizeMap sizes = {{"Nq", 2}, {"Lq", 5}, {"d", 16}};
  const DTypeMap dtypes = {{"q", DType::fp8_e4m3}, {"d", DType::fp8_e5m2}};
  const auto off = shapes_only_call(ops[1], sizes, dtypes, 0, 0);
  CHECK(operand_of(*off.get(), 2) == nullptr);
  CHECK(operand_of(*off.get(), 1)->dtype == MSJ_FP8_E5M2);
  const auto on = shapes_only_call(ops[1], sizes, dtypes, 1, 0);
  REQUIRE(operand_of(*on.get(), 2) != nullptr);
  CHECK(operand_of(*on.get(), 2)->rank == 2);
}
