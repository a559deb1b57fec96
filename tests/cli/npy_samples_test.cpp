// The files of tests/data/npy, which NumPy and ml_dtypes wrote (make_samples.py there says what is in them).
#include <doctest/doctest.h>

#include <array>
#include <string>
#include <vector>

#include "cli/convert.h"
#include "cli/npy_write.h"
#include "npy_files.h"

using namespace msj::testing;

namespace {

fs::path sample(std::string_view name) {
  return fs::path(MSJ_SOURCE_DIR) / "tests/data/npy" / (std::string(name) + ".npy");
}

// The element at [i, j], through the strides.
double value_at(const NpyArray &array, std::int64_t i, std::int64_t j) {
  const std::int64_t offset = i * array.strides[0] + j * array.strides[1];
  switch (array.type) {
    case NpyType::f64:
      return element<double>(array, offset);
    case NpyType::f32:
      return static_cast<double>(element<float>(array, offset));
    case NpyType::i64:
      return static_cast<double>(element<std::int64_t>(array, offset));
    default:
      break;
  }
  const std::uint32_t bits =
      bytes(array.type) == 1 ? element<std::uint8_t>(array, offset) : element<std::uint16_t>(array, offset);
  return decode(*dtype_of(array.type), bits);
}

struct Sample {
  std::string_view name;
  NpyType type;
  bool fortran_order = false;
  bool is_swapped = false;
};

constexpr std::array kNumbers = {
    Sample{"float32_v1", NpyType::f32},
    Sample{"float32_v2", NpyType::f32},
    Sample{"float32_v3", NpyType::f32},
    Sample{"float16_little", NpyType::f16},
    Sample{"float16_big", NpyType::f16, false, true},
    Sample{"float16_fortran", NpyType::f16, true},
    Sample{"float32_little", NpyType::f32},
    Sample{"float32_big", NpyType::f32, false, true},
    Sample{"float32_fortran", NpyType::f32, true},
    Sample{"float32_fortran_big", NpyType::f32, true, true},
    Sample{"float64_little", NpyType::f64},
    Sample{"float64_big", NpyType::f64, false, true},
    Sample{"float64_fortran", NpyType::f64, true},
    Sample{"int64_little", NpyType::i64},
    Sample{"int64_big", NpyType::i64, false, true},
    Sample{"int64_fortran", NpyType::i64, true},
    Sample{"bfloat16", NpyType::bf16},
    Sample{"bfloat16_fortran", NpyType::bf16, true},
    Sample{"float8_e5m2", NpyType::fp8_e5m2},
};

}  // namespace

TEST_CASE("numbers of every version, type, order and byte order") {
  for (const Sample &one : kNumbers) {
    CAPTURE(one.name);
    const NpyArray array = read_npy(sample(one.name));
    CHECK(array.type == one.type);
    CHECK(array.is_swapped == one.is_swapped);
    REQUIRE(array.shape == Sizes{2, 3});
    CHECK(array.strides == (one.fortran_order ? Sizes{1, 2} : Sizes{3, 1}));
    for (std::int64_t i = 0; i < 2; ++i) {
      for (std::int64_t j = 0; j < 3; ++j) CHECK(value_at(array, i, j) == static_cast<double>(i * 3 + j - 2));
    }
  }
}

TEST_CASE("numbers of every kind convert to the same float32") {
  for (const Sample &one : kNumbers) {
    if (!is_float(one.type)) continue;
    CAPTURE(one.name);
    const Converted converted = convert_floats(read_npy(sample(one.name)), DType::f32);
    const std::array<float, 6> in_order{-2, -1, 0, 1, 2, 3};
    const std::array<float, 6> by_columns{-2, 1, -1, 2, 0, 3};
    REQUIRE(converted.data.size() == sizeof(in_order));
    const float *const expected = one.fortran_order ? by_columns.data() : in_order.data();
    CHECK(std::memcmp(converted.data.data(), expected, sizeof(in_order)) == 0);
  }
}

TEST_CASE("int64 of both byte orders narrows to int32") {
  for (const std::string_view name : {"int64_little", "int64_big"}) {
    const std::vector<std::byte> narrow = narrow_integers(read_npy(sample(name)), "it");
    const std::array<std::int32_t, 6> expected{-2, -1, 0, 1, 2, 3};
    REQUIRE(narrow.size() == sizeof(expected));
    CHECK(std::memcmp(narrow.data(), expected.data(), sizeof(expected)) == 0);
  }
}

TEST_CASE("masks") {
  for (const auto &[name, type] : {std::pair{"mask_bool", NpyType::boolean}, std::pair{"mask_int8", NpyType::i8},
                                   std::pair{"mask_uint8", NpyType::u8}}) {
    const NpyArray array = read_npy(sample(name));
    CHECK(array.type == type);
    const std::array<std::uint8_t, 6> expected{1, 0, 1, 0, 0, 1};
    CHECK(std::memcmp(array.data, expected.data(), expected.size()) == 0);
  }
}

TEST_CASE("shapes without elements or dimensions") {
  const NpyArray scalar = read_npy(sample("scalar"));
  CHECK(scalar.shape.empty());
  CHECK(element<float>(scalar, 0) == 2.5F);
  CHECK(read_npy(sample("empty")).shape == Sizes{0, 3});
}

TEST_CASE("e4m3 is bytes whose meaning the file does not tell") {
  const NpyArray array = read_npy(sample("float8_e4m3fn"));
  CHECK(array.type == NpyType::raw8);
  CHECK(decode(DType::fp8_e4m3, element<std::uint8_t>(array, 5)) == 3.0);
}

TEST_CASE("what is refused") {
  const auto refusal_of = [](std::string_view name) { return message_of([name] { (void)read_npy(sample(name)); }); };
  CHECK(refusal_of("objects").find("the array holds Python objects") != std::string::npos);
  CHECK(refusal_of("structured").find("the dtype is structured") != std::string::npos);
  CHECK(refusal_of("strings").find("the dtype is '<U2'") != std::string::npos);
  CHECK(refusal_of("complex64").find("the dtype is '<c8'") != std::string::npos);
}

TEST_CASE("what the writer writes is, byte for byte, what NumPy and ml_dtypes write") {
  const TemporaryFolder folder;
  for (const std::string_view name : {"float32_v1", "float16_little", "float64_little", "int64_little", "bfloat16",
                                      "mask_bool", "mask_int8", "mask_uint8", "scalar", "empty"}) {
    CAPTURE(name);
    const NpyArray array = read_npy(sample(name));
    write_npy(folder / "out.npy", array.type, array.shape, copy_npy(array));
    CHECK(contents(folder / "out.npy") == contents(sample(name)));
  }
}
