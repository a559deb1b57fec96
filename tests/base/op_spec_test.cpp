#include "base/op_spec.h"

#include <doctest/doctest.h>

namespace msj {

namespace {

constexpr std::array<FeatureSpec, 3> kFeatures = {{
    {"q_mask", FeatureSpec::Source::presence, 1},
    {"normalize", FeatureSpec::Source::flag, -1, 1},
    {"save_argmax", FeatureSpec::Source::presence, 2},
}};

OpSpec op_with_features() {
  OpSpec op{};
  op.features = kFeatures;
  return op;
}

OperandSpec operand(DtypeRule::Kind kind, bool optional, bool streamed = false, int follows = -1) {
  return {.name = "x",
          .rank = 1,
          .dims = {},
          .dtype = {kind, DType::f32, {}, follows},
          .optional = optional,
          .streamed = streamed};
}

bool valid_operands(const std::vector<OperandSpec> &operands) { return valid(operands, {}); }

}  // namespace

TEST_CASE("feature names, in the table's order") {
  const OpSpec op = op_with_features();
  CHECK(op.feature_count() == 3);
  CHECK(op.all_features() == 7);
  CHECK(feature_names(op, 0).empty());
  CHECK(feature_names(op, 5) == std::vector<std::string>{"q_mask", "save_argmax"});
  CHECK(feature_names(op, 7) == std::vector<std::string>{"q_mask", "normalize", "save_argmax"});
  CHECK(find_named(op.features, "normalize") == 1);
  CHECK(find_named(op.features, "bias") == -1);
}

TEST_CASE("a table can't give an optional operand a dtype or a layout of its own") {
  using Kind = DtypeRule::Kind;
  CHECK(valid_operands({operand(Kind::own, false, true), operand(Kind::follows, true, false, 0)}));
  CHECK_FALSE(valid_operands({operand(Kind::own, true)}));
  CHECK_FALSE(valid_operands({operand(Kind::own, false), operand(Kind::fixed, true, true)}));
  CHECK_FALSE(valid_operands({operand(Kind::fixed, false), operand(Kind::follows, true, false, 0)}));
  CHECK_FALSE(valid_operands({operand(Kind::follows, true, false, 5)}));
}

TEST_CASE("a feature follows from an operand or from a flag, never from both or neither") {
  const auto valid_feature = [](FeatureSpec feature) { return valid({}, std::span<const FeatureSpec>(&feature, 1)); };
  CHECK(valid_feature({"f", FeatureSpec::Source::flag, -1, 1}));
  CHECK(valid_feature({"f", FeatureSpec::Source::presence, 0, 0}));
  CHECK_FALSE(valid_feature({"f", FeatureSpec::Source::presence, 0, 1}));
  CHECK_FALSE(valid_feature({"f", FeatureSpec::Source::flag, 0, 1}));
  CHECK_FALSE(valid_feature({"f", FeatureSpec::Source::flag, -1, 0}));
}

}  // namespace msj
