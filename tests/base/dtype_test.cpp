#include "base/dtype.h"

#include <doctest/doctest.h>

#include "base/error.h"

namespace msj {

TEST_CASE("every dtype of the ABI goes to its number and name and back") {
  CHECK(all_dtypes().size() == 10);
  for (msj_dtype value = MSJ_F32; value <= MSJ_I64; ++value) {
    const auto dtype = dtype_from(value);
    REQUIRE(dtype.has_value());
    CHECK(static_cast<msj_dtype>(*dtype) == value);
    CHECK(dtype_from(name(*dtype)) == dtype);
    CHECK(info(*dtype).dtype == *dtype);
  }
  CHECK_FALSE(dtype_from(0).has_value());
  CHECK_FALSE(dtype_from(11).has_value());
  CHECK_FALSE(dtype_from(-1).has_value());
}

TEST_CASE("sizes and names") {
  CHECK(bytes(DType::f32) == 4);
  CHECK(bytes(DType::bf16) == 2);
  CHECK(bytes(DType::f16) == 2);
  CHECK(bytes(DType::fp8_e4m3) == 1);
  CHECK(bytes(DType::fp8_e5m2) == 1);
  CHECK(bytes(DType::boolean) == 1);
  CHECK(bytes(DType::i32) == 4);
  CHECK(bytes(DType::i64) == 8);
  CHECK(info(DType::boolean).name == "bool");
  CHECK(info(DType::boolean).enumerator == "boolean");  // `bool` is a keyword in kernels
  CHECK(dtype_from("fp16") == DType::f16);
  CHECK(dtype_from("fp32") == DType::f32);
  CHECK_FALSE(dtype_from("").has_value());
  CHECK_FALSE(dtype_from("BF16").has_value());
  CHECK_FALSE(dtype_from("float64").has_value());
}

TEST_CASE("a number that is no dtype is a defect of the library") {
  CHECK_THROWS_AS((void)info(static_cast<DType>(42)), Error);
}

}  // namespace msj
