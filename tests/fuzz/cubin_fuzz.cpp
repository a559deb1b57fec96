// Any bytes as a cubin file: decoding never crashes or reads past the end; what it accepts encodes to the same bytes,
// and what it refuses has a reason. Built with clang's -fsanitize=fuzzer,address,undefined.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/hash.h"
#include "store/cubin_format.h"

namespace {

// Random bytes never have a right checksum: with it, the lengths and texts behind it are reached too.
std::string sealed(std::string bytes) {
  using msj::store::kCubinHeaderBytes;
  constexpr std::size_t kChecksumAt = 48;
  if (bytes.size() < kCubinHeaderBytes) return bytes;
  const msj::Digest digest = msj::sha256(bytes.substr(0, kChecksumAt) + bytes.substr(kCubinHeaderBytes));
  for (std::size_t i = 0; i < digest.size(); ++i) bytes[kChecksumAt + i] = static_cast<char>(digest[i]);
  return bytes;
}

void check(const std::string &bytes) {
  std::string why;
  const auto file = msj::store::decode_cubin(bytes, why);
  if (file.has_value() != why.empty()) std::abort();
  if (file && msj::store::encode_cubin(*file) != bytes) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char *>(data), size);
  check(bytes);
  check(sealed(bytes));
  check(sealed(std::string(msj::store::kCubinMagic) + bytes));
  return 0;
}
