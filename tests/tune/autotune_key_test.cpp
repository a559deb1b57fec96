#include "tune/autotune_key.h"

#include <doctest/doctest.h>

#include <type_traits>

#include "base/call.h"
#include "base/error.h"
#include "toy_op.h"

using namespace msj;
using namespace msj::testing;
using tune::AutotuneKey;
using tune::DtypeTuple;
using tune::ShapeBucket;

namespace {

template <typename... Arguments>
constexpr bool makes = std::is_constructible_v<AutotuneKey, Arguments...>;
template <typename Extra>
constexpr bool can_get_in =
    makes<Extra> || makes<const OpSpec &, const ShapeBucket &, const DtypeTuple &, Extra> ||
    makes<const OpSpec &, const ShapeBucket &, Extra> || makes<const OpSpec &, Extra, const DtypeTuple &>;
static_assert(makes<const OpSpec &, const ShapeBucket &, const DtypeTuple &>);
static_assert(!can_get_in<FeatureSet>);
static_assert(!can_get_in<Layout>);
static_assert(!can_get_in<TensorView>);
static_assert(!can_get_in<BoundCall>);
static_assert(!std::is_constructible_v<DtypeTuple, const OpSpec &, FeatureSet>);
static_assert(!std::is_constructible_v<DtypeTuple, BoundCall>);

// A table in which an operand that may be absent brings its own dtype into the key: refused at compile time.
constexpr std::array<OperandSpec, 1> with(OperandSpec operand) { return {operand}; }
constexpr OperandSpec kRequired = toy::kOperands[toy::q];
constexpr OperandSpec kOptionalOwn = {
    .name = "bias", .rank = 1, .dims = {}, .dtype = kRequired.dtype, .optional = true};
static_assert(valid(with(kRequired), {}));
static_assert(!valid(with(kOptionalOwn), {}));
static_assert(!valid(
    with({.name = "q", .rank = 1, .dims = {}, .dtype = kRequired.dtype, .optional = true, .streamed = true}), {}));

std::string failure(const std::vector<DType> &own) {
  try {
    (void)DtypeTuple(kToy, own);
  } catch (const Error &error) {
    CHECK(error.status() == MSJ_ERROR_INVALID_ARGUMENT);
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("dtype tuple: one canonical dtype for every operand, present or absent") {
  const DtypeTuple tuple(kToy, std::array{DType::f16, DType::bf16});
  REQUIRE(tuple.all().size() == kToy.operands.size());
  CHECK(tuple.all()[toy::q] == DType::f16);
  CHECK(tuple.all()[toy::d] == DType::bf16);
  CHECK(tuple.all()[toy::bias] == DType::f16);  // follows q
  CHECK(tuple.all()[toy::d_mask] == DType::i8);
  CHECK(tuple.all()[toy::d_lengths] == DType::i32);
  CHECK(tuple.all()[toy::scale] == DType::f32);
  CHECK(tuple.all()[toy::argmax] == DType::i32);
}

TEST_CASE("dtype tuple: what the table does not accept is refused by name") {
  CHECK(failure({DType::i32, DType::bf16}) == "dtype of q is i32; bf16, f16, f32 are accepted");
  CHECK(failure({DType::bf16, DType::f16}) == "dtype of d is f16; bf16, f32 are accepted");
  CHECK(failure({DType::bf16}) == "1 dtypes are given for toy; it takes 2");
  CHECK(failure({DType::bf16, DType::bf16, DType::bf16}) == "3 dtypes are given for toy; it takes 2");
  CHECK(failure({}) == "0 dtypes are given for toy; it takes 2");
}

TEST_CASE("autotune key: equal for every size of a bucket, another for another dtype or bucket") {
  const AutotuneKey key = toy_key(toy_sizes(1, 100, 32, 60));
  CHECK(key.text() == "Nq1-Nd128-Lq32-Ld64-m64-k32-bf16-bf16-bf16-i8-i32-f32-f32-i32");
  CHECK(key == toy_key(toy_sizes(1, 1, 17, 1, 49, 17)));
  CHECK(key == toy_key(toy_sizes(1, 128, 32, 64)));
  CHECK_FALSE(key == toy_key(toy_sizes(2, 100, 32, 60)));
  CHECK_FALSE(key == toy_key(toy_sizes(1, 129, 32, 60)));
  CHECK_FALSE(key == toy_key(toy_sizes(1, 100, 33, 60)));
  CHECK_FALSE(key == toy_key(toy_sizes(1, 100, 32, 65)));
  CHECK_FALSE(key == toy_key(toy_sizes(1, 100, 32, 60, 65)));
  CHECK_FALSE(key == toy_key(toy_sizes(1, 100, 32, 60), {DType::f16, DType::bf16}));
  CHECK_FALSE(key.text() == toy_key(toy_sizes(1, 100, 32, 60), {DType::bf16, DType::f32}).text());
}
