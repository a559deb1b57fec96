#include "cli/npy.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

using namespace msj::cli;
using Sizes = std::vector<std::int64_t>;
namespace fs = std::filesystem;

namespace {

// A .npy file in memory: any header text, the right length field for its version.
std::string file_of(std::string_view header, std::string_view data, int version = 1) {
  std::string file = "\x93NUMPY";
  file += static_cast<char>(version);
  file += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) file += static_cast<char>(header.size() >> (8 * i) & 0xff);
  file += header;
  return file += data;
}

std::string header_of(std::string_view descr, std::string_view shape, bool fortran_order = false) {
  return "{'descr': '" + std::string(descr) + "', 'fortran_order': " + (fortran_order ? "True" : "False") +
         ", 'shape': " + std::string(shape) + ", }\n";
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

NpyArray parse(std::string_view file) { return parse_npy(bytes_of(file), "a.npy"); }

template <typename T>
T element(const NpyArray &array, std::int64_t offset) {
  T value;
  std::memcpy(&value, array.data + offset * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

std::string message_of(const std::function<void()> &action) {
  try {
    action();
  } catch (const std::runtime_error &error) {
    return error.what();
  }
  return "(no error)";
}

std::string refusal(std::string_view file) {
  return message_of([file] { (void)parse(file); });
}

// One sentence about this file that says `part`.
void check_refused(std::string_view file, std::string_view part) {
  const std::string message = refusal(file);
  CAPTURE(message);
  CAPTURE(part);
  CHECK(message.starts_with("a.npy: "));
  CHECK(message.find(part) != std::string::npos);
  CHECK(message.find('\n') == std::string::npos);
  CHECK(message.size() < 400);
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "npy_test.XXXXXX").native();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TemporaryFolder() { fs::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;

  [[nodiscard]] fs::path operator/(std::string_view name) const { return path_ / name; }
  [[nodiscard]] std::ptrdiff_t entries() const {
    return std::distance(fs::directory_iterator(path_), fs::directory_iterator());
  }

 private:
  fs::path path_;
};

std::string contents(const fs::path &path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void put(const fs::path &path, std::string_view text) {
  std::ofstream(path, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
}

const std::string kSixBytes("\x01\x02\x03\x04\x05\x06", 6);
constexpr std::array<float, 3> kThreeFloats{1.5F, -2.0F, 0.25F};

}  // namespace

TEST_CASE("npy: what NumPy 2.4 writes for float32 (2, 3)") {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  header.resize(117, ' ');
  header += '\n';
  const std::array<float, 6> values{0, 1, 2, 3, 4, 5};
  const std::string file = file_of(header, {reinterpret_cast<const char *>(values.data()), sizeof(values)});
  const NpyArray array = parse(file);
  CHECK(array.type == NpyType::f32);
  CHECK(array.shape == Sizes{2, 3});
  CHECK(array.strides == Sizes{3, 1});
  CHECK(array.elements() == 6);
  CHECK(array.bytes() == 24);
  CHECK(element<float>(array, 5) == 5.0F);
  CHECK(static_cast<const void *>(array.data) == file.data() + 128);  // no copy
}

TEST_CASE("npy: versions 1, 2 and 3") {
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

TEST_CASE("npy: dtypes") {
  struct Case {
    std::string_view descr;
    NpyType type;
    std::int64_t bytes;
  };
  // bf16, e4m3 and e5m2 as ml_dtypes 0.7 and NumPy 2.4 write them, then names as written by hand.
  const std::array<Case, 20> cases{{
      {"|b1", NpyType::boolean, 1},   {"?", NpyType::boolean, 1},
      {"|i1", NpyType::i8, 1},        {"|u1", NpyType::u8, 1},
      {"<i4", NpyType::i32, 4},       {"<i8", NpyType::i64, 8},
      {"<f2", NpyType::f16, 2},       {"<f4", NpyType::f32, 4},
      {"=f4", NpyType::f32, 4},       {"f4", NpyType::f32, 4},
      {"<f8", NpyType::f64, 8},       {"<V2", NpyType::bf16, 2},
      {"|V2", NpyType::bf16, 2},      {"<V1", NpyType::raw8, 1},
      {"|V1", NpyType::raw8, 1},      {"<f1", NpyType::fp8_e5m2, 1},
      {"bfloat16", NpyType::bf16, 2}, {"float8_e4m3fn", NpyType::fp8_e4m3, 1},
      {"float32", NpyType::f32, 4},   {"float8_e5m2", NpyType::fp8_e5m2, 1},
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

TEST_CASE("npy: dtypes that are refused") {
  for (const std::string_view descr :
       {"<c8", "<f16", "<u2", "<i2", "<M8[s]", "|S3", "<U4", "V3", "float8_e4m3", "", "<", "<<f4", "f4 "}) {
    CAPTURE(descr);
    check_refused(file_of(header_of(descr, "(1,)"), kSixBytes), "the dtype is '" + std::string(descr) + "'; accepted:");
  }
  check_refused(file_of(header_of("|O", "(1,)"), kSixBytes), "the array holds Python objects (dtype '|O')");
  check_refused(file_of("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,), }", kSixBytes),
                "the dtype is structured ('[('a', '<i4')]");
  check_refused(file_of("{'descr': ('<f4', (2,)), 'fortran_order': False, 'shape': (1,), }", kSixBytes),
                "the dtype is structured");
}

TEST_CASE("npy: big endian is swapped into a copy") {
  const std::string two("\x3f\xc0\x00\x00\xc0\x00\x00\x00", 8);
  NpyArray array;
  {
    const std::string file = file_of(header_of(">f4", "(2,)"), two);
    array = parse(file);
  }
  REQUIRE(array.owner != nullptr);
  CHECK(element<float>(array, 0) == 1.5F);
  CHECK(element<float>(array, 1) == -2.0F);

  const std::string half = file_of(header_of(">f2", "(1,)"), std::string("\x3c\x01", 2));
  CHECK(element<std::uint16_t>(parse(half), 0) == 0x3c01);
  const std::string wide = file_of(header_of(">i8", "(1,)"), std::string("\0\0\0\0\0\0\1\2", 8));
  CHECK(element<std::int64_t>(parse(wide), 0) == 258);
  const std::string one_byte = file_of(header_of(">u1", "(6,)"), kSixBytes);
  CHECK(parse(one_byte).owner == nullptr);
  const std::string empty = file_of(header_of(">f4", "(0,)"), "");
  CHECK(parse(empty).elements() == 0);
}

TEST_CASE("npy: Fortran order is strides") {
  const std::string file = file_of(header_of("|u1", "(2, 3)", true), kSixBytes);
  const NpyArray array = parse(file);
  CHECK(array.strides == Sizes{1, 2});
  CHECK(element<std::uint8_t>(array, 1 * array.strides[0] + 2 * array.strides[1]) == 6);
  const std::string cube = file_of(header_of("|u1", "(1, 2, 3)", true), kSixBytes);
  CHECK(parse(cube).strides == Sizes{1, 1, 2});
}

TEST_CASE("npy: shapes") {
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

TEST_CASE("npy: shapes that are refused") {
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

TEST_CASE("npy: header spelled in other ways") {
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

TEST_CASE("npy: headers that are refused") {
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

TEST_CASE("npy: every truncation is refused") {
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

TEST_CASE("npy: bytes after the array are ignored") {
  const std::string file = file_of(header_of("|u1", "(6,)"), kSixBytes + "more");
  CHECK(parse(file).bytes() == 6);
}

TEST_CASE("npy: other files are refused by what they are") {
  check_refused("PK\x03\x04rest", "this is a zip archive, perhaps .npz");
  check_refused("hello, world", "not a .npy file: it starts with 'hello,'");
  std::string huge = file_of("{}", "", 2);
  huge.replace(8, 4, "\xff\xff\xff\xff");
  check_refused(huge, "the .npy header is said to have 4294967295 bytes; at most 65535 are accepted");
}

TEST_CASE("npy: a header of any length gives data at any alignment") {
  for (std::size_t padding = 0; padding < 9; ++padding) {
    std::string data(4, '\0');
    std::memcpy(data.data(), kThreeFloats.data(), 4);
    const std::string file = file_of(header_of("<f4", "(1,)") + std::string(padding, ' '), data);
    CHECK(element<float>(parse(file), 0) == 1.5F);
  }
}

TEST_CASE("npy: written as NumPy writes") {
  const TemporaryFolder folder;
  const Sizes shape{3};
  write_npy(folder / "out.npy", NpyType::f32, shape, std::as_bytes(std::span(kThreeFloats)));
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
  header.resize(117, ' ');
  header += '\n';
  CHECK(contents(folder / "out.npy") ==
        file_of(header, {reinterpret_cast<const char *>(kThreeFloats.data()), sizeof(kThreeFloats)}));
  CHECK(folder.entries() == 1);
}

TEST_CASE("npy: write and read back") {
  const TemporaryFolder folder;
  const fs::path path = folder / "out.npy";
  const std::vector<Sizes> shapes{{}, {1}, {0}, {2, 3}, {4, 0, 7}, {1, 2, 1, 3, 1, 5}};
  for (const NpyType type : {NpyType::boolean, NpyType::i8, NpyType::u8, NpyType::raw8, NpyType::i32, NpyType::i64,
                             NpyType::f16, NpyType::bf16, NpyType::f32, NpyType::f64}) {
    for (const Sizes &shape : shapes) {
      CAPTURE(name(type));
      const auto count = std::accumulate(shape.begin(), shape.end(), bytes(type), std::multiplies{});
      std::string data(static_cast<std::size_t>(count), '\0');
      std::iota(data.begin(), data.end(), '\1');
      write_npy(path, type, shape, bytes_of(data));
      const NpyArray array = read_npy(path);
      CHECK(array.type == type);
      CHECK(array.shape == shape);
      CHECK(std::memcmp(array.data, data.data(), data.size()) == 0);
    }
  }
  for (const NpyType type : {NpyType::fp8_e4m3, NpyType::fp8_e5m2}) {
    write_npy(path, type, Sizes{6}, bytes_of(kSixBytes));
    CHECK(read_npy(path).type == NpyType::raw8);
  }
  CHECK(folder.entries() == 1);
}

TEST_CASE("npy: an array outlives its file's name and its own copies") {
  const TemporaryFolder folder;
  write_npy(folder / "out.npy", NpyType::f32, Sizes{3}, std::as_bytes(std::span(kThreeFloats)));
  NpyArray copy;
  {
    const NpyArray array = read_npy(folder / "out.npy");
    copy = array;
    CHECK(copy.data == array.data);
  }
  fs::remove(folder / "out.npy");
  CHECK(element<float>(copy, 2) == 0.25F);
}

TEST_CASE("npy: paths that cannot be read") {
  const TemporaryFolder folder;
  const auto refused = [](const fs::path &path) { return message_of([&] { (void)read_npy(path); }); };
  const fs::path pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  put(folder / "empty.npy", "");
  CHECK(refused(folder / "none.npy") ==
        (folder / "none.npy").native() + ": the file cannot be opened: No such file or directory");
  CHECK(refused(folder / "").find("this is a directory; accepted: a .npy file") != std::string::npos);
  CHECK(refused(pipe).find("this is a device, pipe or socket") != std::string::npos);
  CHECK(refused("/dev/null").find("this is a device, pipe or socket") != std::string::npos);
  CHECK(refused(folder / "empty.npy").find("it starts with nothing") != std::string::npos);
  CHECK(refused("") == "'': the file cannot be opened: No such file or directory");
}

TEST_CASE("npy: paths that cannot be written leave nothing behind") {
  const TemporaryFolder folder;
  const auto refused = [](const fs::path &path) {
    return message_of([&] { write_npy(path, NpyType::f32, Sizes{3}, std::as_bytes(std::span(kThreeFloats))); });
  };
  fs::create_directory(folder / "folder");
  CHECK(refused(folder / "folder").find("this is a directory") != std::string::npos);
  CHECK(refused(folder / "none/out.npy") ==
        (folder / "none/out.npy").native() + ": the file cannot be written: No such file or directory");
  CHECK(refused("/dev/null").find("this is a device") != std::string::npos);
  CHECK(fs::is_character_file("/dev/null"));
  CHECK(refused("") == "'': the path to write has no file name");
  CHECK(refused(folder / "none/").find("the path to write has no file name") != std::string::npos);
  CHECK(folder.entries() == 1);

  if (::geteuid() != 0) {  // root may write anywhere
    fs::permissions(folder / "folder", fs::perms::owner_read | fs::perms::owner_exec);
    CHECK(refused(folder / "folder/out.npy").find("Permission denied") != std::string::npos);
    fs::permissions(folder / "folder", fs::perms::owner_all);
  }
}

TEST_CASE("npy: a write that fails midway keeps the old file") {
  const TemporaryFolder folder;
  const fs::path path = folder / "out.npy";
  put(path, "old");
  rlimit old_limit{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &old_limit) == 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{4096, old_limit.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  const std::string data(10000, 'x');
  const std::string message = message_of([&] { write_npy(path, NpyType::u8, Sizes{10000}, bytes_of(data)); });
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &old_limit) == 0);
  std::signal(SIGXFSZ, old_handler);
  CHECK(message == path.native() + ": the file cannot be written: File too large");
  CHECK(contents(path) == "old");
  CHECK(folder.entries() == 1);
}

TEST_CASE("npy: arguments of the writer are checked") {
  const TemporaryFolder folder;
  const auto refused = [&](const Sizes &shape) {
    return message_of(
        [&] { write_npy(folder / "out.npy", NpyType::f32, shape, std::as_bytes(std::span(kThreeFloats))); });
  };
  CHECK(refused({4}).find("the array to write has 12 bytes; shape (4,) of float32 needs 16") != std::string::npos);
  CHECK(refused({-3}).find("negative size") != std::string::npos);
  CHECK(refused({1, 1, 1, 1, 1, 1, 3}).find("at most 6") != std::string::npos);
  CHECK(refused({std::int64_t{1} << 62, 4}).find("more than 2^63") != std::string::npos);
  CHECK(folder.entries() == 0);
}

TEST_CASE("npy: a symlink is written through") {
  const TemporaryFolder folder;
  put(folder / "real.npy", "old");
  fs::create_symlink("real.npy", folder / "link.npy");
  write_npy(folder / "link.npy", NpyType::f32, Sizes{3}, std::as_bytes(std::span(kThreeFloats)));
  CHECK(fs::is_symlink(folder / "link.npy"));
  CHECK(read_npy(folder / "real.npy").shape == Sizes{3});
}
