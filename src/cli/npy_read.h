// Arrays of .npy files: mapped into memory and described, never copied.
//
// Every failure throws std::runtime_error with one sentence that names the file, what it was and what is accepted.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "cli/npy.h"

namespace msj::cli {

struct NpyArray {
  NpyType type = NpyType::f32;
  std::vector<std::int64_t> shape;    // empty for a scalar; every size ≥ 0, and their product in bytes fits the file
  std::vector<std::int64_t> strides;  // in elements; C or Fortran order, as in the file
  const std::byte *data = nullptr;    // at any alignment: read elements with load_npy
  std::shared_ptr<const void> owner;  // keeps data alive: the mapping; null: the caller's bytes
  bool is_swapped = false;            // the bytes of each element are in the other order than the host's

  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] std::int64_t bytes() const { return elements() * cli::bytes(type); }
};

// Maps a regular file. Bytes after the array are ignored, as NumPy does. What another program writes into the file
// while the array lives may be seen or not; if it truncates it, access fails as mapping.h says.
[[nodiscard]] NpyArray read_npy(const std::filesystem::path &path);

// The same for bytes in memory, to which the array points; `file` is for messages.
[[nodiscard]] NpyArray parse_npy(std::span<const std::byte> file_bytes, std::string_view file);

// All bytes in memory order, each element's in the host's order.
[[nodiscard]] std::vector<std::byte> copy_npy(const NpyArray &array);

// The element whose bytes begin at `from`, of T's size.
template <typename T>
[[nodiscard]] T load_npy(const std::byte *from, bool is_swapped) {
  std::array<std::byte, sizeof(T)> raw{};
  std::memcpy(raw.data(), from, sizeof(T));
  if (is_swapped) std::ranges::reverse(raw);
  return std::bit_cast<T>(raw);
}

}  // namespace msj::cli
