// MSJ_DEVICE_CPU: the same call on host tensors, without a GPU, a driver or NVRTC. Values small enough to check by
// hand.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <vector>

#include "maxsim_jit/maxsim_jit.h"
#include "support/scratch.h"

using namespace msj::testing;

namespace {

// One query of two tokens, two documents of three tokens, d = 2.
struct Problem {
  std::array<float, 4> q = {1, 0, 0, 2};
  std::array<float, 12> d = {1,  1, 3, 0, 0, 2,   // document 0
                             -1, 4, 1, 4, 0, 0};  // document 1
  std::array<std::uint8_t, 2> q_mask = {1, 1};
  std::array<std::uint8_t, 6> d_mask = {1, 1, 1, 1, 1, 1};
  std::array<std::int32_t, 2> lengths = {3, 3};
  std::array<float, 2> scores = {-99, -99};
  std::array<std::int32_t, 4> argmax = {-99, -99, -99, -99};
  bool with_q_mask = false;
  bool with_d_mask = false;
  bool with_lengths = false;
  std::uint64_t flags = 0;
  std::int64_t empty_doc = MSJ_EMPTY_DOC_ZERO;
};

msj_tensor view(void *data, msj_dtype dtype, const std::vector<std::int64_t> &shape) {
  msj_tensor tensor{};
  tensor.struct_size = sizeof tensor;
  tensor.data = data;
  tensor.dtype = dtype;
  tensor.rank = static_cast<std::int32_t>(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    tensor.shape[i] = shape[i];
    tensor.strides[i] = stride;
    stride *= shape[i];
  }
  return tensor;
}

class CpuContext {
 public:
  CpuContext() {
    msj_context_options options{};
    options.struct_size = sizeof options;
    options.cache_dir = scratch_.path().c_str();
    REQUIRE(msj_context_create(&options, &context_) == MSJ_OK);
  }
  ~CpuContext() { CHECK(msj_context_destroy(context_) == MSJ_OK); }
  [[nodiscard]] msj_context *get() const { return context_; }
  [[nodiscard]] const std::string &cache() const { return scratch_.path(); }

 private:
  ScratchDirectory scratch_;
  ScopedEnvironment no_driver_{"MAXSIM_JIT_LIBCUDA", "/nowhere/libcuda.so"};
  ScopedEnvironment no_nvrtc_{"MAXSIM_JIT_LIBNVRTC", "/nowhere/libnvrtc.so"};
  msj_context *context_ = nullptr;
};

msj_status score(const CpuContext &context, Problem &p) {
  const msj_tensor q = view(p.q.data(), MSJ_F32, {1, 2, 2});
  const msj_tensor d = view(p.d.data(), MSJ_F32, {2, 3, 2});
  const msj_tensor q_mask = view(p.q_mask.data(), MSJ_BOOL, {1, 2});
  const msj_tensor d_mask = view(p.d_mask.data(), MSJ_U8, {2, 3});
  const msj_tensor lengths = view(p.lengths.data(), MSJ_I32, {2});
  const msj_tensor scores = view(p.scores.data(), MSJ_F32, {1, 2});
  const msj_tensor argmax = view(p.argmax.data(), MSJ_I32, {1, 2, 2});
  const std::array<const msj_tensor *, MSJ_DENSE_FORWARD_OPERANDS> operands = {&q,
                                                                               &d,
                                                                               p.with_q_mask ? &q_mask : nullptr,
                                                                               p.with_d_mask ? &d_mask : nullptr,
                                                                               p.with_lengths ? &lengths : nullptr,
                                                                               &scores,
                                                                               &argmax};
  const msj_param empty_doc = {MSJ_PARAM_EMPTY_DOC, 0, {p.empty_doc}};
  msj_call call{};
  call.struct_size = sizeof call;
  call.op = MSJ_DENSE_FORWARD;
  call.device = MSJ_DEVICE_CPU;
  call.operands = operands.data();
  call.operand_count = operands.size();
  call.params = &empty_doc;
  call.param_count = 1;
  call.flags = p.flags;
  return msj_run(context.get(), &call);
}

}  // namespace

TEST_CASE("scores and argmax by hand") {
  const CpuContext context;
  Problem p;
  // token 0 picks max of (1, 3, 0) and of (-1, 1, 0); token 1 of (2, 0, 4) and of (8, 8, 0): the lowest index of a tie.
  REQUIRE(score(context, p) == MSJ_OK);
  CHECK(p.scores == std::array<float, 2>{7, 9});
  CHECK(p.argmax == std::array<std::int32_t, 4>{1, 2, 1, 0});
}

TEST_CASE("masks and lengths") {
  const CpuContext context;
  Problem p;
  p.with_q_mask = p.with_d_mask = p.with_lengths = true;
  p.q_mask = {0, 7};  // any nonzero byte keeps
  p.d_mask = {1, 1, 1, 0, 1, 1};
  p.lengths = {2, 1};
  REQUIRE(score(context, p) == MSJ_OK);
  CHECK(p.scores == std::array<float, 2>{2, 0});  // document 1 has no active token
  CHECK(p.argmax == std::array<std::int32_t, 4>{-1, 0, -1, -1});
  p.empty_doc = MSJ_EMPTY_DOC_NEG_INF;
  REQUIRE(score(context, p) == MSJ_OK);
  CHECK(p.scores == std::array<float, 2>{2, -INFINITY});
  p.q_mask = {0, 0};  // no active query token: 0, whatever the documents hold
  REQUIRE(score(context, p) == MSJ_OK);
  CHECK(p.scores == std::array<float, 2>{0, 0});
  CHECK(p.argmax == std::array<std::int32_t, 4>{-1, -1, -1, -1});
  p.with_q_mask = p.with_d_mask = false;
  p.lengths = {-4, 100};  // below 0 counts as 0, above Ld as Ld
  REQUIRE(score(context, p) == MSJ_OK);
  CHECK(p.scores == std::array<float, 2>{-INFINITY, 9});
}

TEST_CASE("normalize") {
  const CpuContext context;
  Problem p;
  p.flags = MSJ_FLAG_NORMALIZE;
  REQUIRE(score(context, p) == MSJ_OK);
  CHECK(p.scores[0] == doctest::Approx(1 + 1));  // (3, 0) and (0, 2) are parallel
  CHECK(p.scores[1] == doctest::Approx(1 / std::sqrt(17.0) + 4 / std::sqrt(17.0)));
  CHECK(p.argmax == std::array<std::int32_t, 4>{1, 2, 1, 0});
}

TEST_CASE("a masked NaN has no effect, an active one is the score") {
  const CpuContext context;
  Problem p;
  p.d[2] = NAN;  // document 0, token 1
  REQUIRE(score(context, p) == MSJ_OK);
  CHECK(std::isnan(p.scores[0]));
  CHECK(p.scores[1] == 9);
  CHECK(p.argmax[0] == 1);
  p.with_d_mask = true;
  p.d_mask = {1, 0, 1, 1, 1, 1};
  REQUIRE(score(context, p) == MSJ_OK);
  CHECK(p.scores == std::array<float, 2>{5, 9});
}

TEST_CASE("the CPU needs no driver, no NVRTC and no cache") {
  const CpuContext context;
  Problem p;
  REQUIRE(score(context, p) == MSJ_OK);
  msj_counters counters{};
  counters.struct_size = sizeof counters;
  REQUIRE(msj_stats(context.get(), &counters) == MSJ_OK);
  CHECK(counters.nvrtc_invocations == 0);
  CHECK(counters.launches == 0);
  CHECK(std::filesystem::is_empty(context.cache()));
}
