// Specialization → cubin through memory, disk and NVRTC, with real compiles of small kernels.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/counters.h"
#include "base/error.h"
#include "jit/specializer.h"
#include "support/op_calls.h"
#include "support/scratch.h"
#include "support/tiny_kernels.h"

using namespace msj;
using namespace msj::testing;

namespace {

// All that a specializer hangs on, on one cache directory.
struct Bench {
  explicit Bench(const std::string &cache)
      : settings(read_settings(secure_environment, cache.c_str(), nullptr)),
        log("", keep, &said),
        root(settings, store::real_files(), log),
        nvrtc([this] { return cuda::Nvrtc::load(settings); }),
        specializer(settings, root, nvrtc, counters, log) {}

  static void keep(void *said, std::int32_t level, const char *text) {
    if (level == MSJ_LOG_INFO) static_cast<std::vector<std::string> *>(said)->emplace_back(text);
  }

  std::vector<std::string> said;  // at info
  Settings settings;
  Log log;
  store::CacheRoot root;
  Lazy<cuda::Nvrtc> nvrtc;
  Counters counters;
  jit::Specializer specializer;
};

jit::Specialization specialization(FeatureSet features = 0, const char *architecture = "sm_90a") {
  const OpSpec &op = *ops::all_ops().front().spec;
  jit::Specialization made;
  made.op = &op;
  made.config.path = op.paths.front().name;
  made.features = features;
  made.dtypes.fill(DType::f32);
  made.architecture = cuda::parse_architecture(architecture);
  return made;
}

}  // namespace

TEST_CASE("compiled once, then from memory, then from disk without NVRTC") {
  const TinyKernels kernels;
  const ScratchDirectory cache;
  std::string hash;
  {
    Bench bench(cache.path());
    const auto cubin = bench.specializer.cubin(specialization());
    hash = cubin->hash;
    CHECK(cubin->bytes.substr(1, 3) == "ELF");
    CHECK(bench.specializer.cubin(specialization()) == cubin);
    CHECK(bench.counters.nvrtc_invocations == 1);
    CHECK(bench.counters.cubin_hits_memory == 1);
    CHECK(bench.counters.cubin_hits_disk == 0);
    CHECK(bench.specializer.cubin(specialization(1))->hash != hash);
    CHECK(bench.specializer.cubin(specialization(0, "sm_80"))->hash != hash);
  }
  Bench bench(cache.path());
  CHECK(bench.specializer.cubin(specialization())->hash == hash);
  CHECK(bench.counters.nvrtc_invocations == 0);
  CHECK(bench.counters.cubin_hits_disk == 1);
  CHECK(bench.nvrtc.peek() == nullptr);
}

TEST_CASE("a rebuild forgets memory and disk, and compiles again to the same") {
  const TinyKernels kernels;
  const ScratchDirectory cache;
  Bench bench(cache.path());
  const auto first = bench.specializer.cubin(specialization());
  const auto rebuilt = bench.specializer.rebuild(specialization());
  CHECK(bench.counters.nvrtc_invocations == 2);
  CHECK(rebuilt->hash == first->hash);
  CHECK(rebuilt->bytes == first->bytes);
  CHECK(bench.specializer.cubin(specialization()) == rebuilt);
  CHECK(bench.counters.nvrtc_invocations == 2);
}

TEST_CASE("16 threads: one compile per key, in one specializer or in two on one disk") {
  const TinyKernels kernels;
  const ScratchDirectory cache;
  Bench one(cache.path());
  Bench two(cache.path());
  std::barrier start(16);
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 16; ++i) {
      threads.emplace_back([&, i] {
        start.arrive_and_wait();
        const auto cubin =
            (i % 2 == 0 ? one : two).specializer.cubin(specialization(static_cast<FeatureSet>(i / 2 % 4)));
        if (cubin->bytes.empty()) ++wrong;
      });
    }
  }
  CHECK(wrong == 0);
  CHECK(one.counters.nvrtc_invocations + two.counters.nvrtc_invocations == 4);
}

TEST_CASE("without a usable cache directory everything works, in memory") {
  const TinyKernels kernels;
  const ScratchDirectory scratch;
  write_text(scratch / "file", "");
  Bench bench(scratch / "file/cache");
  CHECK_FALSE(bench.specializer.cubin(specialization())->bytes.empty());
  CHECK_FALSE(bench.specializer.cubin(specialization())->bytes.empty());
  CHECK(bench.counters.nvrtc_invocations == 1);
}

