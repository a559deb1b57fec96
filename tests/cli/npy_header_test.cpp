#include "cli/npy_header.h"

#include <array>
#include <numeric>

#include "npy_files.h"

using namespace msj::testing;

TEST_CASE("versions 1, 2 and 3") {
  for (const int version : {1, 2, 3}) {
    CAPTURE(version);
    const std::string file = file_of(header_of("|u1", "(6,)"), kSixBytes, version);
    CHECK(element<std::uint8_t>(parse(file), 5) == 6);
  }
  check_refused(file_of("{}", "", 4), "the .npy version is 4.0; accepted: 1.0, 2.0 and 3.0");
  check_refused(file_of("{}", "", 0), "the .npy version is 0.0");
  std::string minor = file_of("{}", "");
  minor[7] = 1;
  check_refused(minor, "the .npy version is 1.1");
}

TEST_CASE("dtypes") {
  struct Case {
    std::string_view descr;
    NpyType type;
    std::int64_t bytes;
  };
  // bf16, e4m3 and e5m2 as ml_dtypes 0.7 and NumPy 2.4 write them, then names as written by hand.
  const std::array<Case, 21> cases{{
      {"|b1", NpyType::boolean, 1},
      {"?", NpyType::boolean, 1},
      {"|i1", NpyType::i8, 1},
      {"|u1", NpyType::u8, 1},
      {"<u2", NpyType::u16, 2},
      {"<i4", NpyType::i32, 4},
      {"<i8", NpyType::i64, 8},
      {"<f2", NpyType::f16, 2},
      {"<f4", NpyType::f32, 4},
      {"=f4", NpyType::f32, 4},
      {"f4", NpyType::f32, 4},
      {"<f8", NpyType::f64, 8},
      {"<V2", NpyType::bf16, 2},
      {"|V2", NpyType::bf16, 2},
      {"<V1", NpyType::raw8, 1},
      {"|V1", NpyType::raw8, 1},
      {"<f1", NpyType::fp8_e5m2, 1},
      {"bfloat16", NpyType::bf16, 2},
      {"float8_e4m3fn", NpyType::fp8_e4m3, 1},
      {"float32", NpyType::f32, 4},
      {"float8_e5m2", NpyType::fp8_e5m2, 1},
  }};
  for (const Case &one : cases) {
    CAPTURE(one.descr);
    const std::string file = file_of(header_of(one.descr, "(2, 1)"), std::string(16, 'x'));
    const NpyArray array = parse(file);
    CHECK(array.type == one.type);
    CHECK(bytes(array.type) == one.bytes);
    CHECK(array.bytes() == 2 * one.bytes);
  }
  CHECK(name(NpyType::bf16) == "bfloat16");
  CHECK(name(NpyType::fp8_e5m2) == "float8_e5m2");
}

TEST_CASE("dtypes that are refused") {
  for (const std::string_view descr :
       {"<c8", "<f16", "<u4", "<i2", "<M8[s]", "|S3", "<U4", "V3", "float8_e4m3", "", "<", "<<f4", "f4 "}) {
    CAPTURE(descr);
    check_refused(file_of(header_of(descr, "(1,)"), kSixBytes), "the dtype is '" + std::string(descr) + "'; accepted:");
  }
  check_refused(file_of(header_of("|O", "(1,)"), kSixBytes), "the array holds Python objects (dtype '|O')");
  check_refused(file_of("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,), }", kSixBytes),
                "the dtype is structured ('[('a', '<i4')]");
  check_refused(file_of("{'descr': ('<f4', (2,)), 'fortran_order': False, 'shape': (1,), }", kSixBytes),
                "the dtype is structured");
}

TEST_CASE("shapes") {
  struct Case {
    std::string_view text;
    Sizes shape;
    Sizes strides;
  };
  const std::array<Case, 9> cases{{
      {"()", {}, {}},
      {"( )", {}, {}},
      {"(6,)", {6}, {1}},
      {"(3L, 2L)", {3, 2}, {2, 1}},
      {"(2,3,)", {2, 3}, {3, 1}},
      {" ( 1 ,\t2 , 3 ) ", {1, 2, 3}, {6, 3, 1}},
      {"(0,)", {0}, {1}},
      {"(2, 0, 3)", {2, 0, 3}, {3, 3, 1}},
      {"(1, 1, 1, 1, 1, 6)", {1, 1, 1, 1, 1, 6}, {6, 6, 6, 6, 6, 1}},
  }};
  for (const Case &one : cases) {
    CAPTURE(one.text);
    const std::string file = file_of(header_of("|u1", one.text), kSixBytes);
    const NpyArray array = parse(file);
    CHECK(array.shape == one.shape);
    CHECK(array.strides == one.strides);
    CHECK(array.elements() == std::accumulate(one.shape.begin(), one.shape.end(), std::int64_t{1}, std::multiplies{}));
  }
}

