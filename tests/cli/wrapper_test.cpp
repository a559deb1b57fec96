// The C++ wrapper, on the CPU reference: what it adds to the C ABI.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "maxsim_jit/maxsim_jit.hpp"
#include "support/scratch.h"

using maxsim_jit::DType;
using maxsim_jit::Tensor;

namespace {

struct Problem {
  std::vector<float> q = {1, 0, 0, 1};        // one query of two tokens
  std::vector<float> d = {2, 0, 0, 3, 5, 5};  // a document of two tokens, and one more token
  std::vector<float> scores = {-1};
  std::vector<std::int32_t> argmax = {-7, -7};

  // One document of `length` tokens.
  maxsim_jit::DenseForward call(std::int64_t length = 2) {
    maxsim_jit::DenseForward result;
    result.q = Tensor(q.data(), DType::f32, {1, 2, 2});
    result.d = Tensor(d.data(), DType::f32, {1, length, 2});
    result.scores = Tensor(scores.data(), DType::f32, {1, 1});
    result.launch.device = MSJ_DEVICE_CPU;
    return result;
  }
};

msj_status status_of(const std::function<void()> &action) {
  try {
    action();
  } catch (const maxsim_jit::Error &error) {
    CHECK(std::string(error.what()).size() > 10);
    return error.status();
  }
  return MSJ_OK;
}

struct Fixture {
  msj::testing::ScratchDirectory directory;
  maxsim_jit::Context context{options()};

  maxsim_jit::ContextOptions options() {
    maxsim_jit::ContextOptions result;
    result.cache_dir = directory.path();
    return result;
  }
};

}  // namespace

TEST_CASE("dense_forward scores, with every optional operand") {
  const Fixture fixture;
  Problem problem;
  maxsim_jit::dense_forward(fixture.context, problem.call());
  CHECK(problem.scores[0] == 5.0F);
  maxsim_jit::dense_forward(fixture.context, problem.call(3));
  CHECK(problem.scores[0] == 10.0F);

  auto call = problem.call(3);
  const std::vector<std::uint8_t> q_mask = {1, 0};
  const std::vector<std::uint8_t> d_mask = {1, 1, 0};
  const std::vector<std::int32_t> lengths = {3};
  call.q_mask = Tensor(q_mask.data(), DType::u8, {1, 2});
  call.d_mask = Tensor(d_mask.data(), DType::boolean, {1, 3});
  call.d_lengths = Tensor(lengths.data(), DType::i32, {1});
  call.argmax = Tensor(problem.argmax.data(), DType::i32, {1, 1, 2});
  maxsim_jit::dense_forward(fixture.context, call);
  CHECK(problem.scores[0] == 2.0F);
  CHECK(problem.argmax == std::vector<std::int32_t>{0, -1});
  call.normalize = true;
  maxsim_jit::dense_forward(fixture.context, call);
  CHECK(problem.scores[0] == doctest::Approx(1.0));
}

TEST_CASE("strides and empty_doc reach the library") {
  const Fixture fixture;
  Problem problem;
  auto call = problem.call();
  problem.d = {2, 7, 0, 3, 0, 0};
  call.d = Tensor(problem.d.data(), DType::f32, {1, 2, 2}).with_strides({4, 1, 2});  // tokens (2, 0) and (7, 3)
  maxsim_jit::dense_forward(fixture.context, call);
  CHECK(problem.scores[0] == 10.0F);
  call.empty_doc = maxsim_jit::EmptyDoc::neg_inf;
  const std::vector<std::int32_t> lengths = {0};
  call.d_lengths = Tensor(lengths.data(), DType::i32, {1});
  maxsim_jit::dense_forward(fixture.context, call);
  CHECK(std::isinf(problem.scores[0]));
}

namespace {

// An index of three tokens of two features, in 4 bits each: weights[i] = i / 4, so a token's row is its centroid and
// quarters. Feature after feature, the low bit first, each byte from its highest bit on.
struct Index {
  std::vector<std::int32_t> codes = {0, 1, 1};
  std::vector<std::uint8_t> residuals = {0x02, 0x00, 0x80};  // indices (0, 4), (0, 0), (1, 0)
  std::vector<float> centroids = {1, 0, 0, 3};
  std::vector<float> weights = std::vector<float>(16);
  std::vector<std::int64_t> starts = {1, 0};
  std::vector<std::int32_t> lengths = {2, 1};  // rows (0, 3), (0.25, 3); row (1, 1)
  std::vector<float> q = {4, 1};
  std::vector<float> scores = {-1, -1};

  Index() {
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = 0.25F * static_cast<float>(i);
  }

