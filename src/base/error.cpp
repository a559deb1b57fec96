#include "base/error.h"

#include "text/printable.h"

namespace msj {

Error::Error(msj_status status, const std::string &sentence)
    : std::runtime_error(printable(sentence)), status_(status) {}

std::string status_name(msj_status status) {
  switch (status) {
    case MSJ_OK:
      return "MSJ_OK";
    case MSJ_ERROR_INVALID_ARGUMENT:
      return "MSJ_ERROR_INVALID_ARGUMENT";
    case MSJ_ERROR_UNSUPPORTED:
      return "MSJ_ERROR_UNSUPPORTED";
    case MSJ_ERROR_COLD:
      return "MSJ_ERROR_COLD";
    case MSJ_ERROR_NO_DRIVER:
      return "MSJ_ERROR_NO_DRIVER";
    case MSJ_ERROR_NO_NVRTC:
      return "MSJ_ERROR_NO_NVRTC";
    case MSJ_ERROR_COMPILE:
      return "MSJ_ERROR_COMPILE";
    case MSJ_ERROR_CUDA:
      return "MSJ_ERROR_CUDA";
    case MSJ_ERROR_OUT_OF_MEMORY:
      return "MSJ_ERROR_OUT_OF_MEMORY";
    case MSJ_ERROR_IO:
      return "MSJ_ERROR_IO";
    case MSJ_ERROR_WORKSPACE:
      return "MSJ_ERROR_WORKSPACE";
    case MSJ_ERROR_PLAN_MISMATCH:
      return "MSJ_ERROR_PLAN_MISMATCH";
    case MSJ_ERROR_INTERNAL:
      return "MSJ_ERROR_INTERNAL";
    default:
      return fmt::format("unknown status {}", status);
  }
}

}  // namespace msj
