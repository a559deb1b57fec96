// One cubin as the bytes of its file, and back. docs/cache-files.md gives the header byte by byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace msj::store {

inline constexpr std::string_view kCubinMagic = "MSJCUBIN";
inline constexpr std::uint32_t kCubinVersion = 1;
inline constexpr std::size_t kCubinHeaderBytes = 80;
inline constexpr std::size_t kMostCubinTextBytes = 65536;  // of the key, and of the provenance: a hundred times ours

struct CubinFile {
  std::string hash;        // 32 lower-case hex digits: names the file
  std::string key;         // canonical text that the hash is over, but for the source itself: JSON
  std::string provenance;  // JSON: NVRTC version, library version, date; never part of the identity
  std::string cubin;
};

[[nodiscard]] bool is_cubin_hash(std::string_view hash);

// Throws Error(MSJ_ERROR_INTERNAL) for a hash that is not 32 hex digits, an empty cubin, or a text that is longer.
[[nodiscard]] std::string encode_cubin(const CubinFile &file);
// nullopt with one sentence in `why` for anything that is not exactly right: truncated, a flipped bit anywhere, another
// version, trailing bytes. Never reads past `bytes`.
[[nodiscard]] std::optional<CubinFile> decode_cubin(std::string_view bytes, std::string &why);

}  // namespace msj::store