  maxsim_jit::ResidualForward call() {
    maxsim_jit::ResidualForward result;
    result.q = Tensor(q.data(), DType::f32, {1, 1, 2});
    result.codes = Tensor(codes.data(), DType::i32, {3});
    result.residuals = Tensor(residuals.data(), DType::u8, {3, 1});
    result.d_starts = Tensor(starts.data(), DType::i64, {2});
    result.d_lengths = Tensor(lengths.data(), DType::i32, {2});
    result.centroids = Tensor(centroids.data(), DType::f32, {2, 2});
    result.bucket_weights = Tensor(weights.data(), DType::f32, {16});
    result.scores = Tensor(scores.data(), DType::f32, {1, 2});
    result.launch.device = MSJ_DEVICE_CPU;
    return result;
  }
};

}  // namespace

TEST_CASE("residual_forward scores documents of an index, with every optional operand") {
  const Fixture fixture;
  Index index;
  auto call = index.call();
  maxsim_jit::residual_forward(fixture.context, call);
  CHECK(index.scores == std::vector<float>{4.0F, 5.0F});

  std::vector<std::int32_t> argmax = {-7, -7};
  const std::vector<float> inv_norms = {2.0F, 1.0F, 0.5F};
  call.argmax = Tensor(argmax.data(), DType::i32, {1, 2, 1});
  call.d_inv_norms = Tensor(inv_norms.data(), DType::f32, {3});
  call.Ld = 2;
  maxsim_jit::residual_forward(fixture.context, call);
  CHECK(index.scores == std::vector<float>{3.0F, 10.0F});
  CHECK(argmax == std::vector<std::int32_t>{0, 0});

  const std::vector<std::uint8_t> q_mask = {0};
  call.q_mask = Tensor(q_mask.data(), DType::u8, {1, 1});
  maxsim_jit::residual_forward(fixture.context, call);
  CHECK(index.scores == std::vector<float>{0.0F, 0.0F});
  CHECK(argmax == std::vector<std::int32_t>{-1, -1});
}

TEST_CASE("lsb_first, empty_doc and documents that are not there reach residual_forward") {
  const Fixture fixture;
  Index index;
  auto call = index.call();
  for (std::uint8_t &byte : index.residuals) {  // the same bits from the other end
    std::uint8_t reversed = 0;
    for (int bit = 0; bit < 8; ++bit) reversed |= static_cast<std::uint8_t>((byte >> bit & 1) << (7 - bit));
    byte = reversed;
  }
  call.lsb_first = true;
  maxsim_jit::residual_forward(fixture.context, call);
  CHECK(index.scores == std::vector<float>{4.0F, 5.0F});
  index.lengths = {0, 4};  // no token, and more than there are
  call.empty_doc = maxsim_jit::EmptyDoc::neg_inf;
  maxsim_jit::residual_forward(fixture.context, call);
  CHECK(std::isinf(index.scores[0]));
  CHECK(std::isnan(index.scores[1]));
  index.lengths = {1, 1};
  index.codes = {0, 2, 1};
  maxsim_jit::residual_forward(fixture.context, call);
  CHECK(std::isnan(index.scores[0]));
  call.bucket_weights = Tensor(index.weights.data(), DType::f32, {8});
  CHECK(status_of([&] { maxsim_jit::residual_forward(fixture.context, call); }) != MSJ_OK);
}

TEST_CASE("residual_norms are of all tokens, or of those of documents") {
  const Fixture fixture;
  Index index;
  const auto forward = index.call();
  std::vector<float> inv_norms = {-1, -1, -1};
  maxsim_jit::ResidualNorms call;
  call.codes = forward.codes;
  call.residuals = forward.residuals;
  call.centroids = forward.centroids;
  call.bucket_weights = forward.bucket_weights;
  call.inv_norms = Tensor(inv_norms.data(), DType::f32, {3});
  call.launch.device = MSJ_DEVICE_CPU;
  maxsim_jit::residual_norms(fixture.context, call);
  CHECK(inv_norms[0] == doctest::Approx(1 / std::sqrt(2.0)));
  CHECK(inv_norms[1] == doctest::Approx(1 / 3.0));
  CHECK(inv_norms[2] == doctest::Approx(1 / std::sqrt(9.0625)));

  inv_norms = {-1, -1, -1};
  call.d_starts = Tensor(index.starts.data(), DType::i64, {1});
  call.d_lengths = Tensor(index.lengths.data(), DType::i32, {1});
  maxsim_jit::residual_norms(fixture.context, call);
  CHECK(inv_norms[0] == -1.0F);
  CHECK(inv_norms[1] == doctest::Approx(1 / 3.0));
}