TEST_CASE("shapes that are refused") {
  const auto refused = [](std::string_view descr, std::string_view shape, std::string_view part) {
    CAPTURE(shape);
    check_refused(file_of(header_of(descr, shape), kSixBytes), part);
  };
  refused("|u1", "(-1,)", "the shape has the size '-1'; sizes must be 0 or more");
  refused("|u1", "(2, -99999999999999999999)", "sizes must be 0 or more");
  refused("|u1", "(99999999999999999999,)", "must be below 2^63");
  refused("|u1", "(1, 1, 1, 1, 1, 1, 1)", "the array has 7 dimensions; at most 6 are accepted");
  refused("|u1", "(7,)", "shape (7,) of uint8 needs 7 bytes of data, it has 6");
  refused("<f4", "(2, 1)", "shape (2, 1) of float32 needs 8 bytes of data, it has 6");
  // Products that wrap: to 0, to something small, in bytes only, and behind a size of 0.
  refused("|u1", "(4294967296, 4294967296)", "needs more than 2^63 bytes");
  refused("|u1", "(6, 3074457345618258603)", "needs more than 2^63 bytes");
  refused("<f8", "(2305843009213693952,)", "needs more than 2^63 bytes");
  refused("<f4", "(0, 4611686018427387904, 4611686018427387904)", "needs more than 2^63 bytes");
  refused("|u1", "(9223372036854775807,)", "the file is truncated");
  for (const std::string_view text : {"(6)", "6", "[6]", "(,)", "(6,,)", "(6", "(6,", "(6.0,)", "(True,)", "(1_0,)",
                                      "(0x6,)", "(+6,)", "(-,)", "('6',)", "None", "(6 6)", ""}) {
    refused("|u1", text, "the .npy header is malformed at byte ");
  }
}

TEST_CASE("header spelled in other ways") {
  for (const std::string_view header : {
           "{'shape':(6,),'fortran_order':False,'descr':'|u1'}",
           "{\"descr\": \"|u1\", \"fortran_order\": False, \"shape\": (6,)}",
           " \t{ 'fortran_order' : False ,\n 'descr' : \"|u1\" , 'shape' : ( 6 , ) , } \n\n",
           "{'descr': '|u1', 'fortran_order': False, 'shape': (6,), }",
       }) {
    CAPTURE(header);
    const std::string file = file_of(header, kSixBytes);
    CHECK(parse(file).shape == Sizes{6});
  }
}

TEST_CASE("headers that are refused") {
  const auto refused = [](std::string_view header, std::string_view part) {
    CAPTURE(header);
    check_refused(file_of(header, kSixBytes), part);
  };
  refused("", "malformed at byte 0: the end where the opening '{' was expected");
  refused("\n", "the opening '{'");
  refused("[]", "the opening '{'");
  refused("{}", "the header has no 'descr'");
  refused("{'descr': '|u1', 'shape': (6,), }", "the header has no 'fortran_order'");
  refused("{'descr': '|u1', 'fortran_order': True}", "the header has no 'shape'");
  refused("{'descr': '|u1', 'descr': '|u1'}", "the header has the key 'descr' twice");
  refused("{'colour': '|u1'}", "the header has the key 'colour'; accepted:");
  refused("{'descr' '|u1'}", "':' after the key");
  refused("{'descr': |u1}", "a dtype in quotes");
  refused("{descr: '|u1'}", "a key in quotes");
  refused("{,}", "a key in quotes");
  refused("{'descr': '|u1',, }", "a key in quotes");
  refused("{'descr': '|u1' 'shape': (6,)}", "',' or '}'");
  refused("{'descr': '|u1", "a string without escapes that ends");
  refused("{'descr': '|u1\"}", "a string without escapes that ends");
  refused("{'descr': '|\\x75\\x31'}", "a string without escapes that ends");
  refused("{'fortran_order': 0}", "True or False");
  refused("{'fortran_order': Trueish}", "',' or '}'");
  refused("{'fortran_order': true}", "True or False");
  refused(header_of("|u1", "(6,)") + "x", "nothing more after '}'");
  refused(header_of("|u1", "(6,)") + std::string(1, '\0'), "nothing more after '}'");
  refused("{'\x01\n\xff", "malformed");
  refused(std::string(60000, '{'), "a key in quotes");
  refused("{'" + std::string(60000, 'k') + "': 1}", "the header has the key 'kkkk");
  refused(header_of("|u1", "(" + std::string(20000, '1') + ",)"), "below 2^63");
}

TEST_CASE("every truncation is refused") {
  for (const int version : {1, 2, 3}) {
    const std::string file = file_of(header_of("<f4", "(1,)"), "abcd", version);
    for (std::size_t length = 0; length < file.size(); ++length) {
      CAPTURE(length);
      CHECK(refusal(std::string_view(file).substr(0, length)) != "(no error)");
    }
    CHECK(refusal(file) == "(no error)");
  }
  check_refused("", "it starts with nothing");
  check_refused("\x93NUMPY", "the file ends in its first 8 bytes");
  check_refused(std::string_view("\x93NUMPY\x02\x00\x01", 9), "the file ends after 9 bytes");
  check_refused(file_of(header_of("|u1", "(6,)"), kSixBytes).substr(0, 20), "the .npy header is truncated");
}

TEST_CASE("other files are refused by what they are") {
  check_refused("PK\x03\x04rest", "this is a zip archive, perhaps .npz");
  check_refused("hello, world", "not a .npy file: it starts with 'hello,'");
  std::string huge = file_of("{}", "", 2);
  huge.replace(8, 4, "\xff\xff\xff\xff");
  check_refused(huge, "the .npy header is said to have 4294967295 bytes; at most 65535 are accepted");
}
