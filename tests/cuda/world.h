// What the tests of src/cuda share: settings that open the stand-in driver, a real cubin, and errors as values.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "cuda/current_context.h"
#include "cuda/driver.h"
#include "cuda/nvrtc.h"
#include "support/fake_cuda.h"

namespace world {

inline msj::Settings fake_settings() {
  msj::Settings settings;
  settings.libcuda = MSJ_FAKE_LIBCUDA;
  return settings;
}

// The driver of one test: the stand-in, reset.
struct Gpu {
  fake::FakeCuda fake{MSJ_FAKE_LIBCUDA};
  std::shared_ptr<const msj::cuda::Driver> driver = msj::cuda::Driver::load(fake_settings());
};

// And a context of its first device, current here.
struct Loaded : Gpu {
  CUcontext context = fake.create_context(0);
  msj::cuda::ContextGuard guard{*driver, context};
};

// Two kernels: `small` takes an int pointer; `wide` a 48-byte struct, and runs at most 96 threads.
inline constexpr const char *kSource = R"(
struct Wide { long long word[6]; };
extern "C" __global__ void small(int *out) { *out = 1; }
extern "C" __global__ void __launch_bounds__(96) wide(const __grid_constant__ Wide in) { *(int *)in.word[0] = 2; }
)";

inline const std::string &cubin() {
  static const std::string bytes = [] {
    msj::Counters counters;
    const auto nvrtc = msj::cuda::Nvrtc::load(msj::Settings{});
    return nvrtc->compile(kSource, "world.cu", msj::cuda::parse_architecture("sm_90a"), {"--std=c++17"}, counters)
        .cubin;
  }();
  return bytes;
}

// The status and sentence of the Error that `action` throws; MSJ_OK if it throws none.
struct Failure {
  msj_status status = MSJ_OK;
  std::string sentence;
  [[nodiscard]] bool names(const std::string &text) const { return sentence.find(text) != std::string::npos; }
};
template <typename Action>
Failure failure_of(const Action &action) {
  try {
    action();
  } catch (const msj::Error &error) {
    return {error.status(), error.what()};
  }
  return {};
}

}  // namespace world

// The sentence is shown when the check fails.
#define CHECK_NAMES(failure, text) CHECK_MESSAGE((failure).names(text), (failure).sentence)
