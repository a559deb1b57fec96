#include "cli/op_table.h"

#include <doctest/doctest.h>

#include "cli/failure.h"
#include "cli/made_up_ops.h"

using namespace msj::cli;
using namespace msj::testing;

TEST_CASE("a described op is read whole") {
  const auto ops = made_up_ops();
  REQUIRE(ops.size() == 2);
  const OpInfo &op = find_op(ops, "plain");
  CHECK(op.id == 1);
  CHECK(op.sizes.size() == 5);
  CHECK(op.sizes[4].is_static);
  CHECK(op.sizes[4].default_value == 128);
  const OperandInfo *d = op.find_operand("d");
  REQUIRE(d != nullptr);
  CHECK(d->kind == OperandInfo::DTypeKind::follows);
  CHECK(d->accepted == std::vector{DType::bf16, DType::f16, DType::f32});  // those of q
  CHECK(d->dims == std::vector<std::string>{"Nd", "Ld", "d"});
  const OperandInfo *argmax = op.find_operand("argmax");
  REQUIRE(argmax != nullptr);
  CHECK(argmax->is_result);
  CHECK(argmax->optional);
  CHECK(argmax->canonical == DType::i32);
  CHECK(op.find_operand("h") == nullptr);
  CHECK(op.features[1].flag == 4);
  CHECK(op.features[2].operand == "argmax");
  CHECK(op.representative_features == 2);
  CHECK(find_op(ops, "scaled").features[0].source == FeatureInfo::Source::rank);
  CHECK(find_op(ops, "scaled").representative_features == 0);
}

TEST_CASE("feature sets have the names of their bits") {
  const auto ops = made_up_ops();
  CHECK(ops[0].all_features() == 7);
  CHECK(ops[0].feature_names(0).empty());
  CHECK(ops[0].feature_names(5) == std::vector<std::string>{"d_mask", "save_argmax"});
}

TEST_CASE("the dtypes of matrices are those of operands with their own, each once") {
  const auto ops = made_up_ops();
  CHECK(names(ops[0].matrix_dtypes()) == "bf16, f16, f32");
  CHECK(names(ops[1].matrix_dtypes()) == "fp8_e4m3, fp8_e5m2");
}

TEST_CASE("what is no description is refused in one sentence") {
  CHECK(contains(sentence_of<Failure>([] { static_cast<void>(parse_ops("{")); }), "cannot be read"));
  CHECK(contains(sentence_of<Failure>([] { static_cast<void>(parse_ops(R"({"schema": "maxsim-jit/ops/2"})")); }),
                 "maxsim-jit/ops/2"));
  CHECK(contains(sentence_of<Failure>([] { static_cast<void>(parse_ops(R"({"schema": "maxsim-jit/ops/1"})")); }),
                 "cannot be read"));
  CHECK(contains(
      sentence_of<Failure>([] { static_cast<void>(parse_ops(R"({"schema": "maxsim-jit/ops/1", "ops": []})")); }),
      "no op"));
}

TEST_CASE("an unknown op is answered with the known ones") {
  const auto ops = made_up_ops();
  CHECK(sentence_of<UsageError>([&] { static_cast<void>(find_op(ops, "dense")); }) ==
        "--op is 'dense'; accepted: plain, scaled");
}

TEST_CASE("names on the command line") {
  CHECK(option_name("d_lengths") == "--d-lengths");
  CHECK(dtype_from("fp16") == DType::f16);
  CHECK(dtype_from("f16") == DType::f16);
  CHECK(dtype_from("fp32") == DType::f32);
  CHECK(dtype_from("bool") == DType::boolean);
  CHECK_FALSE(dtype_from("float16").has_value());
  CHECK(name(DType::fp8_e5m2) == "fp8_e5m2");
  const auto ops = made_up_ops();
  CHECK(matrix_dtype_names(std::span(ops).first(1)) == names(ops[0].matrix_dtypes()));
  CHECK(matrix_dtype_names(ops) ==
        names(ops[0].matrix_dtypes()) + " (plain); " + names(ops[1].matrix_dtypes()) + " (scaled)");
}
