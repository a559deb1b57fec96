// libFuzzer over the autotune entry reader: any bytes are an entry or are refused with a reason, and an entry that is
// taken is written as one that is taken again.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "tune/entry.h"
#include "tune/toy_op.h"

namespace {

using Json = nlohmann::ordered_json;

// Changed texts never have a right checksum: with it, the fields behind it are reached too.
std::string sealed(std::string_view text) {
  constexpr int kDeep = 16;  // beyond the reader's own limit, and harmless to a recursive dump
  const auto keep = [](int depth, Json::parse_event_t, const Json &) { return depth < kDeep; };
  Json json = Json::parse(text, keep, false);
  if (!json.is_object()) return {};
  Json body = json;
  body.erase("checksum");
  if (body.contains("provenance") && body["provenance"].is_object()) body["provenance"].erase("date");
  json["checksum"] = msj::hash_name(body.dump(-1, ' ', false, Json::error_handler_t::replace));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void check(std::string_view text) {
  static const msj::tune::AutotuneKey key = msj::testing::toy_key();
  constexpr std::string_view kEnvironment = "NVIDIA-H200_sm_90a_132sm_227KiB";
  std::string why;
  const auto entry = msj::tune::parse_entry(text, key, kEnvironment, why);
  if (entry.has_value() != why.empty()) std::abort();
  const bool sound = msj::tune::entry_problem(text).empty();
  if (entry && (!sound || msj::tune::is_of_other_version(text, key))) std::abort();
  if (!entry) return;
  if (!msj::tune::parse_entry(msj::tune::to_json(*entry, key), key, kEnvironment, why)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char *>(data), size);
  check(text);
  check(sealed(text));
  return 0;
}
