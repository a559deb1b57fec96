// Strides [1, 1] give two results one place without any stride being 0.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "maxsim_jit/maxsim_jit.h"

namespace {

msj_status score(std::int64_t first, std::int64_t second) {
  msj_context *context = nullptr;
  REQUIRE(msj_context_create(nullptr, &context) == MSJ_OK);
  std::vector<float> q(3 * 2 * 4, 1.0F);
  std::vector<float> d(5 * 2 * 4, 1.0F);
  std::vector<float> scores(64);
  const msj_tensor q_tensor = {sizeof(msj_tensor), q.data(), MSJ_F32, 3, {3, 2, 4}, {8, 4, 1}};
  const msj_tensor d_tensor = {sizeof(msj_tensor), d.data(), MSJ_F32, 3, {5, 2, 4}, {8, 4, 1}};
  const msj_tensor s_tensor = {sizeof(msj_tensor), scores.data() + 32, MSJ_F32, 2, {3, 5}, {first, second}};
  const msj_tensor *operands[MSJ_DENSE_FORWARD_OPERANDS] = {&q_tensor, &d_tensor};
  operands[MSJ_DENSE_FORWARD_SCORES] = &s_tensor;
  msj_call call{};
  call.struct_size = sizeof call;
  call.op = MSJ_DENSE_FORWARD;
  call.device = MSJ_DEVICE_CPU;
  call.operands = operands;
  call.operand_count = MSJ_DENSE_FORWARD_OPERANDS;
  const msj_status status = msj_run(context, &call);
  const std::string sentence = msj_last_error();
  REQUIRE(msj_context_destroy(context) == MSJ_OK);
  if (status != MSJ_OK) CHECK(sentence.find("elements share a place") != std::string::npos);
  return status;
}

}  // namespace

TEST_CASE("a result whose elements share a place is refused, any other layout is not") {
  CHECK(score(1, 1) == MSJ_ERROR_INVALID_ARGUMENT);
  CHECK(score(4, 1) == MSJ_ERROR_INVALID_ARGUMENT);
  CHECK(score(1, 2) == MSJ_ERROR_INVALID_ARGUMENT);
  CHECK(score(5, 1) == MSJ_OK);
  CHECK(score(1, 3) == MSJ_OK);
  CHECK(score(-5, -1) == MSJ_OK);
  CHECK(score(10, 2) == MSJ_OK);
}
