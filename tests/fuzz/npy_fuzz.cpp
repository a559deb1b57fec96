// libFuzzer over the .npy reader: any bytes give an array that lies within them, or one sentence.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <stdexcept>
#include <string_view>

#include "cli/npy_read.h"

namespace {

// Reads every element that a copy would, and the last one through the strides.
void check(const msj::cli::NpyArray &array, std::span<const std::byte> file_bytes) {
  if (array.owner || static_cast<std::int64_t>(msj::cli::copy_npy(array).size()) != array.bytes()) std::abort();
  if (array.shape.size() > msj::cli::kNpyMaxRank || array.strides.size() != array.shape.size()) std::abort();
  if (array.elements() == 0) return;
  std::int64_t last = 0;
  for (std::size_t i = 0; i < array.shape.size(); ++i) last += (array.shape[i] - 1) * array.strides[i];
  if (last != array.elements() - 1) std::abort();
  const std::byte *const end = array.data + array.bytes();
  if (array.data < file_bytes.data() || end > file_bytes.data() + file_bytes.size()) std::abort();
}

// One line that names the file and is short enough to read.
void check(std::string_view sentence) {
  if (!sentence.starts_with("fuzz: ") || sentence.find('\n') != std::string_view::npos || sentence.size() > 500) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  const auto file_bytes = std::as_bytes(std::span(data, size));
  try {
    check(msj::cli::parse_npy(file_bytes, "fuzz"), file_bytes);
  } catch (const std::runtime_error &error) {
    check(error.what());
  }
  return 0;
}
