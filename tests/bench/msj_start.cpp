// From the first line of main to the first score, as a program that links the library meets it: the public header
// alone.
//
//   msj_start
//
// CUDA's own start (libcuda, cuInit, the primary context) is timed apart, by the allocation that brings it about; what
// the library adds is the rest: its context, the lookup or sweep or compile, the load, the launch, the score read back.
// MAXSIM_JIT_CACHE_DIR and MAXSIM_JIT_TUNE choose the start that is measured. Exit status 77: no GPU.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include "maxsim_jit/maxsim_jit.hpp"

namespace {

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

constexpr std::int64_t kDocuments = 1'000;
constexpr std::int64_t kQueryTokens = 32;
constexpr std::int64_t kDocumentTokens = 300;
constexpr std::int64_t kWidth = 128;

}  // namespace

int main() {
  using namespace maxsim_jit;
  try {
    const auto start = Clock::now();
    const Context context;
    const auto created = Clock::now();
    const DeviceMemory first(context, 0, 1);
    const auto cuda_started = Clock::now();

    const DeviceMemory q(context, 0, kQueryTokens * kWidth * 2);
    const DeviceMemory d(context, 0, kDocuments * kDocumentTokens * kWidth * 2);
    const DeviceMemory scores(context, 0, kDocuments * 4);
    const std::vector<unsigned char> halves(d.bytes(), 0x3c);  // fp16 1.059: no matter for the time
    q.upload(halves.data());
    d.upload(halves.data());
    const auto uploaded = Clock::now();

    DenseForward call;
    call.q = Tensor(q.get(), DType::f16, {1, kQueryTokens, kWidth});
    call.d = Tensor(d.get(), DType::f16, {kDocuments, kDocumentTokens, kWidth});
    call.scores = Tensor(scores.get(), DType::f32, {1, kDocuments});
    dense_forward(context, call);
    std::vector<float> result(kDocuments);
    scores.download(result.data());
    const auto scored = Clock::now();
    dense_forward(context, call);
    scores.download(result.data());
    const auto scored_again = Clock::now();

    const msj_counters stats = context.stats();
    std::printf(
        "start: context %.2f ms, CUDA's start %.1f ms, upload %.1f ms, first score %.2f ms, second %.3f ms; the "
        "library's "
        "own %.2f ms; score %.1f; nvrtc %lld (%.0f ms over threads), sweeps %lld, cubins from disk %lld\n",
        milliseconds(start, created), milliseconds(created, cuda_started), milliseconds(cuda_started, uploaded),
        milliseconds(uploaded, scored), milliseconds(scored, scored_again),
        milliseconds(start, created) + milliseconds(uploaded, scored), static_cast<double>(result[0]),
        static_cast<long long>(stats.nvrtc_invocations), stats.nvrtc_seconds * 1e3,
        static_cast<long long>(stats.sweeps), static_cast<long long>(stats.cubin_hits_disk));
    return 0;
  } catch (const Error &error) {
    std::printf("%s: %s\n", error.status() == MSJ_ERROR_NO_DRIVER ? "skipped: no GPU" : "msj_start", error.what());
    return error.status() == MSJ_ERROR_NO_DRIVER ? 77 : 1;
  }
}
