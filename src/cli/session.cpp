#include "cli/session.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>
#include <vector>

#include "cli/failure.h"
#include "cli/output.h"
#include "cli/words.h"

namespace msj::cli {

maxsim_jit::Context make_context(Console &console) {
  maxsim_jit::ContextOptions options;
  options.log = [&console](std::int32_t level, const char *message) { console.log(level, message); };
  options.progress = [&console](const char *what, std::int64_t done, std::int64_t total) {
    if (total > 1) console.progress(what, done, total);
  };
  return maxsim_jit::Context(std::move(options));
}

void check_arch(const std::string &arch) {
  const auto known = parse_library_json(maxsim_jit::describe()).at("architectures").get<std::vector<std::string>>();
  if (std::ranges::find(known, arch) != known.end()) return;
  usage_error("--arch is '{}'; accepted: {}", shortened(arch), fmt::join(known, ", "));
}

const char *status_name(msj_status status) {
  static constexpr std::array<const char *, 13> kNames = {"MSJ_OK",
                                                          "MSJ_ERROR_INVALID_ARGUMENT",
                                                          "MSJ_ERROR_UNSUPPORTED",
                                                          "MSJ_ERROR_COLD",
                                                          "MSJ_ERROR_NO_DRIVER",
                                                          "MSJ_ERROR_NO_NVRTC",
                                                          "MSJ_ERROR_COMPILE",
                                                          "MSJ_ERROR_CUDA",
                                                          "MSJ_ERROR_OUT_OF_MEMORY",
                                                          "MSJ_ERROR_IO",
                                                          "MSJ_ERROR_WORKSPACE",
                                                          "MSJ_ERROR_PLAN_MISMATCH",
                                                          "MSJ_ERROR_INTERNAL"};
  const auto index = static_cast<std::size_t>(status);
  return index < kNames.size() ? kNames[index] : "unknown status";
}

std::int32_t parse_device(std::string_view text) {
  constexpr std::string_view kPrefix = "cuda:";
  if (text == "cpu") return MSJ_DEVICE_CPU;
  if (text == "cuda") return 0;
  std::int32_t ordinal = -1;
  if (text.starts_with(kPrefix)) {
    const auto [end, error] = std::from_chars(text.data() + kPrefix.size(), text.data() + text.size(), ordinal);
    if (error == std::errc() && end == text.data() + text.size() && ordinal >= 0) return ordinal;
  }
  usage_error("--device is '{}'; accepted: cpu, cuda, cuda:N", shortened(text));
}

}  // namespace msj::cli