TEST_CASE("errors carry the status and the sentence") {
  const Fixture fixture;
  Problem problem;
  auto call = problem.call();
  call.d = Tensor(problem.d.data(), DType::f32, {1, 2, 3});
  CHECK(status_of([&] { maxsim_jit::dense_forward(fixture.context, call); }) == MSJ_ERROR_INVALID_ARGUMENT);
  call.d = Tensor();
  CHECK(status_of([&] { maxsim_jit::dense_forward(fixture.context, call); }) == MSJ_ERROR_INVALID_ARGUMENT);
  CHECK(status_of([] { Tensor(nullptr, DType::f32, {1, 1, 1, 1, 1, 1, 1}); }) == MSJ_ERROR_INVALID_ARGUMENT);
  CHECK(status_of([] {
          static_cast<void>(Tensor(nullptr, DType::f32, {1, 1}).with_strides({1}));
        }) == MSJ_ERROR_INVALID_ARGUMENT);
  CHECK(status_of([] { maxsim_jit::Call(MSJ_DENSE_FORWARD).operand(99, Tensor()); }) == MSJ_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("a copied call points to its own tensors") {
  const Tensor tensor(nullptr, DType::f32, {2, 3});
  maxsim_jit::Call call(MSJ_DENSE_FORWARD);
  call.operand(1, tensor).param(MSJ_PARAM_EMPTY_DOC, std::int64_t{1}).flag(5).flag(4, false);
  const maxsim_jit::Call copy(call);
  maxsim_jit::Call assigned(MSJ_DENSE_FORWARD);
  assigned = call;
  for (const maxsim_jit::Call *other : {&copy, static_cast<const maxsim_jit::Call *>(&assigned)}) {
    CHECK(other->get()->operand_count == 2);
    CHECK(other->get()->operands[0] == nullptr);
    REQUIRE(other->get()->operands[1] != nullptr);
    CHECK(other->get()->operands[1] != call.get()->operands[1]);
    CHECK(other->get()->operands[1]->shape[1] == 3);
    CHECK(other->get()->operands[1]->strides[0] == 3);
    CHECK(other->get()->params[0].id == MSJ_PARAM_EMPTY_DOC);
    CHECK(other->get()->params != call.get()->params);
    CHECK(other->get()->flags == 1);
  }
  call.operand(1, Tensor());
  CHECK(call.get()->operands[1] == nullptr);
}

TEST_CASE("documents are JSON, counters count") {
  const Fixture fixture;
  CHECK(maxsim_jit::describe().find("dense_forward") != std::string::npos);
  CHECK(fixture.context.inspect().find("maxsim-jit/inspect/1") != std::string::npos);
  CHECK(fixture.context.doctor().find("maxsim-jit/doctor/1") != std::string::npos);
  CHECK(fixture.context.cache(MSJ_CACHE_PATH).find(fixture.directory.path()) != std::string::npos);
  CHECK(fixture.context.stats().nvrtc_invocations == 0);
  CHECK(status_of([&] { static_cast<void>(fixture.context.cache(99)); }) == MSJ_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("a cache is exported and imported") {
  Fixture fixture;
  const std::string file = fixture.directory / "a.tar";
  CHECK(fixture.context.cache_export(file).find("\"cubins\"") != std::string::npos);
  CHECK(status_of([&] { static_cast<void>(fixture.context.cache_export(file, "dense_forward", "sm_90a")); }) ==
        MSJ_ERROR_IO);  // there is none
  CHECK(fixture.context.cache_import(file).find("\"problems\"") != std::string::npos);
  CHECK(status_of([&] { static_cast<void>(fixture.context.cache_export(file, "sparse")); }) ==
        MSJ_ERROR_INVALID_ARGUMENT);
  CHECK(status_of([&] { static_cast<void>(fixture.context.cache_import(file + "x")); }) == MSJ_ERROR_IO);
}

TEST_CASE("copies share one context, frozen for all of them") {
  Problem problem;
  const Fixture fixture;
  const maxsim_jit::Context copy = fixture.context;
  CHECK(copy.get() == fixture.context.get());
  copy.freeze();
  maxsim_jit::dense_forward(fixture.context, problem.call());  // the reference needs nothing cold
  CHECK(problem.scores[0] == 5.0F);
}

TEST_CASE("what a callback throws is dropped") {
  const msj::testing::ScratchDirectory directory;
  msj::testing::write_text(directory / "file", "no directory");
  int told = 0;
  maxsim_jit::ContextOptions options;
  options.cache_dir = directory / "file";  // cannot be a cache: the library warns and goes on in memory
  options.log = [&told](std::int32_t, const char *) {
    ++told;
    throw std::runtime_error("not through the ABI");
  };
  const maxsim_jit::Context context(options);
  Problem problem;
  maxsim_jit::DenseForward call = problem.call();
  call.launch.device = 0;
  (void)status_of([&] { maxsim_jit::prepare(context, call.call(), {.arch = "sm_90a"}); });  // looks into the cache
  CHECK(told > 0);
}
