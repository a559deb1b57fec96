// Real text (tests/data): the GPU's scores of questions against passages are within their bound of the reference's, and
// rank the passages alike.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "gpu/fixture_files.h"
#include "gpu/instance.h"

using namespace msj;
using namespace msj::gpu;

namespace {

// A file of tests/data as an operand of a problem that has its shape.
template <typename T>
void load(const Instance &instance, std::size_t operand, const std::string &file) {
  const std::string bytes = npy_elements(file);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  REQUIRE(bytes.size() == static_cast<std::size_t>(instance.operand(operand).placement().elements()) * sizeof(T));
  instance.operand(operand).set(values);
}

Problem real_text(std::int64_t Nd, std::int64_t Ld) {
  Problem p;
  p.dtype = DType::f16;
  p.Nq = 8, p.Lq = 20, p.Nd = Nd, p.Ld = Ld, p.d = 128;
  p.features = kQMask | kDMask | kArgmax;
  p.mask_dtype = DType::boolean;
  p.values = Values::untouched;
  return p;
}

void check_close(const Instance::Results &got, const Instance::Results &want) {
  REQUIRE(got.scores.size() == want.scores.size());
  float worst = 0;
  for (std::size_t i = 0; i < got.scores.size(); ++i) {
    worst = std::max(worst, std::abs(got.scores[i] - want.scores[i]));
  }
  // Rows have length 1: B is at most the number of query tokens times a few.
  CHECK(worst <= accuracy(DType::f16, 128) * 20 * 4);
  fmt::print("fixture: {} scores, largest difference from the reference {:.2g}\n", got.scores.size(), worst);
}

Instance::Results score(const maxsim_jit::Context &context, const Instance &instance) {
  Gpu::get().synchronize();
  run(context.get(), instance.call());
  return instance.results();
}

}  // namespace

TEST_CASE("questions and passages of real text") {
  const testing::ScratchDirectory cache;
  const maxsim_jit::Context context({.cache_dir = cache.path(), .tune = "off"});
  Problem p = real_text(64, 96);
  p.d_lengths = true;
  const Instance instance(p);
  load<std::uint16_t>(instance, MSJ_DENSE_FORWARD_Q, "q_emb.npy");
  load<std::uint8_t>(instance, MSJ_DENSE_FORWARD_Q_MASK, "q_mask.npy");
  load<std::uint16_t>(instance, MSJ_DENSE_FORWARD_D, "d_emb.npy");
  load<std::uint8_t>(instance, MSJ_DENSE_FORWARD_D_MASK, "d_mask.npy");
  load<std::int32_t>(instance, MSJ_DENSE_FORWARD_D_LENGTHS, "d_lengths.npy");
  const auto got = score(context, instance);
  const auto want = instance.reference(context.get());
  check_close(got, want);
  const auto questions = nlohmann::json::parse(testing::read_text(kData + "questions.json"));
  for (std::size_t question = 0; question < 8; ++question) {
    CAPTURE(question);
    const auto order = ranking(got.scores, question, 64);
    CHECK(order == ranking(want.scores, question, 64));
    CHECK(order.front() == questions.at(question).at("expected_passage").get<std::size_t>());
  }
}

TEST_CASE("long passages of real text") {
  const testing::ScratchDirectory cache;
  const maxsim_jit::Context context({.cache_dir = cache.path(), .tune = "off"});
  const Instance instance(real_text(2, 299));
  load<std::uint16_t>(instance, MSJ_DENSE_FORWARD_Q, "q_emb.npy");
  load<std::uint8_t>(instance, MSJ_DENSE_FORWARD_Q_MASK, "q_mask.npy");
  load<std::uint16_t>(instance, MSJ_DENSE_FORWARD_D, "long_emb.npy");
  load<std::uint8_t>(instance, MSJ_DENSE_FORWARD_D_MASK, "long_mask.npy");
  check_close(score(context, instance), instance.reference(context.get()));
}
