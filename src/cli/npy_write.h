// Arrays as .npy files: version 1.0 in C order, from elements in host byte order.
//
// A symlink's target is written, not the link, also where it is not there yet. bf16 is written as ml_dtypes writes it;
// fp8 as '|V1', because NumPy cannot load ml_dtypes' '<f1'. Every failure throws std::runtime_error with one sentence
// that names the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "cli/new_file.h"
#include "cli/npy.h"

namespace msj::cli {

void write_npy(const std::filesystem::path &path, NpyType type, std::span<const std::int64_t> shape,
               std::span<const std::byte> data);

// The same, but under its name only once it is published.
[[nodiscard]] NewFile stage_npy(const std::filesystem::path &path, NpyType type, std::span<const std::int64_t> shape,
                                std::span<const std::byte> data);

}  // namespace msj::cli
