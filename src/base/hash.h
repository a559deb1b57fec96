// Content hashes for file names and checksums: SHA-256 (FIPS 180-4), its first 128 bits where a name is wanted.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace msj {

using Digest = std::array<std::uint8_t, 32>;

[[nodiscard]] Digest sha256(std::string_view bytes);
// Two lower-case hex digits a byte; and back, from an even number of such digits and nothing else.
[[nodiscard]] std::string to_hex(std::string_view bytes);
[[nodiscard]] std::string from_hex(std::string_view hex);

[[nodiscard]] std::string short_hex(const Digest &digest);  // 32 digits
[[nodiscard]] inline std::string hash_name(std::string_view bytes) { return short_hex(sha256(bytes)); }

}  // namespace msj
