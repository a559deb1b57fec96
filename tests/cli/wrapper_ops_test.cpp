// The C++ wrapper's typed functions, on the CPU reference: each field reaches the operand, flag or parameter of its
// name. Sums are small integers, so every figure is exact.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "maxsim_jit/maxsim_jit.hpp"
#include "support/scratch.h"

using maxsim_jit::DType;
using maxsim_jit::EmptyDoc;
using maxsim_jit::Tensor;

namespace {

struct Fixture {
  msj::testing::ScratchDirectory directory;
  maxsim_jit::Context context{options()};

  maxsim_jit::ContextOptions options() {
    maxsim_jit::ContextOptions result;
    result.cache_dir = directory.path();
    return result;
  }
};

maxsim_jit::Launch on_the_cpu() {
  maxsim_jit::Launch launch;
  launch.device = MSJ_DEVICE_CPU;
  return launch;
}

// e4m3: sign, 4 bits of exponent with bias 7, 3 of mantissa.
constexpr std::uint8_t kOne = 0x38, kTwo = 0x40, kThree = 0x44, kZero = 0x00;

// One query of two tokens, a document of three.
struct Masks {
  std::vector<std::uint8_t> q = {1, 0}, d = {1, 1, 0};
  std::vector<std::int32_t> one = {1}, none = {0};
  [[nodiscard]] Tensor q_mask() const { return {q.data(), DType::u8, {1, 2}}; }
  [[nodiscard]] Tensor d_mask() const { return {d.data(), DType::boolean, {1, 3}}; }
  [[nodiscard]] Tensor one_token() const { return {one.data(), DType::i32, {1}}; }
  [[nodiscard]] Tensor no_token() const { return {none.data(), DType::i32, {1}}; }
};

}  // namespace

TEST_CASE("fp8_forward: scales of both kinds, masks, lengths, argmax") {
  const Fixture fixture;
  const Masks masks;
  const std::vector<std::uint8_t> q = {kOne, kZero, kZero, kOne};                    // (1, 0), (0, 1)
  const std::vector<std::uint8_t> d = {kTwo, kZero, kZero, kThree, kThree, kThree};  // (2, 0), (0, 3), (3, 3)
  float score = -1;
  std::vector<std::int32_t> argmax = {-7, -7};
  maxsim_jit::Fp8Forward call;
  call.q = Tensor(q.data(), DType::fp8_e4m3, {1, 2, 2});
  call.d = Tensor(d.data(), DType::fp8_e4m3, {1, 3, 2});
  call.scores = Tensor(&score, DType::f32, {1, 1});
  call.argmax = Tensor(argmax.data(), DType::i32, {1, 1, 2});
  call.launch = on_the_cpu();
  const auto run = [&] {
    maxsim_jit::fp8_forward(fixture.context, call);
    return score;
  };
  CHECK(run() == 6);
  CHECK(argmax == std::vector<std::int32_t>{2, 1});
  const std::vector<float> two = {2}, of_q = {1, 10}, of_d = {4, 1, 1};
  call.scale_q = Tensor(two.data(), DType::f32, {1});
  CHECK(run() == 12);
  call.scale_d = Tensor(two.data(), DType::f32, {1});
  CHECK(run() == 24);
  call.scale_q = Tensor(of_q.data(), DType::f32, {1, 2});
  CHECK(run() == 66);
  call.scale_d = Tensor(of_d.data(), DType::f32, {1, 3});
  CHECK(run() == 38);  // 8 + 10 * 3
  CHECK(argmax == std::vector<std::int32_t>{0, 1});
  call.d_mask = masks.d_mask();
  call.q_mask = masks.q_mask();
  CHECK(run() == 8);
  CHECK(argmax == std::vector<std::int32_t>{0, -1});
  call.d_lengths = masks.no_token();
  call.empty_doc = EmptyDoc::neg_inf;
  CHECK(run() == -std::numeric_limits<float>::infinity());
}

TEST_CASE("fp8_quantize: one scale for all, or one for each token") {
  const Fixture fixture;
  const std::vector<float> x = {448, -224, 2, 1};
  std::vector<std::uint8_t> quantized(4);
  std::vector<float> scales = {-1, -1};
  maxsim_jit::Fp8Quantize call;
  call.x = Tensor(x.data(), DType::f32, {1, 2, 2});
  call.quantized = Tensor(quantized.data(), DType::fp8_e4m3, {1, 2, 2});
  call.scales = Tensor(scales.data(), DType::f32, {1});
  call.launch = on_the_cpu();
  maxsim_jit::fp8_quantize(fixture.context, call);
  CHECK(quantized == std::vector<std::uint8_t>{0x7E, 0xF6, kTwo, kOne});
  CHECK(scales == std::vector<float>{1, -1});
  call.scales = Tensor(scales.data(), DType::f32, {1, 2});
  maxsim_jit::fp8_quantize(fixture.context, call);
  CHECK(quantized == std::vector<std::uint8_t>{0x7E, 0xF6, 0x7E, 0x76});
  CHECK(scales == std::vector<float>{1, 2.0F / 448.0F});
}

TEST_CASE("fused_head_forward: bias, normalize, masks, lengths, argmax") {
  const Fixture fixture;
  const Masks masks;
  const std::vector<float> q = {1, 0, 0, 1};
  const std::vector<float> h = {1, 0, 0, 0, 1, 0, 0, 0, 1};  // the three unit vectors
  const std::vector<float> w = {3, 0, 5, 4, 2, 0};           // e = (3, 4), (0, 2), (5, 0)
  float score = -1;
  std::vector<std::int32_t> argmax = {-7, -7};
  maxsim_jit::FusedHeadForward call;
  call.q = Tensor(q.data(), DType::f32, {1, 2, 2});
  call.h = Tensor(h.data(), DType::f32, {1, 3, 3});
  call.w = Tensor(w.data(), DType::f32, {2, 3});
  call.scores = Tensor(&score, DType::f32, {1, 1});
  call.argmax = Tensor(argmax.data(), DType::i32, {1, 1, 2});
  call.launch = on_the_cpu();
  const auto run = [&] {
    maxsim_jit::fused_head_forward(fixture.context, call);
    return score;
  };
  CHECK(run() == 9);
  CHECK(argmax == std::vector<std::int32_t>{2, 0});
  const std::vector<float> bias = {1, 10};
  call.bias = Tensor(bias.data(), DType::f32, {2});
  CHECK(run() == 20);
  call.bias = Tensor();
  call.normalize = true;
  CHECK(run() == 2);
  CHECK(argmax == std::vector<std::int32_t>{2, 1});
  call.normalize = false;
  call.d_mask = masks.d_mask();
  CHECK(run() == 7);
  call.q_mask = masks.q_mask();
  CHECK(run() == 3);
  CHECK(argmax == std::vector<std::int32_t>{0, -1});
  call.q_mask = Tensor();
  call.d_lengths = masks.one_token();
  CHECK(run() == 7);
  call.d_lengths = masks.no_token();
  CHECK(run() == 0);
  call.empty_doc = EmptyDoc::neg_inf;
  CHECK(run() == -std::numeric_limits<float>::infinity());
}
