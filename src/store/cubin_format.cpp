#include "store/cubin_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/hash.h"

namespace msj::store {

namespace {

// Offsets in the header; numbers are little-endian.
constexpr std::size_t kVersionAt = 8;
constexpr std::size_t kKeyLengthAt = 12;
constexpr std::size_t kProvenanceLengthAt = 16;
constexpr std::size_t kZeroAt = 20;
constexpr std::size_t kCubinLengthAt = 24;
constexpr std::size_t kHashAt = 32;
constexpr std::size_t kHashBytes = 16;
constexpr std::size_t kChecksumAt = kHashAt + kHashBytes;
constexpr std::string_view kHexDigits = "0123456789abcdef";

template <typename Number>
void put(std::string &bytes, Number number) {
  for (std::size_t i = 0; i < sizeof number; ++i) bytes += static_cast<char>(number >> (8 * i) & 0xff);
}

template <typename Number>
Number get(std::string_view bytes, std::size_t at) {
  Number number = 0;
  for (std::size_t i = 0; i < sizeof number; ++i) {
    number |= static_cast<Number>(static_cast<Number>(static_cast<unsigned char>(bytes[at + i])) << (8 * i));
  }
  return number;
}

// Over the whole file but the checksum itself.
std::string checksum(std::string_view before, std::string_view after) {
  const Digest digest = sha256(std::string(before).append(after));
  return {digest.begin(), digest.end()};
}

struct Lengths {
  std::uint64_t key;
  std::uint64_t provenance;
  std::uint64_t cubin;
};

// "" if the header is one of ours and the file has just the bytes that it speaks of.
std::string header_problem(std::string_view bytes, Lengths &lengths) {
  if (bytes.size() < kCubinHeaderBytes) {
    return fmt::format("has {} bytes; a cubin file has at least {}", bytes.size(), kCubinHeaderBytes);
  }
  if (!bytes.starts_with(kCubinMagic)) return "does not begin as a cubin file";
  if (const auto version = get<std::uint32_t>(bytes, kVersionAt); version != kCubinVersion) {
    return fmt::format("has format version {}; {} is accepted", version, kCubinVersion);
  }
  lengths = {get<std::uint32_t>(bytes, kKeyLengthAt), get<std::uint32_t>(bytes, kProvenanceLengthAt),
             get<std::uint64_t>(bytes, kCubinLengthAt)};
  for (const auto &[what, length] : {std::pair{"key text", lengths.key}, {"provenance", lengths.provenance}}) {
    if (length <= kMostCubinTextBytes) continue;
    return fmt::format("has a {} of {} bytes; at most {} are accepted", what, length, kMostCubinTextBytes);
  }
  const std::uint64_t body = bytes.size() - kCubinHeaderBytes;
  const std::uint64_t texts = lengths.key + lengths.provenance;
  if (texts > body || lengths.cubin != body - texts) {
    return fmt::format("has {} bytes after its header, which speaks of {} + {} + {}: truncated or extended", body,
                       lengths.key, lengths.provenance, lengths.cubin);
  }
  if (lengths.cubin == 0) return "holds no cubin";
  if (get<std::uint32_t>(bytes, kZeroAt) != 0) return "has a reserved field that is not 0";
  return {};
}

}  // namespace

bool is_cubin_hash(std::string_view hash) {
  return hash.size() == 2 * kHashBytes &&
         std::ranges::all_of(hash, [](char c) { return kHexDigits.find(c) != std::string_view::npos; });
}

std::string encode_cubin(const CubinFile &file) {
  if (!is_cubin_hash(file.hash) || file.cubin.empty()) {
    throw_error(MSJ_ERROR_INTERNAL,
                "cubin file has hash \"{}\" and {} bytes; 32 lower-case hex digits and at least 1 byte are accepted",
                file.hash, file.cubin.size());
  }
  if (const std::size_t most = std::max(file.key.size(), file.provenance.size()); most > kMostCubinTextBytes) {
    throw_error(MSJ_ERROR_INTERNAL, "cubin {} has a text of {} bytes; at most {} are accepted", file.hash, most,
                kMostCubinTextBytes);
  }
  std::string bytes(kCubinMagic);
  put(bytes, kCubinVersion);
  put(bytes, static_cast<std::uint32_t>(file.key.size()));
  put(bytes, static_cast<std::uint32_t>(file.provenance.size()));
  put(bytes, std::uint32_t{0});
  put(bytes, std::uint64_t{file.cubin.size()});
  bytes += from_hex(file.hash);
  const std::string body = file.key + file.provenance + file.cubin;
  bytes += checksum(bytes, body);
  return bytes += body;
}

std::optional<CubinFile> decode_cubin(std::string_view bytes, std::string &why) {
  Lengths lengths{};
  why = header_problem(bytes, lengths);
  if (!why.empty()) return std::nullopt;
  const std::string_view body = bytes.substr(kCubinHeaderBytes);
  if (bytes.substr(kChecksumAt, kCubinHeaderBytes - kChecksumAt) != checksum(bytes.substr(0, kChecksumAt), body)) {
    why = "has another checksum than its header says";
    return std::nullopt;
  }
  return CubinFile{to_hex(bytes.substr(kHashAt, kHashBytes)), std::string(body.substr(0, lengths.key)),
                   std::string(body.substr(lengths.key, lengths.provenance)),
                   std::string(body.substr(lengths.key + lengths.provenance))};
}

}  // namespace msj::store
