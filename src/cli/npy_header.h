// What a .npy file says about its array before its data: versions 1.0 to 3.0, a Python dict literal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "cli/npy.h"

namespace msj::cli {

inline constexpr std::size_t kNpyMaxHeaderBytes = 65535;  // all that version 1.0 can say; NumPy itself stops at 10,000

struct NpyHeader {
  NpyType type = NpyType::f32;
  bool is_big_endian = false;  // never for one byte
  bool fortran_order = false;
  std::vector<std::int64_t> shape;  // every size ≥ 0; what it holds is not counted
  std::size_t data_begin = 0;       // at most the file's size
};

// From a file's first bytes, or all of them. Throws std::runtime_error with one sentence that begins with `file`.
[[nodiscard]] NpyHeader parse_npy_header(std::span<const std::byte> file_bytes, std::string_view file);

}  // namespace msj::cli
