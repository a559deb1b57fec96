// How the command fails: one sentence on stderr, and an exit code that says whose mistake it was.
//
// Bytes of others in a sentence are made printable where it is made: what() would end at a NUL.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "text/printable.h"

namespace msj::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

// The command line itself is wrong: exit 2.
class UsageError : public std::runtime_error {
 public:
  explicit UsageError(const std::string &sentence) : std::runtime_error(printable(sentence)) {}
};

// What was asked could not be done (a file, a size, a device): exit 1.
class Failure : public std::runtime_error {
 public:
  explicit Failure(const std::string &sentence) : std::runtime_error(printable(sentence)) {}
};

template <typename... Args>
[[noreturn]] void usage_error(fmt::format_string<Args...> format, Args &&...args) {
  throw UsageError(fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
[[noreturn]] void failure(fmt::format_string<Args...> format, Args &&...args) {
  throw Failure(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace msj::cli
