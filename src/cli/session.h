// A context of the library whose log and progress go to the console.
#pragma once

#include <cstdint>
#include <string_view>

#include "cli/console.h"
#include "maxsim_jit/maxsim_jit.hpp"

namespace msj::cli {

// The console must outlive the context.
[[nodiscard]] maxsim_jit::Context make_context(Console &console);

// Throws UsageError that lists the architectures where --arch is none of them.
void check_arch(const std::string &arch);

// "MSJ_ERROR_COLD" and so on.
[[nodiscard]] const char *status_name(msj_status status);

// "cuda" or "cuda:1" → its ordinal, "cpu" → MSJ_DEVICE_CPU. Throws UsageError for anything else.
[[nodiscard]] std::int32_t parse_device(std::string_view text);

}  // namespace msj::cli
