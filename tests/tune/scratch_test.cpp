#include "tune/scratch.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cuda/current_context.h"
#include "maxsim_jit/maxsim_jit.h"
#include "ops/registry.h"
#include "support/fake_cuda.h"
#include "toy_op.h"

using namespace msj;
using namespace msj::testing;
using tune::Fill;
using tune::random_block;

namespace {

template <typename T>
std::vector<T> elements(const std::string &block) {
  std::vector<T> values(block.size() / sizeof(T));
  std::memcpy(values.data(), block.data(), values.size() * sizeof(T));
  return values;
}

double mean(const std::vector<float> &values) {
  double sum = 0;
  for (const float value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

}  // namespace

TEST_CASE("scratch: what an operand holds follows from its table") {
  const auto fill = [](int operand, DType dtype) {
    return tune::fill_of(kToy.operands[static_cast<std::size_t>(operand)], dtype);
  };
  CHECK(fill(toy::q, DType::bf16) == Fill::values);
  CHECK(fill(toy::d, DType::u8) == Fill::values);
  CHECK(fill(toy::bias, DType::bf16) == Fill::near_one);
  CHECK(fill(toy::d_mask, DType::i8) == Fill::mask);
  CHECK(fill(toy::d_lengths, DType::i32) == Fill::lengths);
  CHECK(fill(toy::scale, DType::f32) == Fill::near_one);
  CHECK(fill(toy::scores, DType::f32) == Fill::poison);
  CHECK(fill(toy::argmax, DType::i32) == Fill::poison);
}

TEST_CASE("scratch: optional operands are there for their feature alone") {
  CHECK(tune::takes_part(kToy, toy::q, 0));
  CHECK(tune::takes_part(kToy, toy::scores, 0));
  CHECK_FALSE(tune::takes_part(kToy, toy::d_mask, 0));
  CHECK(tune::takes_part(kToy, toy::d_mask, 0b10));
  CHECK_FALSE(tune::takes_part(kToy, toy::d_lengths, kToy.all_features()));
}

TEST_CASE("scratch: values are the same for the same seed, finite, of both signs, below 1") {
  CHECK(random_block(Fill::values, DType::f32, 4096, 1, 0) == random_block(Fill::values, DType::f32, 4096, 1, 0));
  CHECK(random_block(Fill::values, DType::f32, 4096, 1, 0) != random_block(Fill::values, DType::f32, 4096, 2, 0));
  CHECK(random_block(Fill::values, DType::f32, 4095, 1, 0).size() == 4092);
  const auto values = elements<float>(random_block(Fill::values, DType::f32, 1 << 18, 3, 0));
  CHECK(
      std::all_of(values.begin(), values.end(), [](float v) { return std::abs(v) < 1 && std::abs(v) >= 1.0F / 128; }));
  CHECK(std::abs(mean(values)) < 0.01);
  std::vector<float> magnitudes;
  for (const float value : values) magnitudes.push_back(std::abs(value));
  CHECK(mean(magnitudes) == doctest::Approx(0.5).epsilon(0.02));
}

TEST_CASE("scratch: no element of any dtype is NaN or infinite") {
  // All exponent bits set, in each format.
  const auto is_special = [](DType dtype, std::uint32_t bits) {
    switch (dtype) {
      case DType::f16:
        return (bits & 0x7C00U) == 0x7C00U;
      case DType::bf16:
        return (bits & 0x7F80U) == 0x7F80U;
      case DType::fp8_e4m3:
        return (bits & 0x78U) == 0x78U;
      default:
        return (bits & 0x7CU) == 0x7CU;
    }
  };
  for (const Fill fill : {Fill::values, Fill::near_one}) {
    for (const DType dtype : {DType::f16, DType::bf16}) {
      for (const auto bits : elements<std::uint16_t>(random_block(fill, dtype, 1 << 16, 1, 0))) {
        REQUIRE_FALSE(is_special(dtype, bits));
      }
    }
    for (const DType dtype : {DType::fp8_e4m3, DType::fp8_e5m2}) {
      for (const auto bits : elements<std::uint8_t>(random_block(fill, dtype, 1 << 16, 1, 0))) {
        REQUIRE_FALSE(is_special(dtype, bits));
      }
    }
  }
}

TEST_CASE("scratch: masks keep most, lengths are near the whole, scales near 1") {
  const auto mask = elements<std::int8_t>(random_block(Fill::mask, DType::i8, 80000, 5, 0));
  const auto kept = std::count(mask.begin(), mask.end(), 1);
  CHECK(std::count(mask.begin(), mask.end(), 0) == 80000 - kept);
  CHECK(kept > 69000);
  CHECK(kept < 71000);
  for (const auto length : elements<std::int32_t>(random_block(Fill::lengths, DType::i32, 4000, 5, 601))) {
    REQUIRE(length > 601 * 3 / 4 - 1);
    REQUIRE(length <= 601);
  }
  for (const float scale : elements<float>(random_block(Fill::near_one, DType::f32, 4000, 5, 0))) {
    REQUIRE(scale >= 1.0F);
    REQUIRE(scale < 1.125F);
  }
}

namespace {

// The lengths of an index's documents on the stand-in driver, whose memory is the host's.
std::vector<std::int32_t> drawn_lengths(std::int64_t ld, std::int64_t n, bool measuring) {
  const fake::FakeCuda gpu(MSJ_FAKE_LIBCUDA);
  Settings settings;
  settings.libcuda = MSJ_FAKE_LIBCUDA;
  const auto driver = cuda::Driver::load(settings);
  const cuda::ContextGuard current(*driver, gpu.create_context(0));
  const cuda::Stream stream(driver);
  const OpSpec &op = *ops::find_op(MSJ_RESIDUAL_FORWARD)->spec;
  const std::array own = {DType::f16, DType::f16};
  tune::SweepProblem problem{.op = &op, .dtypes = tune::DtypeTuple(op, own)};
  const auto size = [&](std::string_view name) -> std::int64_t & {
    return problem.sizes[static_cast<std::size_t>(find_named(op.sizes, name))];
  };
  size("Nq") = 1, size("Nd") = 1000, size("Lq") = 32, size("Ld") = ld, size("N") = n;
  size("K") = 64, size("d") = 64, size("nbits") = 2;
  if (measuring) problem.measuring.emplace();
  const tune::Scratch scratch(driver, stream, problem);
  const BoundCall call = scratch.call(Layout::aligned16);
  const auto *lengths = static_cast<const std::int32_t *>(call.operands[MSJ_RESIDUAL_FORWARD_D_LENGTHS].data);
  const auto *starts = static_cast<const std::int64_t *>(call.operands[MSJ_RESIDUAL_FORWARD_D_STARTS].data);
  for (int i = 0; i < 1000; ++i) {
    REQUIRE(starts[i] >= 0);
    REQUIRE(starts[i] + lengths[i] <= n);
  }
  return {lengths, lengths + 1000};
}

}  // namespace

TEST_CASE("scratch: documents of a measurement are whole, as it counts them; a sweep's lengths vary") {
  const auto whole = drawn_lengths(300, 300'000, true);
  CHECK(std::ranges::all_of(whole, [](std::int32_t length) { return length == 300; }));
  const auto varied = drawn_lengths(300, 300'000, false);
  CHECK(std::ranges::any_of(varied, [](std::int32_t length) { return length < 240; }));
}

TEST_CASE("scratch: no document is longer than its index") {
  for (const std::int64_t n : {0, 1, 100}) {
    const auto lengths = drawn_lengths(300, n, true);
    CHECK(std::ranges::all_of(lengths, [n](std::int32_t length) { return length == n; }));
    (void)drawn_lengths(300, n, false);
  }
}
