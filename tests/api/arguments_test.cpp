// What a caller can get wrong: each mistake has a status and a sentence that names the argument, what it was and what
// is accepted. None of them compiles, loads or launches anything.
#include <doctest/doctest.h>

#include <functional>
#include <limits>

#include "support/sentences.h"
#include "support/session.h"

using namespace msj;
using namespace msj::testing;

namespace {

const OpSpec &dense() { return *ops::find_op("dense_forward")->spec; }

// A call with every operand, changed by `spoil`, must be refused with these words in the sentence.
struct Mistake {
  const char *what;
  std::function<void(OpCall &)> spoil;
  msj_status status;
  std::vector<std::string> words;
};

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
constexpr auto kInvalid = MSJ_ERROR_INVALID_ARGUMENT;

std::vector<Mistake> mistakes() {
  static msj_param twice[2] = {{MSJ_PARAM_EMPTY_DOC, 0, {0}}, {MSJ_PARAM_EMPTY_DOC, 0, {1}}};
  static msj_param out_of_range = {MSJ_PARAM_EMPTY_DOC, 0, {2}};
  static msj_param negative = {MSJ_PARAM_EMPTY_DOC, 0, {-1}};
  static msj_param unknown = {77, 0, {0}};
  static msj_param not_zero = {MSJ_PARAM_EMPTY_DOC, 5, {0}};
  static std::array<const msj_tensor *, MSJ_DENSE_FORWARD_OPERANDS + 2> longer{};
  static msj_tensor of_no_one{};
  const auto tensor = [](const char *operand, std::function<void(msj_tensor &)> spoil) {
    return [operand, spoil](OpCall &call) { spoil(call.tensor(operand)); };
  };
  const auto params = [](const msj_param *list, std::size_t count) {
    return [list, count](OpCall &call) {
      call.call().params = list;
      call.call().param_count = count;
    };
  };
  return {
      {"op", [](OpCall &c) { c.call().op = 99; }, kInvalid, {"op is 99"}},
      {"device", [](OpCall &c) { c.call().device = -2; }, kInvalid, {"device is -2", "MSJ_DEVICE_CPU"}},
      {"ordinal", [](OpCall &c) { c.call().device = 7; }, kInvalid, {"device is 7", "0"}},
      {"call size", [](OpCall &c) { c.call().struct_size = 8; }, kInvalid, {"struct_size of call is 8"}},
      {"call size 0", [](OpCall &c) { c.call().struct_size = 0; }, kInvalid, {"struct_size of call is 0"}},
      {"call size mad", [](OpCall &c) { c.call().struct_size = kHuge; }, kInvalid, {"struct_size of call"}},
      {"tensor size", tensor("q", [](msj_tensor &t) { t.struct_size = 1; }), kInvalid, {"struct_size of q is 1"}},
      {"no operands", [](OpCall &c) { c.call().operands = nullptr; }, kInvalid, {"operands is null", "7"}},
      {"too few operands", [](OpCall &c) { c.call().operand_count = 1; }, kInvalid, {"d is absent", "[Nd, Ld, d]"}},
      {"too many operands",
       [](OpCall &c) {
         std::copy_n(c.call().operands, MSJ_DENSE_FORWARD_OPERANDS, longer.begin());
         longer.back() = &of_no_one;
         c.call().operands = longer.data();
         c.call().operand_count = longer.size();
       },
       kInvalid,
       {"operands[8]", "7 operands"}},
      {"absent", [](OpCall &c) { c.drop("scores"); }, kInvalid, {"scores is absent", "[Nq, Nd]"}},
      {"rank", tensor("q", [](msj_tensor &t) { t.rank = 2; }), kInvalid, {"rank of q is 2", "3", "[Nq, Lq, d]"}},
      {"rank of a mask", tensor("d_mask", [](msj_tensor &t) { t.rank = 7; }), kInvalid, {"rank of d_mask is 7", "2"}},
      {"no dtype", tensor("q", [](msj_tensor &t) { t.dtype = 42; }), kInvalid, {"dtype of q is 42"}},
      {"dtype", tensor("q", [](msj_tensor &t) { t.dtype = MSJ_I32; }), kInvalid, {"dtype of q is i32", "bf16", "f32"}},
      {"two dtypes", tensor("d", [](msj_tensor &t) { t.dtype = MSJ_F16; }), kInvalid, {"dtype of d is f16", "bf16"}},
      {"float mask",
       tensor("q_mask", [](msj_tensor &t) { t.dtype = MSJ_F32; }),
       kInvalid,
       {"dtype of q_mask is f32", "i8", "u8", "bool"}},
      {"long lengths",
       tensor("d_lengths", [](msj_tensor &t) { t.dtype = MSJ_I64; }),
       kInvalid,
       {"dtype of d_lengths is i64", "i32"}},
      {"scores", tensor("scores", [](msj_tensor &t) { t.dtype = MSJ_F16; }), kInvalid, {"dtype of scores", "f32"}},
      {"unequal d",
       tensor("d", [](msj_tensor &t) { t.shape[2] += 1; }),
       kInvalid,
       {"shape[2] of d is 129", "q gives d = 128"}},
      {"unequal Nd",
       tensor("scores", [](msj_tensor &t) { t.shape[1] = 3; }),
       kInvalid,
       {"shape[1] of scores is 3", "d gives Nd = 19"}},
      {"unequal Lq",
       tensor("argmax", [](msj_tensor &t) { t.shape[2] = 1; }),
       kInvalid,
       {"shape[2] of argmax is 1", "q gives Lq"}},
      {"negative", tensor("q", [](msj_tensor &t) { t.shape[0] = -3; }), kInvalid, {"shape[0] of q is -3"}},
      {"overflow", tensor("d", [](msj_tensor &t) { t.strides[0] = kHuge / 4; }), kInvalid, {"strides of d", "2^63"}},
      {"negative overflow", tensor("d", [](msj_tensor &t) { t.strides[0] = -kHuge / 2; }), kInvalid, {"strides of d"}},
      {"sum overflow",
       tensor("d",
              [](msj_tensor &t) {
                t.strides[0] = kHuge / 2 / (t.shape[0] - 1);
                t.strides[1] = -kHuge / 2 / (t.shape[1] - 1);
              }),
       kInvalid,
       {"strides of d"}},
      {"written twice",
       tensor("scores", [](msj_tensor &t) { t.strides[0] = 0; }),
       kInvalid,
       {"stride 0 of scores is 0"}},
      {"written twice",
       tensor("argmax", [](msj_tensor &t) { t.strides[2] = 0; }),
       kInvalid,
       {"stride 2 of argmax is 0"}},
      {"a mask of integers",
       tensor("q_mask", [](msj_tensor &t) { t.dtype = MSJ_I64; }),
       kInvalid,
       {"dtype of q_mask is i64", "bool is accepted", "mask.astype(bool)", "mask.bool()"}},
      {"a result in an input",
       [](OpCall &c) { c.tensor("scores").data = c.tensor("q").data; },
       kInvalid,
       {"scores at 0x", "shares bytes with q at 0x"}},
      {"two results in one place",
       [](OpCall &c) { c.tensor("argmax").data = c.tensor("scores").data; },
       kInvalid,
       {"argmax at 0x", "shares bytes with scores at 0x"}},
      {"two results in one place, each with gaps",
       [](OpCall &c) {
         msj_tensor &scores = c.tensor("scores");
         msj_tensor &argmax = c.tensor("argmax");
         scores.strides[0] = argmax.strides[0] = 10'000;
         scores.strides[1] = 7;
         argmax.data = static_cast<char *>(scores.data) + 4;
         argmax.strides[1] = 66;
         argmax.strides[2] = 2;
       },
       kInvalid,
       {"argmax at 0x", "shares bytes with scores at 0x"}},
      {"three dimensions in one place",
       tensor("argmax", [](msj_tensor &t) { t.strides[1] = 34; }),
       kInvalid,
       {"strides of argmax are [627, 34, 1] over a shape of [5, 19, 33]", "a place for each element"}},
      {"two in one place",
       tensor("scores", [](msj_tensor &t) { t.strides[0] = 1; }),
       kInvalid,
       {"strides 0 and 1 of scores are 1 and 1", "a place for each element"}},
      {"two in one place, backwards",
       tensor("argmax", [](msj_tensor &t) { t.strides[1] = -t.strides[2]; }),
       kInvalid,
       {"strides 1 and 2 of argmax are -1 and 1"}},
      {"no rank", tensor("q", [](msj_tensor &t) { t.rank = 0; }), kInvalid, {"rank of q is 0", "3"}},
      {"negative rank", tensor("q", [](msj_tensor &t) { t.rank = -1; }), kInvalid, {"rank of q is -1", "3"}},
      {"shape overflow",
       tensor("d", [](msj_tensor &t) { t.shape[0] = kHuge; }),
       kInvalid,
       {"shape and strides of d", "2^63"}},
      {"params twice too many", params(nullptr, kHuge), kInvalid, {"params is null"}},
      {"operands too many",
       [](OpCall &c) {
         c.call().operands = nullptr;
         c.call().operand_count = kHuge;
       },
       kInvalid,
       {"operands is null"}},
      {"op 0", [](OpCall &c) { c.call().op = 0; }, kInvalid, {"op is 0"}},
      {"every flag", [](OpCall &c) { c.call().flags = ~std::uint64_t{0}; }, kInvalid, {"flags is 0xffffffffffffffff"}},
      {"unaligned",
       tensor("q", [](msj_tensor &t) { t.data = static_cast<char *>(t.data) + 1; }),
       kInvalid,
       {"data of q", "2 bytes"}},
      {"null", tensor("d", [](msj_tensor &t) { t.data = nullptr; }), kInvalid, {"data of d is null"}},
      {"null result", tensor("argmax", [](msj_tensor &t) { t.data = nullptr; }), kInvalid, {"data of argmax is null"}},
      {"flags", [](OpCall &c) { c.call().flags |= 0x80; }, kInvalid, {"flags is 0x81", "0x1"}},
      {"params null", params(nullptr, 2), kInvalid, {"params is null", "param_count is 2"}},
      {"params unknown", params(&unknown, 1), kInvalid, {"params[0].id is 77", "dense_forward"}},
      {"params twice", params(twice, 2), kInvalid, {"empty_doc twice"}},
      {"params range", params(&out_of_range, 1), kInvalid, {"empty_doc is 2", "0 to 1"}},
      {"params range", params(&negative, 1), kInvalid, {"empty_doc is -1"}},
      {"params zero", params(&not_zero, 1), kInvalid, {"params[0].zero is 5"}},
  };
}

}  // namespace

