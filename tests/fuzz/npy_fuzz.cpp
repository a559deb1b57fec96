// libFuzzer over the .npy reader: any bytes give an array that lies within them (or its own copy), or one error.
#include <cstdint>
#include <cstdlib>
#include <stdexcept>

#include "cli/npy.h"

namespace {

// Reads the first and the last element through the strides: AddressSanitizer and `check` see what lies outside.
void check(const msj::cli::NpyArray &array, std::span<const std::byte> file_bytes) {
  if (array.shape.size() > msj::cli::kNpyMaxRank || array.strides.size() != array.shape.size()) std::abort();
  if (array.elements() == 0) return;
  std::int64_t last = 0;
  for (std::size_t i = 0; i < array.shape.size(); ++i) last += (array.shape[i] - 1) * array.strides[i];
  if (last != array.elements() - 1) std::abort();
  const std::byte *const end = array.data + array.bytes();
  if (!array.owner && (array.data < file_bytes.data() || end > file_bytes.data() + file_bytes.size())) std::abort();
  const volatile std::byte touched[] = {*array.data, *(end - 1)};
  (void)touched;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  const auto file_bytes = std::as_bytes(std::span(data, size));
  try {
    check(msj::cli::parse_npy(file_bytes, "fuzz"), file_bytes);
  } catch (const std::runtime_error &) {
  }
  return 0;
}
