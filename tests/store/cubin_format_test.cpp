#include "store/cubin_format.h"

#include "base/error.h"
#include "base/hash.h"
#include "scratch.h"

namespace msj::store {

namespace {

std::string reason(std::string_view bytes) {
  std::string why;
  const auto file = decode_cubin(bytes, why);
  CHECK(file.has_value() == why.empty());
  return why;
}

// The bytes with a right checksum again, so that what is wrong is found by itself.
std::string resealed(std::string bytes) {
  const Digest digest = sha256(bytes.substr(0, 48) + bytes.substr(kCubinHeaderBytes));
  for (std::size_t i = 0; i < digest.size(); ++i) bytes[48 + i] = static_cast<char>(digest[i]);
  return bytes;
}

}  // namespace

TEST_CASE("a cubin goes to bytes and back") {
  const CubinFile file = {"0123456789abcdef0123456789abcdef", "key", "",
                          std::string("\0\x7f"
                                      "ELF\xff",
                                      6)};
  const std::string bytes = encode_cubin(file);
  CHECK(bytes.size() == kCubinHeaderBytes + 3 + 0 + 6);
  std::string why;
  const auto back = decode_cubin(bytes, why);
  REQUIRE(back.has_value());
  CHECK(back->hash == file.hash);
  CHECK(back->key == file.key);
  CHECK(back->provenance == file.provenance);
  CHECK(back->cubin == file.cubin);
}

// The bytes that docs/cache-files.md promises: a change here is another format version.
TEST_CASE("the header, byte by byte") {
  const std::string bytes = encode_cubin({"000102030405060708090a0b0c0d0e0f", "kk", "ppp", "cubin"});
  CHECK(bytes.substr(0, 8) == "MSJCUBIN");
  CHECK(bytes.substr(8, 4) == std::string("\1\0\0\0", 4));
  CHECK(bytes.substr(12, 4) == std::string("\2\0\0\0", 4));
  CHECK(bytes.substr(16, 4) == std::string("\3\0\0\0", 4));
  CHECK(bytes.substr(20, 4) == std::string("\0\0\0\0", 4));
  CHECK(bytes.substr(24, 8) == std::string("\5\0\0\0\0\0\0\0", 8));
  CHECK(bytes.substr(32, 16) == std::string("\0\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17", 16));
  CHECK(bytes.substr(80) == "kkpppcubin");
  CHECK(resealed(bytes) == bytes);
}

TEST_CASE("every truncation is found: at every byte, so at every 64th and throughout the header") {
  const std::string bytes = encode_cubin(sample_cubin('a', 300));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CAPTURE(size);
    CHECK_FALSE(reason(bytes.substr(0, size)).empty());
  }
}

TEST_CASE("every flipped bit is found") {
  const std::string bytes = encode_cubin(sample_cubin('a', 16));
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = bytes;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      std::string why;
      if (decode_cubin(flipped, why).has_value()) FAIL_CHECK("bit " << bit << " of byte " << at);
    }
  }
}

TEST_CASE("trailing bytes, other versions, other files: each its own reason") {
  const std::string bytes = encode_cubin(sample_cubin());
  CHECK(reason(bytes).empty());
  CHECK(reason(bytes + '\0').find("truncated or extended") != std::string::npos);
  CHECK(reason(bytes + bytes).find("truncated or extended") != std::string::npos);
  CHECK(reason("") == "has 0 bytes; a cubin file has at least 80");
  CHECK(reason(std::string(1000, '\0')) == "does not begin as a cubin file");
  std::string newer = bytes;
  newer[8] = 2;
  CHECK(reason(resealed(newer)) == "has format version 2; 1 is accepted");
  std::string reserved = bytes;
  reserved[20] = 1;
  CHECK(reason(resealed(reserved)) == "has a reserved field that is not 0");
  std::string broken = bytes;
  broken.back() ^= 1;
  CHECK(reason(broken) == "has another checksum than its header says");
}

TEST_CASE("lengths that lie do not lead past the end, whatever their sum") {
  const std::string bytes = encode_cubin(sample_cubin());
  for (const std::size_t at : {12, 16, 24, 28}) {  // the three lengths, and the upper half of the last
    for (const char value : {'\x00', '\x01', '\x7f', '\xff'}) {
      std::string lying = bytes;
      for (std::size_t i = 0; i < 4; ++i) lying[at + i] = value;
      if (lying == bytes) continue;
      CAPTURE(at);
      CHECK_FALSE(reason(resealed(lying)).empty());
    }
  }
  // A key longer than the file, and a cubin as much shorter than nothing: 64 bits wrap to the right sum.
  std::string wrapped = bytes;
  wrapped[13] = 1;
  const std::uint64_t cubin = sample_cubin().cubin.size() - (std::uint64_t{1} << 8);
  for (std::size_t i = 0; i < 8; ++i) wrapped[24 + i] = static_cast<char>(cubin >> (8 * i) & 0xff);
  CHECK(reason(resealed(wrapped)).find("truncated or extended") != std::string::npos);
  std::string empty = bytes.substr(0, kCubinHeaderBytes);
  for (std::size_t i = 12; i < 32; ++i) empty[i] = 0;
  CHECK(reason(resealed(empty)) == "holds no cubin");
  // Key and provenance may be cut anew: the checksum is right, and so is every length.
  std::string moved = bytes;
  ++moved[12];
  --moved[16];
  CHECK(reason(resealed(moved)).empty());
}

TEST_CASE("texts have a bound: a reader looks through them") {
  const CubinFile file = {std::string(32, 'a'), std::string(kMostCubinTextBytes, 'k'),
                          std::string(kMostCubinTextBytes, 'p'), "cubin"};
  const std::string bytes = encode_cubin(file);
  CHECK(reason(bytes).empty());
  CHECK_THROWS_AS((void)encode_cubin({file.hash, file.key + "k", "", "cubin"}), Error);
  CHECK_THROWS_AS((void)encode_cubin({file.hash, "", file.provenance + "p", "cubin"}), Error);
  for (const auto &[at, what] : {std::pair{12, "key text"}, {16, "provenance"}}) {
    std::string longer = bytes;
    ++longer[static_cast<std::size_t>(at)];
    CHECK(reason(resealed(longer)) == std::string("has a ") + what + " of 65537 bytes; at most 65536 are accepted");
  }
}

TEST_CASE("what can't be a cubin file is not encoded") {
  CHECK_THROWS_AS((void)encode_cubin({"abc", "", "", "cubin"}), Error);
  CHECK_THROWS_AS((void)encode_cubin({std::string(32, 'A'), "", "", "cubin"}), Error);
  CHECK_THROWS_AS((void)encode_cubin({std::string(32, 'a'), "", "", ""}), Error);
  CHECK(is_cubin_hash(hash_name("x")));
  CHECK_FALSE(is_cubin_hash(std::string(33, 'a')));
  CHECK_FALSE(is_cubin_hash("../../../../../../../etc/passwd."));
}

}  // namespace msj::store
