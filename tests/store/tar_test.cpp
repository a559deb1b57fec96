#include "store/tar.h"

#include "scratch.h"
#include "tar_files.h"

namespace msj::store {

namespace {

struct Read {
  std::string path;
  std::string contents;
};

std::vector<Read> read_all_of(std::string_view tar) {
  std::vector<Read> found;
  TarReader reader = reader_of(tar);
  while (const auto member = reader.next()) {
    if (member->kind == TarMember::Kind::file) found.push_back({member->path, reader.contents(*member)});
  }
  CHECK_FALSE(reader.next().has_value());  // and so it stays
  return found;
}

std::string written(const std::vector<Read> &files) {
  std::string tar;
  TarWriter writer([&](std::string_view bytes) { tar += bytes; });
  for (const Read &file : files) writer.add(file.path, file.contents);
  writer.finish();
  return tar;
}

// The sentence that a tar is refused with; "" if it is read to its end.
std::string problem_of(std::string_view tar) {
  try {
    TarReader reader = reader_of(tar);
    while (reader.next().has_value()) {
    }
  } catch (const Error &error) {
    CHECK(error.status() == MSJ_ERROR_IO);
    return error.what();
  }
  return {};
}

TarMember only_member(const std::string &tar) {
  TarReader reader = reader_of(tar);
  const auto member = reader.next();
  REQUIRE(member);
  CHECK_FALSE(reader.next().has_value());
  return *member;
}

void check_refused(const std::string &tar, const std::string &part) {
  const std::string problem = problem_of(tar);
  CAPTURE(problem);
  CHECK(problem.starts_with("the archive is "));
  CHECK(problem.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("what is written is read: any size, and any length of path") {
  for (const std::size_t size : {0, 1, 511, 512, 513, 70'000}) {
    const std::vector<Read> read = read_all_of(written({{"v1/a/b", std::string(size, 'x')}, {"v1/c", "next"}}));
    REQUIRE(read.size() == 2);
    CHECK(read[0].contents == std::string(size, 'x'));
    CHECK(read[1].contents == "next");
  }
  for (std::size_t folder = 1; folder < 300; ++folder) {
    for (const std::size_t name : {1, 99, 100, 101, 200}) {
      const std::string path = std::string(folder, 'f') + "/" + std::string(name, 'n');
      const std::vector<Read> read = read_all_of(written({{path, "it"}}));
      REQUIRE(read.size() == 1);
      CHECK(read[0].path == path);
      CHECK(read[0].contents == "it");
    }
  }
}

TEST_CASE("an archive is of whole blocks, has each directory once, and nothing of the time or the user") {
  const std::string tar = written({{"v1/a/x", "1"}, {"v1/a/y", "2"}, {"v1/b/x", "3"}});
  CHECK(tar.size() == (3 + 3 * 2 + 2) * kTarBlock);
  CHECK(tar == written({{"v1/a/x", "1"}, {"v1/a/y", "2"}, {"v1/b/x", "3"}}));
  TarReader reader = reader_of(tar);
  std::string order;
  while (const auto member = reader.next()) {
    order += member->path + (member->kind == TarMember::Kind::directory ? "/ " : " ");
  }
  CHECK(order == "v1/ v1/a/ v1/a/x v1/a/y v1/b/ v1/b/x ");
}

TEST_CASE("kinds of members, and paths as other programs write them") {
  using Kind = TarMember::Kind;
  CHECK(only_member(tar_of({{"./v1/x"}})).path == "v1/x");
  CHECK(only_member(tar_of({{".//././/v1/x"}})).path == "v1/x");
  CHECK(only_member(tar_of({{"./", '5'}})).kind == Kind::directory);
  CHECK(only_member(tar_of({{"v1/", '5'}})).path == "v1");
  CHECK(only_member(tar_of({{"v1/", '\0'}})).kind == Kind::directory);  // as before POSIX
  CHECK(only_member(tar_of({{"v1/x", '\0'}})).kind == Kind::file);
  CHECK(only_member(tar_of({{"v1/x", '7'}})).kind == Kind::file);
  CHECK(only_member(tar_of({{"/v1/x"}})).path == "/v1/x");
  CHECK(only_member(tar_of({{"../v1/x"}})).path == "../v1/x");
  for (const auto &[type, what] : std::map<char, std::string>{{'1', "a hard link"},
                                                              {'2', "a symbolic link"},
                                                              {'3', "a device"},
                                                              {'4', "a device"},
                                                              {'6', "a FIFO"},
                                                              {'S', "a sparse file"},
                                                              {'D', "the listing of a directory"},
                                                              {'M', "the rest of a file that another volume begins"},
                                                              {'V', "the label of a volume"},
                                                              {'Q', "of the unknown type 0x51"}}) {
    const TarMember member = only_member(tar_of({{.name = "v1/x", .type = type, .link = "/etc/passwd"}}));
    CHECK(member.kind == Kind::other);
    CHECK(member.what == what);
  }
  const std::string linked = tar_of({{.name = "l", .type = '2', .size = "00000000777", .link = "x"}, {"v1/x"}});
  CHECK(read_all_of(linked).size() == 1);  // the size of a link is of nothing in the archive
}

TEST_CASE("a sparse file of GNU's old format: what its map takes is passed over too") {
  std::string sparse = tar_member({.name = "v1/sparse", .type = 'S', .size = "00000000005"});
  sparse[482] = 1;
  seal_header(sparse);
  std::string map(2 * kTarBlock, '1');  // no header, and no zeros
  map[504] = 1;
  map[kTarBlock + 504] = '\0';
  const std::string tar = sparse + map + "bytes" + std::string(kTarBlock - 5, '\0') + tar_member({"v1/x"}) + tar_end();
  TarReader reader = reader_of(tar);
  const auto member = reader.next();
  REQUIRE(member);
  CHECK(member->path == "v1/sparse");
  CHECK(member->what == "a sparse file");
  CHECK(reader.contents(*member) == "bytes");
  CHECK(read_all_of(tar).size() == 1);
  check_refused(tar.substr(0, 2 * kTarBlock), "is cut off: the sparse file at byte 0 lacks its map");
}

TEST_CASE("long names: pax records over GNU's over the header's, each for one member alone") {
  const std::string name(300, 'n');
  const std::string gnu = tar_of({{"././@LongLink", 'L', name + std::string(1, '\0')}, {"short"}, {"next"}});
  REQUIRE(read_all_of(gnu).size() == 2);
  CHECK(read_all_of(gnu)[0].path == name);
  CHECK(read_all_of(gnu)[1].path == "next");
  const std::string both = tar_of({{"x", 'x', pax("mtime", "1.5") + pax("path", "./" + name)},
                                   {"././@LongLink", 'L', "gnu"},
                                   {"././@LongLink", 'K', "a link's target"},
                                   {"g", 'g', pax("path", "for all")},
                                   {"short"},
                                   {"next"}});
  REQUIRE(read_all_of(both).size() == 2);
  CHECK(read_all_of(both)[0].path == name);
  CHECK(read_all_of(both)[1].path == "next");
  CHECK(only_member(tar_of({{"x", 'x', pax("GNU.sparse.major", "1")}, {"short"}})).what == "a sparse file");
}

TEST_CASE("sizes: octal, binary, of a pax record; those that can't be are refused") {
  const auto with_size = [](const std::string &size) {
    return tar_of({{.name = "v1/x", .contents = std::string(600, 'x'), .size = size}, {"v1/y"}});
  };
  const std::string binary = "\x80" + std::string(9, '\0') + "\x02\x58";
  for (const std::string &size : {std::string("00000001130"), std::string("       1130 "), binary}) {
    REQUIRE(read_all_of(with_size(size)).size() == 2);
    CHECK(read_all_of(with_size(size))[0].contents == std::string(600, 'x'));
  }
  const HandMade of_600 = {.name = "v1/x", .contents = std::string(600, 'x'), .size = "00000000000"};
  CHECK(read_all_of(tar_of({{"x", 'x', pax("size", "600")}, of_600, {"v1/y"}})).size() == 2);

  check_refused(with_size("77777777777"), "is cut off or damaged: the tar member at byte 0 has 8589934591 bytes");
  check_refused(with_size("00000001139"), "has a size that is no number");
  check_refused(with_size("-1"), "has a size that is no number");
  check_refused(with_size(std::string(12, '\xff')), "has a size that is no number");           // −1
  check_refused(with_size("\x80" + std::string(11, '\xff')), "has a size that is no number");  // 2^88 − 1
  check_refused(with_size("\x80" + std::string(3, '\0') + std::string(8, '\xff')), "has a size that is no number");
  check_refused(with_size(std::string("\x80\0\0\0\x7f", 5) + std::string(7, '\xff')), "has 9223372036854775807 bytes");
  for (const char *size : {"18446744073709551615", "18446744073709551616", "-1", "6e2", ""}) {
    CHECK_FALSE(problem_of(tar_of({{"x", 'x', pax("size", size)}, of_600})).empty());
  }
  check_refused(tar_of({{"x", 'x', std::string((1 << 20) + 1, ' ')}, {"y"}}), "bytes of names; at most 1048576");
}

TEST_CASE("pax records that are none") {
  for (const std::string &record :
       {std::string("7 a=b\n"), std::string("5 a=b\n"), std::string("6 a=b"), std::string("6 abc\n"), std::string("\n"),
        std::string("99999999999999999999 a=b\n"), std::string("2 \n"), std::string("0 \n"), std::string("x a=b\n")}) {
    CAPTURE(record);
    check_refused(tar_of({{"x", 'x', record}, {"y"}}), "the pax record at byte 0 is none");
  }
}

TEST_CASE("what is no tar, and headers of a wrong checksum") {
  check_refused("", "is no tar archive: it has 0 bytes");
  check_refused(std::string(511, '\0'), "is no tar archive: it has 511 bytes");
  check_refused(std::string(5000, 'x'), "is no tar archive: its first 512 bytes are no header");
  CHECK(problem_of(tar_end()).empty());
  std::string tar = tar_of({{"v1/x", '0', "it"}, {"v1/y"}});
  tar[2 * kTarBlock] = 'w';
  check_refused(tar, "is damaged: the tar header at byte 1024 has another checksum than it says");
}

TEST_CASE("cut off anywhere it is refused, and what comes after its end is not looked at") {
  const std::string tar =
      written({{"v1/a/x", std::string(700, 'x')}, {std::string(120, 'd') + "/" + std::string(120, 'n'), "y"}});
  const std::size_t whole = tar.size() - kTarBlock;  // one block of zeros is enough
  for (std::size_t size = 0; size < whole; ++size) {
    CAPTURE(size);
    CHECK_FALSE(problem_of(std::string_view(tar).substr(0, size)).empty());
  }
  CHECK(problem_of(std::string_view(tar).substr(0, whole)).empty());
  CHECK(problem_of(tar + "anything").empty());
}

TEST_CASE("no flipped bit makes it read beyond the archive, and one of a header is noticed") {
  const std::string good = written({{"v1/a/x", std::string(700, 'x')}, {std::string(300, 'p'), "y"}});
  std::string tar = good;
  for (std::size_t at = 0; at < tar.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      tar[at] = static_cast<char>(good[at] ^ (1 << bit));
      CAPTURE(at);
      const bool in_first_header = at < kTarBlock && (at < 148 || at >= 156);  // but for how the checksum is written
      const std::string problem = problem_of(tar);                             // throws std::out_of_range if it does
      if (in_first_header) CHECK_FALSE(problem.empty());
    }
    tar[at] = good[at];
  }
}

TEST_CASE("an archive that ends with what belongs to a member is cut off") {
  const std::string member = tar_member({"v1/x"});
  const std::string global = tar_member({"g", 'g', pax("comment", "of all that follow")});
  for (const auto &[type, contents] : std::map<char, std::string>{
           {'L', "a name"}, {'K', "a link's target"}, {'g', pax("comment", "1")}, {'x', pax("path", "v1/y")}}) {
    const std::string header = tar_member({"h", type, contents});
    check_refused(member + header + tar_end(), "is cut off: no member follows the tar header at byte 512");
    check_refused(global + header + header + tar_end(), "is cut off: no member follows the tar header at byte 0");
    CHECK(problem_of(global + header + member + tar_end()) == "");
  }
}

TEST_CASE("zeros where a header belongs are damage, not the end") {
  const std::string one = tar_member({.name = "a", .contents = "1"});
  const std::string lost(kTarBlock, '\0');
  check_refused(one + lost + one + tar_end(), "zeros at byte 1024");
  CHECK(problem_of(one + lost) == "");  // a writer's one block of zeros
  CHECK(problem_of(one + tar_end() + one) == "");
}

TEST_CASE("a name of hundreds of thousands of parts takes no longer than its bytes") {
  std::string path;
  for (int i = 0; i < 300'000; ++i) path += "./";
  const std::string record = pax("path", path + "x");
  CHECK(only_member(tar_of({{.name = "h", .type = 'x', .contents = record}, {.name = "n"}})).path == "x");
}

}  // namespace msj::store
