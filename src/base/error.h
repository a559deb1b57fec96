// The one exception of the library: a status and one sentence that names the argument, what it was, what is accepted.
// It never crosses the ABI: api/c_api.cpp turns it into a status and msj_last_error().
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "maxsim_jit/maxsim_jit.h"

namespace msj {

class Error : public std::runtime_error {
 public:
  // Bytes of others in it are made printable: what() would end at a NUL.
  Error(msj_status status, const std::string &sentence);
  [[nodiscard]] msj_status status() const { return status_; }

 private:
  msj_status status_;
};

// throw_error(MSJ_ERROR_INVALID_ARGUMENT, "rank of {} is {}; {} is accepted", ...)
template <typename... Args>
[[noreturn]] void throw_error(msj_status status, fmt::format_string<Args...> format, Args &&...args) {
  throw Error(status, fmt::format(format, std::forward<Args>(args)...));
}

// "MSJ_ERROR_COLD" and so on; "unknown status N" for a value that is none.
[[nodiscard]] std::string status_name(msj_status status);

}  // namespace msj
