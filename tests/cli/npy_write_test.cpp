#include "cli/npy_write.h"

#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <numeric>

#include "npy_files.h"

using namespace msj::testing;

TEST_CASE("written as NumPy writes") {
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

TEST_CASE("write and read back") {
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

TEST_CASE("paths that cannot be written leave nothing behind") {
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

TEST_CASE("a write that fails midway keeps the old file") {
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

TEST_CASE("arguments of the writer are checked") {
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

TEST_CASE("a symlink is written through") {
  const TemporaryFolder folder;
  put(folder / "real.npy", "old");
  fs::create_symlink("real.npy", folder / "link.npy");
  write_npy(folder / "link.npy", NpyType::f32, Sizes{3}, std::as_bytes(std::span(kThreeFloats)));
  CHECK(fs::is_symlink(folder / "link.npy"));
  CHECK(read_npy(folder / "real.npy").shape == Sizes{3});
}