TEST_CASE("a compile that fails is an error each time, and no cubin") {
  TinyKernels kernels;
  const OpSpec &op = *ops::all_ops().front().spec;
  kernels.write(op, op.paths.front(), "#error no");
  const ScratchDirectory cache;
  Bench bench(cache.path());
  for (int i = 1; i <= 2; ++i) {
    CHECK_THROWS_AS((void)bench.specializer.cubin(specialization()), Error);
    CHECK(bench.counters.nvrtc_invocations == i);
  }
  CHECK(cubin_files(cache.path()).empty());
}

TEST_CASE("no NVRTC: what is on disk is served, the rest is MSJ_ERROR_NO_NVRTC") {
  const TinyKernels kernels;
  const ScratchDirectory cache;
  { (void)Bench(cache.path()).specializer.cubin(specialization()); }
  const ScopedEnvironment nowhere("MAXSIM_JIT_LIBNVRTC", "/nowhere/libnvrtc.so");
  Bench bench(cache.path());
  CHECK_FALSE(bench.specializer.cubin(specialization())->bytes.empty());
  try {
    (void)bench.specializer.cubin(specialization(1));
    FAIL("no error");
  } catch (const Error &error) {
    CHECK(error.status() == MSJ_ERROR_NO_NVRTC);
    CHECK(std::string(error.what()).find("/nowhere/libnvrtc.so") != std::string::npos);
  }
  CHECK(bench.counters.nvrtc_invocations == 0);
}

TEST_CASE("what a path has to say of an architecture is said once, where it applies") {
  const TinyKernels kernels;
  const ScratchDirectory cache;
  Bench bench(cache.path());
  for (const char *architecture : {"sm_89", "sm_90a", "sm_90a", "sm_80"}) {
    for (const FeatureSet features : {FeatureSet{0}, FeatureSet{1}}) {
      jit::Specialization made = specialization(features, architecture);
      made.op = ops::find_op(MSJ_FP8_FORWARD)->spec;
      made.dtypes.fill(DType::fp8_e4m3);
      (void)bench.specializer.cubin(made);
    }
  }
  const auto notes = [&bench](std::string_view architecture) {
    return std::count_if(bench.said.begin(), bench.said.end(), [&](const std::string &line) {
      return line.find("converted to fp16") != std::string::npos && line.find(architecture) != std::string::npos;
    });
  };
  CHECK(notes("sm_90a") == 1);
  CHECK(notes("sm_80") == 1);
  CHECK(notes("sm_89") == 0);
}

TEST_CASE("each compile is said, and nothing of what the cache has") {
  const TinyKernels kernels;
  const ScratchDirectory cache;
  Bench bench(cache.path());
  const std::string path(ops::all_ops().front().spec->paths.front().name);
  for (const FeatureSet features : {FeatureSet{0}, FeatureSet{0}, FeatureSet{3}}) {
    (void)bench.specializer.cubin(specialization(features));
  }
  (void)bench.specializer.cubin_of_file("ceilings.cu", cuda::parse_architecture("sm_80"));
  REQUIRE(bench.said.size() == 3);
  CHECK(bench.said[0].starts_with("compiled dense_forward (" + path + "), features [], for sm_90a in 0."));
  CHECK(bench.said[0].ends_with(" s"));
  CHECK(bench.said[1].starts_with("compiled dense_forward (" + path + "), features [q_mask, d_mask], for sm_90a in "));
  CHECK(bench.said[2].starts_with("compiled ceilings.cu for sm_80 in "));
}

TEST_CASE("a file of no op is kept as a specialization is") {
  const TinyKernels kernels;
  const ScratchDirectory cache;
  const auto architecture = cuda::parse_architecture("sm_90a");
  std::string bytes;
  {
    Bench bench(cache.path());
    const auto cubin = bench.specializer.cubin_of_file("ceilings.cu", architecture);
    bytes = cubin->bytes;
    CHECK(bench.specializer.cubin_of_file("ceilings.cu", architecture) == cubin);
    CHECK(bench.specializer.cubin_of_file("ceilings.cu", cuda::parse_architecture("sm_80"))->hash != cubin->hash);
    CHECK(bench.counters.nvrtc_invocations == 2);
    CHECK(bench.counters.cubin_hits_memory == 1);
  }
  Bench bench(cache.path());
  CHECK(bench.specializer.cubin_of_file("ceilings.cu", architecture)->bytes == bytes);
  CHECK(bench.counters.cubin_hits_disk == 1);
  CHECK(bench.nvrtc.peek() == nullptr);
}
