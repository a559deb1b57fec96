// What binding derives from a call: sizes, features, the canonical dtypes, the layout class, the params. The mistakes
// that it refuses are in tests/api/arguments_test.cpp.
#include <doctest/doctest.h>

#include <limits>

#include "base/error.h"
#include "ops/bind.h"
#include "support/op_calls.h"

using namespace msj;
using namespace msj::testing;

TEST_CASE("a bound call is what the table says, for every feature set, dtype and layout") {
  for (const ops::Op &op : ops::all_ops()) {
    for (const auto &own : own_dtypes(*op.spec)) {
      for (const FeatureSet set : all_feature_sets(*op.spec)) {
        for (const Strides streamed : kStrides) {
          CallShape shape = small_call(*op.spec, set, streamed);
          shape.own = own;
          shape.alternative = set;
          shape.featureless = true;  // every size has an operand that gives it
          OpCall call(shape);
          const BoundCall bound = ops::bind(call.call(), ops::DataRule::needed);
          CHECK(bound.op == op.spec);
          CHECK(bound.features == set);
          CHECK(bound.sizes == shape.sizes);
          CHECK(bound.layout == layout_of(streamed));
          std::size_t next_own = 0;
          for (std::size_t i = 0; i < op.spec->operands.size(); ++i) {
            const DtypeRule &rule = op.spec->operands[i].dtype;
            if (rule.kind == DtypeRule::Kind::own) CHECK(bound.dtypes[i] == own[next_own++]);
            if (rule.kind == DtypeRule::Kind::fixed) CHECK(bound.dtypes[i] == rule.canonical);
            if (rule.kind == DtypeRule::Kind::follows) {
              CHECK(bound.dtypes[i] == bound.dtypes[static_cast<std::size_t>(rule.follows)]);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("each streamed operand alone decides the class") {
  for (const ops::Op &op : ops::all_ops()) {
    for (std::size_t i = 0; i < op.spec->operands.size(); ++i) {
      CAPTURE(op.spec->operands[i].name);
      CallShape shape = small_call(*op.spec, op.spec->all_features());
      shape.featureless = true;
      OpCall call(shape);
      msj_tensor &tensor = call.tensor(i);
      const Layout expected = op.spec->operands[i].streamed ? Layout::any : Layout::aligned16;
      const auto layout = [&] { return ops::bind(call.call(), ops::DataRule::needed).layout; };
      const msj_tensor good = tensor;
      CHECK(layout() == Layout::aligned16);
      tensor.data = static_cast<char *>(tensor.data) + 8;  // a multiple of every element, not of 16
      CHECK(layout() == expected);
      tensor = good;
      for (int r = 0; r < tensor.rank; ++r) tensor.strides[r] *= 2;
      CHECK(layout() == expected);
      tensor = good;
      for (int r = 0; r + 1 < tensor.rank; ++r) {
        tensor.strides[r] += 1;
        if (r > 0 && op.spec->operands[i].is_result) tensor.strides[0] *= 2;  // room for it
        CHECK(layout() == expected);
        // What bulk copies can't express: backwards by whole rows, the same row again, too far apart.
        for (const std::int64_t stride : {-good.strides[r], std::int64_t{0}, std::int64_t{1} << 40}) {
          if (stride == 0 && op.spec->operands[i].is_result) continue;  // refused
          tensor.strides[r] = stride;
          CHECK(layout() == expected);
        }
        tensor = good;
      }
    }
  }
}

TEST_CASE("inputs may be broadcast and overlap, results may not") {
  for (const ops::Op &op : ops::all_ops()) {
    for (std::size_t i = 0; i < op.spec->operands.size(); ++i) {
      CAPTURE(op.spec->operands[i].name);
      CallShape shape = small_call(*op.spec, op.spec->all_features());
      shape.featureless = true;
      OpCall call(shape);
      call.tensor(i).strides[0] = 0;
      if (op.spec->operands[i].is_result) {
        CHECK_THROWS_AS((void)ops::bind(call.call(), ops::DataRule::needed), Error);
      } else {
        CHECK_NOTHROW((void)ops::bind(call.call(), ops::DataRule::needed));
      }
    }
  }
}

TEST_CASE("a tensor without elements needs no data and may have any strides") {
  const OpSpec &op = *ops::find_op("dense_forward")->spec;
  CallShape shape = small_call(op);
  shape.sizes[3] = 0;  // Ld
  OpCall call(shape);
  call.tensor("d").data = nullptr;
  call.tensor("d").strides[0] = std::numeric_limits<std::int64_t>::max();
  const BoundCall bound = ops::bind(call.call(), ops::DataRule::needed);
  CHECK(bound.layout == Layout::aligned16);
  CHECK_FALSE(ops::has_no_result(bound));
}

// Rows of nothing are counted by the kernel too, in 32 bits where it has tensor maps.
TEST_CASE("a tensor of 2^31 rows is not of class aligned16, with elements or without") {
  const OpSpec &op = *ops::find_op("dense_forward")->spec;
  for (const std::int64_t tokens : {0, 1}) {
    CallShape shape = small_call(op);
    OpCall call(shape);
    call.tensor("d").shape[1] = tokens;
    call.tensor("d").strides[0] = 128;
    for (const std::int64_t documents : {(std::int64_t{1} << 31) - 1, std::int64_t{1} << 31, std::int64_t{1} << 32}) {
      CAPTURE(documents);
      call.tensor("d").shape[0] = documents;
      call.tensor("scores").shape[1] = documents;
      call.tensor("scores").strides[0] = documents;
      for (const char *name : {"d_mask", "d_lengths", "argmax", "q_mask"}) call.tensor(name) = {};
      CHECK((ops::bind(call.call(), ops::DataRule::needed).layout == Layout::aligned16) ==
            (documents < std::int64_t{1} << 31));
    }
  }
}

TEST_CASE("params: defaults, and what is given") {
  const OpSpec &op = *ops::find_op("dense_forward")->spec;
  OpCall call(small_call(op));
  CHECK(ops::bind(call.call(), ops::DataRule::needed).params[0] == MSJ_EMPTY_DOC_ZERO);
  const msj_param infinite = {MSJ_PARAM_EMPTY_DOC, 0, {MSJ_EMPTY_DOC_NEG_INF}};
  call.call().params = &infinite;
  call.call().param_count = 1;
  CHECK(ops::bind(call.call(), ops::DataRule::needed).params[0] == MSJ_EMPTY_DOC_NEG_INF);
}

TEST_CASE("sizes past 2^31 and strides past 2^32 are taken") {
  const OpSpec &op = *ops::find_op("dense_forward")->spec;
  CallShape shape = small_call(op);
  shape.sizes = {3, std::int64_t{1} << 33, 7, 1000, 128};
  OpCall call(shape);
  const BoundCall bound = ops::bind(call.call(), ops::DataRule::needed);
  CHECK(bound.sizes[1] == std::int64_t{1} << 33);
  CHECK(bound.operands[1].strides[0] == 128'000);
  CHECK(bound.layout == Layout::any);  // more documents than a bulk copy's coordinates reach
}

TEST_CASE("a result may lie in the gaps of an input, and in no byte of one") {
  const OpSpec &op = *ops::find_op("dense_forward")->spec;
  CallShape shape = small_call(op);
  shape.own.assign(shape.own.size(), DType::f32);
  shape.sizes = {3, 1, 3, 5, 1};  // Nq, Nd, Lq, Ld, d
  OpCall call(shape);
  msj_tensor &q = call.tensor("q");
  q.strides[0] = q.strides[1] = 2;  // as many elements as its span has places, but every second place is free
  q.strides[2] = 7;
  msj_tensor &scores = call.tensor("scores");
  scores.strides[0] = 2;
  scores.data = static_cast<float *>(q.data) + 1;
  CHECK_NOTHROW(ops::check_results_apart(ops::bind(call.call(), ops::DataRule::needed)));
  q.strides[0] = 3;
  q.strides[1] = 1;  // now every place is an element
  CHECK_THROWS_AS(ops::check_results_apart(ops::bind(call.call(), ops::DataRule::needed)), Error);
  scores.data = static_cast<float *>(q.data) + 9;
  CHECK_NOTHROW(ops::check_results_apart(ops::bind(call.call(), ops::DataRule::needed)));
}

TEST_CASE("inputs whose elements are more than their places, or than any number, are told apart from results") {
  const OpSpec &op = *ops::find_op("dense_forward")->spec;
  CallShape shape = small_call(op);
  shape.sizes = {1, std::int64_t{1} << 21, 7, std::int64_t{1} << 30, 4096};
  OpCall call(shape);
  msj_tensor &d = call.tensor("d");
  d.strides[0] = d.strides[1] = d.strides[2] = 1;
  CHECK_NOTHROW(ops::check_results_apart(ops::bind(call.call(), ops::DataRule::needed)));
}

TEST_CASE("sizes of a residual index: what follows from others has to agree, and the hint is a param") {
  const OpSpec &op = *ops::find_op("residual_forward")->spec;
  const auto size = [&](const BoundCall &bound, std::string_view name) {
    return bound.sizes[static_cast<std::size_t>(find_named(op.sizes, name))];
  };
  CallShape shape = small_call(op);
  const auto sentence = [&](const auto &change) {
    OpCall call(shape);
    change(call);
    try {
      (void)ops::bind(call.call(), ops::DataRule::needed);
    } catch (const Error &error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  CHECK(sentence([](OpCall &) {}) == "accepted");
  CHECK(sentence([](OpCall &call) { call.tensor("bucket_weights").shape[0] = 8; }) ==
        "nbits is 3; 1, 2, 4, 8 is accepted");
  CHECK(sentence([](OpCall &call) { call.tensor("bucket_weights").shape[0] = 5; }) ==
        "shape[0] of bucket_weights is 5; 2^nbits is accepted, nbits 1, 2, 4, 8");
  CHECK(sentence([](OpCall &call) { call.tensor("residuals").shape[1] = 31; }) ==
        "shape[1] of residuals is 31; 32 is accepted, the bytes of d 128 of nbits 2");
  CHECK(sentence([](OpCall &call) { call.drop("d_starts"); }).starts_with("d_starts is absent"));
  for (const std::int64_t hint : {0, 17, 5000}) {
    shape.sizes[static_cast<std::size_t>(find_named(op.sizes, "Ld"))] = hint;
    OpCall call(shape);
    CHECK(size(ops::bind(call.call(), ops::DataRule::needed), "Ld") == hint);
  }
  OpCall without(shape);
  without.call().param_count = 0;
  CHECK(size(ops::bind(without.call(), ops::DataRule::needed), "Ld") == 256);
  CHECK(size(ops::bind(without.call(), ops::DataRule::needed), "nbits") == 2);
}

TEST_CASE("documents of residual_norms are given by both operands or by neither") {
  CallShape shape = small_call(*ops::find_op("residual_norms")->spec);
  shape.featureless = true;
  for (const char *operand : {"d_starts", "d_lengths"}) {
    OpCall call(shape);
    call.drop(operand);
    CHECK_THROWS_AS((void)ops::bind(call.call(), ops::DataRule::needed), Error);
    call.drop("d_starts");
    call.drop("d_lengths");
    CHECK_NOTHROW((void)ops::bind(call.call(), ops::DataRule::needed));
  }
}
