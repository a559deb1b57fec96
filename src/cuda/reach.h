// Telling host memory from device memory before a kernel meets it: an address that a kernel can't reach ends the
// caller's CUDA context for good.
#pragma once

#include <string_view>

#include "cuda/driver.h"

namespace msj::cuda {

// Throws Error(MSJ_ERROR_INVALID_ARGUMENT), with `what` in the sentence, where kernels on `device` can't reach
// `address`: plain host memory, or none at all. Pinned and managed memory are in reach, as is all memory where the GPU
// shares the host's page tables. A context of the device must be current. Allowed during a capture.
void require_in_reach(const Driver &driver, int device, const void *address, std::string_view what);

}  // namespace msj::cuda
