// The compile cache: a cubin is what its source, options and target are. One changed byte is a miss, the compiler's
// version is not, and a cubin that does not load is built again, once.
#include <doctest/doctest.h>

#include <filesystem>

#include "store/cubin_store.h"
#include "support/session.h"
#include "support/tiny_kernels.h"

using namespace msj;
using namespace msj::testing;

namespace {

std::int64_t invocations(const std::string &cache, const CallShape &shape) {
  Session session(cache, "off");
  session.must_run(shape);
  return session.stats().nvrtc_invocations;
}

}  // namespace

TEST_CASE("the same bytes hit, one changed byte of the source misses") {
  TinyKernels kernels;
  for (const ops::Op &op : ops::all_ops()) {
    CAPTURE(op.spec->name);
    FakeGpu gpu;
    const ScratchDirectory cache;
    const CallShape shape = small_call(*op.spec);
    CHECK(invocations(cache.path(), shape) == 1);
    CHECK(invocations(cache.path(), shape) == 0);
    for (const PathSpec &path : op.spec->paths) kernels.write(*op.spec, path, "// a");
    CHECK(invocations(cache.path(), shape) == 1);
    for (const PathSpec &path : op.spec->paths) kernels.write(*op.spec, path, "// b");
    CHECK(invocations(cache.path(), shape) == 1);
    for (const PathSpec &path : op.spec->paths) kernels.write(*op.spec, path, "// a");
    CHECK(invocations(cache.path(), shape) == 0);
    CHECK(cubin_files(cache.path()).size() == 3);
  }
}

TEST_CASE("each architecture has cubins and entries of its own") {
  const TinyKernels kernels;
  for (const ops::Op &op : ops::all_ops()) {
    FakeGpu gpu;
    const ScratchDirectory cache;
    const CallShape shape = small_call(*op.spec);
    CHECK(invocations(cache.path(), shape) == 1);
    gpu->clear_devices();
    gpu->add_device("NVIDIA A100-SXM4-80GB", 80, 108, 163 * 1024, std::size_t{80} << 30);
    CHECK(invocations(cache.path(), shape) == 1);
    CHECK(invocations(cache.path(), shape) == 0);
  }
}

TEST_CASE("NVRTC's version is provenance, not identity") {
  const TinyKernels kernels;
  const OpSpec &op = *ops::all_ops().front().spec;
  FakeGpu gpu;
  const ScratchDirectory cache;
  const CallShape shape = small_call(op);
  CHECK(invocations(cache.path(), shape) == 1);
  REQUIRE(cubin_files(cache.path()).size() == 1);
  const auto path = cubin_files(cache.path()).front();
  std::string why;
  auto file = store::decode_cubin(read_text(path), why);
  REQUIRE_MESSAGE(file, why);
  CHECK(file->provenance.find("nvrtc") != std::string::npos);
  CHECK(file->key.find("nvrtc") == std::string::npos);
  file->provenance = R"({"nvrtc":"99.9","library":"0.0.1","date":"1970-01-01T00:00:00Z"})";
  write_text(path, store::encode_cubin(*file));
  CHECK(invocations(cache.path(), shape) == 0);
}

TEST_CASE("a damaged or swapped cubin file is a miss with a warning, never a launch") {
  const TinyKernels kernels;
  const OpSpec &op = *ops::all_ops().front().spec;
  FakeGpu gpu;
  const ScratchDirectory cache;
  const CallShape shape = small_call(op);
  CallShape other = shape;
  other.features = op.all_features();
  CHECK(invocations(cache.path(), shape) == 1);
  const auto path = cubin_files(cache.path()).front();
  const std::string good = read_text(path);
  CHECK(invocations(cache.path(), other) == 1);
  std::string swapped;
  for (const auto &each : cubin_files(cache.path())) {
    if (each != path) swapped = read_text(each);
  }
  std::string flipped = good;
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 1);
  for (const std::string &bad : {std::string(), good.substr(0, good.size() - 1), flipped, good + "x", swapped}) {
    write_text(path, bad);
    Session session(cache.path(), "off");
    session.must_run(shape);
    CHECK(session.stats().nvrtc_invocations == 1);
    CHECK(session.complaints().size() == 1);
    CHECK(read_text(path).size() == good.size());  // replaced by a good one
  }
}

TEST_CASE("a cubin that does not load is built again, once") {
  const TinyKernels kernels;
  for (const ops::Op &op : ops::all_ops()) {
    CAPTURE(op.spec->name);
    FakeGpu gpu;
    const ScratchDirectory cache;
    const CallShape shape = small_call(*op.spec);
    CHECK(invocations(cache.path(), shape) == 1);
    {
      gpu->fail("cuLibraryLoadData", CUDA_ERROR_INVALID_IMAGE, 1);
      Session session(cache.path(), "off");
      session.must_run(shape);
      CHECK(session.stats().nvrtc_invocations == 1);
      CHECK(session.stats().cubin_hits_disk == 1);
      CHECK(session.complaints().size() == 1);
    }
    {
      gpu->fail("cuLibraryLoadData", CUDA_ERROR_INVALID_IMAGE, 2);
      Session session(cache.path(), "off");
      CHECK(session.run(shape) == MSJ_ERROR_CUDA);
      CHECK(std::string(msj_last_error()).find("cuLibraryLoadData") != std::string::npos);
      CHECK(session.stats().nvrtc_invocations == 1);
      CHECK(session.run(shape) == MSJ_OK);  // what failed is tried again
    }
  }
}

TEST_CASE("what NVRTC refuses is an error that quotes its log, counted, and tried again") {
  TinyKernels kernels;
  const OpSpec &op = *ops::all_ops().front().spec;
  for (const PathSpec &path : op.paths) kernels.write(op, path, "this is no CUDA;");
  FakeGpu gpu;
  const ScratchDirectory cache;
  const CallShape shape = small_call(op);
  Session session(cache.path(), "off");
  CHECK(session.run(shape) == MSJ_ERROR_COMPILE);
  CHECK(std::string(msj_last_error()).find("error:") != std::string::npos);
  CHECK(session.run(shape) == MSJ_ERROR_COMPILE);
  CHECK(session.stats().nvrtc_invocations == 2);
  CHECK(session.stats().launches == 0);
  CHECK(cubin_files(cache.path()).empty());
}