TEST_CASE("each mistake is refused by name") {
  FakeGpu gpu;
  const ScratchDirectory cache;
  Session session(cache.path(), "off");
  for (const Mistake &mistake : mistakes()) {
    CAPTURE(mistake.what);
    CallShape shape = small_call(dense(), dense().all_features());
    shape.featureless = true;
    OpCall call(shape);
    mistake.spoil(call);
    check_sentence(session.run(call), mistake.status, mistake.words);
  }
  const msj_counters stats = session.stats();
  CHECK(stats.nvrtc_invocations == 0);
  CHECK(stats.module_loads == 0);
  CHECK(gpu->launch_count() == 0);
}

TEST_CASE("prepare and workspace_size refuse the same mistakes") {
  FakeGpu gpu;
  const ScratchDirectory cache;
  Session session(cache.path(), "off");
  for (const Mistake &mistake : mistakes()) {
    const std::string what = mistake.what;
    if (what.find("null") == 0 || what == "a result in an input" || what.starts_with("two results")) continue;
    // …those are of data, which is not asked for here.
    CAPTURE(what);
    CallShape shape = small_call(dense(), dense().all_features());
    shape.featureless = true;
    OpCall call(shape);
    mistake.spoil(call);
    std::size_t bytes = 1;
    check_sentence(msj_prepare(session.get(), &call.call(), nullptr, nullptr), mistake.status, mistake.words);
    check_sentence(msj_workspace_size(session.get(), &call.call(), &bytes), mistake.status, mistake.words);
  }
  CHECK(session.stats().nvrtc_invocations == 0);
}

