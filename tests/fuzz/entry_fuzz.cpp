// libFuzzer over the autotune entry reader: any bytes are an entry or are refused with a reason, and an entry that is
// taken is written as one that is taken again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tune/entry.h"
#include "tune/toy_op.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  static const msj::tune::AutotuneKey key = msj::testing::toy_key();
  constexpr std::string_view kEnvironment = "NVIDIA-H200_sm_90a_132sm_227KiB";
  const std::string_view text(reinterpret_cast<const char *>(data), size);
  std::string why;
  const auto entry = msj::tune::parse_entry(text, key, kEnvironment, why);
  if (entry.has_value() != why.empty()) std::abort();
  const bool sound = msj::tune::entry_problem(text).empty();
  if (entry && (!sound || msj::tune::is_of_other_version(text, key))) std::abort();
  if (!entry) return 0;
  if (!msj::tune::parse_entry(msj::tune::to_json(*entry, key), key, kEnvironment, why)) std::abort();
  return 0;
}
