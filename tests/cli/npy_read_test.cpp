#include "cli/npy_read.h"

#include <sys/stat.h>

#include <array>

#include "cli/npy_write.h"
#include "npy_files.h"

using namespace msj::testing;

TEST_CASE("what NumPy 2.4 writes for float32 (2, 3)") {
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

TEST_CASE("big endian is read in place, and swapped by whoever reads an element or copies") {
  const std::string two = file_of(header_of(">f4", "(2,)"), std::string("\x3f\xc0\x00\x00\xc0\x00\x00\x00", 8));
  const NpyArray array = parse(two);
  CHECK(array.is_swapped);
  CHECK(static_cast<const void *>(array.data) == two.data() + two.size() - 8);
  CHECK(element<float>(array, 0) == 1.5F);
  CHECK(element<float>(array, 1) == -2.0F);
  constexpr std::array<float, 2> kSwapped{1.5F, -2.0F};
  const std::vector<std::byte> copy = copy_npy(array);
  REQUIRE(copy.size() == sizeof(kSwapped));
  CHECK(std::memcmp(copy.data(), kSwapped.data(), sizeof(kSwapped)) == 0);

  const std::string half = file_of(header_of(">f2", "(1,)"), std::string("\x3c\x01", 2));
  CHECK(element<std::uint16_t>(parse(half), 0) == 0x3c01);
  const std::string wide = file_of(header_of(">i8", "(1,)"), std::string("\0\0\0\0\0\0\1\2", 8));
  CHECK(element<std::int64_t>(parse(wide), 0) == 258);
  const std::string one_byte = file_of(header_of(">u1", "(6,)"), kSixBytes);
  CHECK_FALSE(parse(one_byte).is_swapped);
  const std::string empty = file_of(header_of(">f4", "(0,)"), "");
  CHECK(copy_npy(parse(empty)).empty());
}

TEST_CASE("Fortran order is strides") {
  const std::string file = file_of(header_of("|u1", "(2, 3)", true), kSixBytes);
  const NpyArray array = parse(file);
  CHECK(array.strides == Sizes{1, 2});
  CHECK(element<std::uint8_t>(array, 1 * array.strides[0] + 2 * array.strides[1]) == 6);
  const std::string cube = file_of(header_of("|u1", "(1, 2, 3)", true), kSixBytes);
  CHECK(parse(cube).strides == Sizes{1, 1, 2});
}

TEST_CASE("bytes after the array are ignored") {
  const std::string file = file_of(header_of("|u1", "(6,)"), kSixBytes + "more");
  CHECK(parse(file).bytes() == 6);
}

TEST_CASE("a header of any length gives data at any alignment") {
  for (std::size_t padding = 0; padding < 9; ++padding) {
    std::string data(4, '\0');
    std::memcpy(data.data(), kThreeFloats.data(), 4);
    const std::string file = file_of(header_of("<f4", "(1,)") + std::string(padding, ' '), data);
    CHECK(element<float>(parse(file), 0) == 1.5F);
  }
}

TEST_CASE("an array outlives its file's name and its own copies") {
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

TEST_CASE("paths that cannot be read") {
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