TEST_CASE("sizes: 1 to 4,096 for d, and nothing above a limit") {
  FakeGpu gpu;
  const ScratchDirectory cache;
  Session session(cache.path(), "off");
  const auto run_with = [&](const char *size, std::int64_t value) {
    CallShape shape = small_call(dense());
    shape.sizes[static_cast<std::size_t>(find_named(dense().sizes, size))] = value;
    return session.run(shape);
  };
  check_sentence(run_with("d", 0), kInvalid, {"d is 0", "1 to 4096"});
  check_sentence(run_with("d", 4097), MSJ_ERROR_UNSUPPORTED, {"d is 4097", "4096"});
  check_sentence(run_with("Lq", (std::int64_t{1} << 30) + 1), MSJ_ERROR_UNSUPPORTED, {"Lq is 1073741825"});
  check_sentence(run_with("Nq", (std::int64_t{1} << 40) + 1), MSJ_ERROR_UNSUPPORTED, {"Nq is 1099511627777"});
}

TEST_CASE("a struct of a later version is taken if its tail is zero") {
  FakeGpu gpu;
  const ScratchDirectory cache;
  Session session(cache.path(), "off");
  OpCall call(small_call(dense()));
  struct Later {
    msj_call known;
    std::uint64_t tail[4];
  } later{call.call(), {}};
  later.known.struct_size = sizeof later;
  std::size_t bytes = 0;
  CHECK(msj_workspace_size(session.get(), &later.known, &bytes) == MSJ_OK);
  later.tail[2] = 1;
  check_sentence(msj_workspace_size(session.get(), &later.known, &bytes), kInvalid,
                 {"call has a nonzero byte at", std::to_string(sizeof(msj_call))});

  struct LaterTensor {
    msj_tensor known;
    std::uint64_t tail;
  } tensor{call.tensor("q"), 0};
  tensor.known.struct_size = sizeof tensor;
  std::array<const msj_tensor *, MSJ_DENSE_FORWARD_OPERANDS> operands{};
  std::copy_n(call.call().operands, operands.size(), operands.begin());
  operands[MSJ_DENSE_FORWARD_Q] = &tensor.known;
  call.call().operands = operands.data();
  CHECK(msj_workspace_size(session.get(), &call.call(), &bytes) == MSJ_OK);
  tensor.tail = 1;
  check_sentence(msj_workspace_size(session.get(), &call.call(), &bytes), kInvalid, {"q has a nonzero byte"});
}
